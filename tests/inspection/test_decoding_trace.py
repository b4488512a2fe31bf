"""A trace tells how the output came about that `predict` gives."""

from functools import cache

import pytest
from serving import train

from seq2seq_suite.common.examples import Example
from seq2seq_suite.inspection.decoding_trace import trace
from seq2seq_suite.prediction.load_run import open_run

SOURCE = "The dog sees a cat ."


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A function: kind of strategy -> (trace, prediction) of one sentence."""
    folder = tmp_path_factory.mktemp("traced")

    @cache
    def of(kind):
        train(folder / kind, task="translation", strategy={"kind": kind})
        settings = ["search.beam_size=1", *(["search.iterations=4"] if kind == "mask_predict" else [])]
        loaded, example = open_run(folder / kind, settings), Example(SOURCE, None, "")
        return trace(loaded, example), next(loaded.predict([example]))[0][0]

    return of


def text_of(symbols):
    return " ".join("".join(symbols).replace("\u2581", " ").split())


@pytest.mark.parametrize("kind", ["length_head", "mask_predict", "cut_at_end"])
def test_the_last_pass_has_the_prediction(traced, kind):
    steps, prediction = traced(kind)
    last, times = steps["passes"][-1], [one["milliseconds"] for one in steps["passes"]]
    assert steps["kind"] == kind and text_of(last["symbols"]) == prediction
    assert times == sorted(times) and times[-1] <= steps["milliseconds"]
    assert ("predicted_length" in steps) == (kind != "cut_at_end")


def test_a_pass_of_mask_predict_writes_what_is_not_yet_known(traced):
    steps, _ = traced("mask_predict")
    assert len(steps["passes"]) == 4 and all(steps["passes"][0]["written"])
    written = [sum(one["written"]) for one in steps["passes"]]
    assert written == sorted(written, reverse=True)


def test_left_to_right_each_pass_writes_one_symbol(traced):
    steps, prediction = traced("autoregressive")
    symbols = [one["symbols"] for one in steps["passes"]]
    assert all(len(one) == 1 for one in symbols)
    assert text_of([one for [one] in symbols if one != "<end>"]) == prediction


def test_a_pass_of_blocks_lights_up_what_it_writes(traced):
    told, prediction = traced("blocks")
    symbols, passes = told["passes"][0]["symbols"], told["passes"]
    assert text_of([one for one in symbols if one != "<end>"]) == prediction and told["kind"] == "blocks"
    assert all(one["symbols"] == symbols and any(one["written"]) for one in passes)
    assert [sum(flags) for flags in zip(*(one["written"] for one in passes), strict=True)] == [1] * len(symbols)
    times = [one["milliseconds"] for one in passes]
    assert times == sorted(times) and times[-1] <= told["milliseconds"]


def test_frames_of_ctc_collapse_to_the_prediction(traced):
    steps, prediction = traced("ctc")
    names = [name for name, _ in steps["frames"]]
    kept = [name for before, name in zip(["", *names], names, strict=False) if name and name != before]
    assert text_of(kept) == prediction and all(0 <= p <= 1 for _, p in steps["frames"])


def test_the_path_through_a_graph_visits_the_symbols_of_the_prediction(traced):
    steps, prediction = traced("dag")
    names = [name for name, _ in steps["graph"]["vertices"]]
    assert text_of([names[place] for place in steps["graph"]["path"]]).removesuffix("<end>") == prediction


@pytest.mark.parametrize(
    ("kind", "search"),
    [("autoregressive", []), ("autoregressive", ["search.beam_size=4"]), ("length_head", ["search.beam_size=4"])],
)
def test_the_candidates_of_risk_begin_with_the_prediction(tmp_path, kind, search):
    train(tmp_path / "run", task="translation", strategy={"kind": kind})
    loaded, example = open_run(tmp_path / "run", ["search.risk=4", *search]), Example(SOURCE, None, "")
    steps, prediction = trace(loaded, example), next(loaded.predict([example]))[0]
    assert set(steps) == {"kind", "milliseconds", "candidates", "metric", "sampled"}
    assert (steps["kind"], steps["metric"], steps["sampled"]) == (kind, "BLEU", not search)
    texts, utilities, counts = zip(*steps["candidates"], strict=True)
    assert (texts[0], utilities[0]) == (prediction[0], pytest.approx(prediction[1], abs=1e-3))
    assert len(set(texts)) == len(texts) and sum(counts) == 4 and list(utilities) == sorted(utilities, reverse=True)


@pytest.mark.parametrize("kind", ["length_head", "ctc"])
def test_the_steps_of_a_rescored_output_are_those_of_the_one_that_was_chosen(tmp_path, kind):
    for name in ("autoregressive", kind):
        train(tmp_path / name, task="translation", strategy={"kind": name})
    settings = ["search.beam_size=8"]
    alone = open_run(tmp_path / kind, settings)
    rescored = open_run(tmp_path / kind, [*settings, f"search.rescorer={tmp_path / 'autoregressive'}"])
    examples = [Example(" ".join(SOURCE.split()[:length]), None, "") for length in range(1, 7)]
    chosen = [found[0][0] for found in rescored.predict(examples)]
    assert chosen != [found[0][0] for found in alone.predict(examples)]
    for example, prediction in zip(examples, chosen, strict=True):
        assert _written(trace(rescored, example)) == prediction


def _written(steps):
    """The output that a trace ends with."""
    if "frames" not in steps:
        return text_of(steps["passes"][-1]["symbols"])
    names = [name for name, _ in steps["frames"]]
    return text_of([name for before, name in zip(["", *names], names, strict=False) if name and name != before])
