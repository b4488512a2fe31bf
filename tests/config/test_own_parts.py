"""Parts from outside the package, each by a file and a key (a decoder, a metric, a format, a logit processor); inside
the package each is a file and a row."""

import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import NEVER
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config.config_file import load
from seq2seq_suite.data.formats import READERS
from seq2seq_suite.metrics import METRICS, find_metric
from seq2seq_suite.options.search import Search
from seq2seq_suite.prediction.load_run import open_run

ROOT = Path(__file__).resolve().parents[2]
DECODER = """
from seq2seq_suite.strategies.parallel.cut_at_end import CutAtEnd


class Halves(CutAtEnd):
    class Options(CutAtEnd.Options):
        scale: float = 1.0

    def own_loss(self, *given):
        loss = super().own_loss(*given)
        return type(loss)({name: self.options.scale * value for name, value in loss.sums.items()}, loss.counts,
                          loss.weights)
"""
METRIC = """
def longer(outputs, references):
    pairs = list(zip(outputs, references, strict=True))
    return {"longer": 100 * sum(len(one or "") > len(other) for one, other in pairs) / len(pairs)}
"""
FORMAT = """
def rows(file):
    for line in file.read_text().splitlines():
        source, target = line.split(" => ")
        yield {"source": source, "target": target}
"""
PROCESSOR = """
class Forbid:
    def __init__(self, symbol):
        self.symbol = symbol

    def __call__(self, scores, rows):
        scores[:, self.symbol] = float("-inf")
        return scores


def longer(scores, rows, least=0):
    if rows.history.symbols.size(1) < least:
        scores[:, 2] = float("-inf")
    return scores


def nothing(scores, rows):
    return scores.fill_(float("-inf"))


def revives(scores, rows):
    return scores.fill_(0.0)


def wrong(scores, rows):
    return scores[0]


def breaks(scores, rows):
    return scores[:, 10**6]
"""
EXPERIMENT = """
task: translation
device: cpu
data: {path: data}
translation: {source_subwords: characters, target_subwords: characters, joint: false}
backbone: {width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training: {max_updates: 2, validate_every: 2, threads: 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for split, count in (("train", 12), ("validation", 4), ("test", 4)):
        words = [" ".join(random.Random(f"{split}{row}").choices("abcde", k=3)) for row in range(count)]
        (tmp_path / f"data/{split}.tsv").write_text(
            "source\ttarget\n" + "".join(f"{one}\t{one[::-1]}\n" for one in words)
        )
        (tmp_path / f"data/{split}.arrows").write_text("".join(f"{one} => {one[::-1]}\n" for one in words))
    for name, text in (
        ("decoder.py", DECODER),
        ("metric.py", METRIC),
        ("format.py", FORMAT),
        ("processor.py", PROCESSOR),
        ("e.yaml", EXPERIMENT),
    ):
        Path(name).write_text(text)
    return tmp_path


def call(*words: str) -> int:
    return cli.main(list(words))


def test_a_decoder_from_outside_is_a_file_and_a_key(folder, capsys):
    own = load(Path("e.yaml"), ["strategy.kind=decoder.py:Halves", "strategy.scale=2"], own=True)
    assert own.strategy.scale == 2.0 and own.in_parallel and own.strategy.kind == f"{folder / 'decoder.py'}:Halves"
    with trusting(True):
        assert pickle.loads(pickle.dumps(own)) == own
    Path("e.yaml").write_text(EXPERIMENT + "strategy: {kind: 'decoder.py:Halves', scale: 2.0}\n")
    assert call("check", "e.yaml") == 0 and "is run for strategy.kind" in " ".join(capsys.readouterr().out.split())
    assert call("run", "e.yaml", "--output", "run") == 0
    Path("decoder.py").unlink()  # the run has its own
    capsys.readouterr()
    assert call("predict", "run", "a b c") == 2 and "add --trust-code" in capsys.readouterr().err
    assert call("predict", "run", "a b c", "--trust-code") == 0
    assert call("evaluate", "run", "--trust-code", "--split", "validation") == 0


@pytest.mark.parametrize(
    ("module", "base"), [("autoregressive", "Autoregressive"), ("parallel.length_head", "LengthHead")]
)
def test_a_decoder_from_outside_adds_to_the_options_of_any_of_the_suite(module, base):
    Path("decoder.py").write_text(
        f"from seq2seq_suite.strategies.{module} import {base}\n\n\nclass Own({base}):\n"
        f"    class Options({base}.Options):\n        scale: float = 1.0\n"
    )
    own = load(Path("e.yaml"), ["strategy.kind=decoder.py:Own", "strategy.scale=2"], own=True)
    assert own.strategy.scale == 2.0 and own.strategy.label_smoothing in (0.0, 0.1)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("strategy.scal=1", "did you mean strategy.scale?"),
        ("search.beam_size=3", "search.beam_size 3 has no effect"),
        ("strategy.kind=decoder.py:No", "it has no function or class No"),
        ("strategy.kind=metric.py:longer", "is no strategy"),
        ("strategy.kind=no.py:No", "there is no file"),
    ],
)
def test_what_is_wrong_with_a_decoder_from_outside_is_said(override, said):
    Path("e.yaml").write_text(EXPERIMENT + "strategy: {kind: 'decoder.py:Halves'}\n")
    with pytest.raises(ConfigError) as caught:
        load(Path("e.yaml"), [override], own=True)
    assert said in str(caught.value)


@pytest.mark.slow
def test_a_decoder_inside_is_a_file_and_a_row():
    code = f"""
import sys, types
from typing import Literal
from seq2seq_suite import strategies
module = types.ModuleType("seq2seq_suite.strategies.halves")
exec({DECODER!r}, vars(module))
class Options(module.Halves.Options):
    kind: Literal["halves"] = "halves"
module.Halves.Options = Options
sys.modules[module.__name__] = module
strategies.KINDS["halves"] = ("halves.Halves",)
from seq2seq_suite.cli.app import main
sys.exit(main(["run", "e.yaml", "strategy.kind=halves", "strategy.scale=0.5", "--output", "run"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def test_a_metric_from_outside_is_a_file_and_a_key(capsys):
    assert call("run", "e.yaml", "metrics=[metric.py:longer, error_rates]", "--output", "run") == 0
    assert {"bleu", "longer", "wer"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines() if line}
    assert (
        call("run", "e.yaml", "metrics=[metric.py:longer]", "training.max_updates=3", "--output", "run", "--resume")
        == 0
    )
    Path("gold.txt").write_text("a b\nc d\n")
    Path("given.txt").write_text("a b b\nc d\n")
    capsys.readouterr()
    score = ["score", "translation", "gold.txt", "given.txt"]
    assert call(*score, "metrics=[metric.py:longer]") == 2 and "metrics.0: " in capsys.readouterr().err
    assert call(*score, "metrics=[metric.py:longer]", "--trust-code") == 0
    assert any(line.split()[:2] == ["longer", "50.00"] for line in capsys.readouterr().out.splitlines())
    assert call("run", "e.yaml", "metrics=[blue]", "--output", "b") == 2
    assert "got 'blue' (text)\n  expected: one of bleu," in capsys.readouterr().err


def test_every_metric_of_the_table_scores_lines():
    for name in METRICS:
        assert find_metric(name)(["a b c d", None], ["a b c d", "e f g h"]).figures
    with pytest.raises(ConfigError, match="there is no metric 'blue'"):
        find_metric("blue")


def test_a_format_from_outside_is_a_file_and_a_key(capsys):
    for file in Path("data").glob("*.tsv"):
        file.unlink()
    assert call("check", "e.yaml") == 2 and "no file of the split 'train'" in capsys.readouterr().err
    assert call("check", "e.yaml", "data.format=format.py:rows") == 0
    assert "12 examples" in capsys.readouterr().out
    assert call("check", "e.yaml", "data.format=exe") == 2
    assert "data.format exe: choose one of jsonl, " in capsys.readouterr().err
    for file in Path("data").glob("*.arrows"):
        file.with_suffix(".columns").write_text("source\ttarget\n" + file.read_text().replace(" => ", "\t"))
        file.unlink()
    assert call("check", "e.yaml", "data.format=tsv") == 0 and ".tsv" in READERS


FORBID = [
    "search.processors=[processor.py:Forbid, processor.py:longer]",
    "search.processor_options.Forbid.symbol=5",
    "search.processor_options.longer.least=4",
]


def written(overrides: list[str]) -> list[tuple[int, ...]]:
    with trusting(True):
        run = open_run(Path("run"), overrides)
    encoded = run.task.encode([run.task.from_text(" ".join(one)) for one in ("abc", "de", "cab", "b")])
    return [one.symbols for hypotheses in run.predictor.hypotheses(encoded) for one in hypotheses]


@pytest.mark.parametrize("kernels", ["fast", "plain"])
def test_a_logit_processor_from_outside_is_a_file_and_a_key(folder, capsys, kernels):
    assert call("run", "e.yaml", "--output", "run", "training.max_updates=1", f"kernels={kernels}", *FORBID) == 0
    Path("processor.py").unlink()  # the run has its own
    capsys.readouterr()
    assert call("predict", "run", "a b c") == 2 and "search.processors.0: " in capsys.readouterr().err
    for search in (["search.beam_size=1"], ["search.beam_size=3"], ["search.sampling=true"]):
        free = written([*search, "search.processor_options.Forbid.symbol=0"])  # padding, which no output has
        common = Counter(symbol for one in free for symbol in one).most_common(1)[0][0]
        found = written([*search, f"search.processor_options.Forbid.symbol={common}"])
        assert all(common not in one and len(one) >= 4 for one in found)


def test_code_that_is_typed_is_looked_for_where_one_stands_then_beside_the_yaml(folder):
    (folder / "other").mkdir()
    yaml = (folder / "e.yaml").rename(folder / "other" / "e.yaml")
    with trusting(True):
        for place in (folder, folder / "other"):
            found = load(yaml, FORBID, own=True).search.processors
            assert {Path(one.partition(":")[0]).parent for one in found} == {place.resolve()}
            if place == folder:
                (folder / "processor.py").rename(folder / "other" / "processor.py")


def test_a_processor_neither_brings_back_a_symbol_nor_takes_all():
    scores = torch.tensor([[NEVER, 1.0, 2.0]])
    with trusting(True):
        nothing, revives = Search(processors=("processor.py:nothing", "processor.py:revives")).own_processors()
    assert nothing(scores, None).equal(scores)
    assert revives(scores, None).tolist() == [[NEVER, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["search.compile=true"], "search.compile true has no effect with search.processors"),
        (["strategy.kind=ctc"], "has no effect with strategy.kind ctc expected: strategy.kind autoregressive"),
        (["search.processors=[forbid]"], "got 'forbid' (text) expected: FILE.py:NAME"),
        (["search.processors=[processor.py:No]"], "it has no function or class No"),
        (["search.processor_options.longest.least=2"], "choose from Forbid, longer"),
        (["search.processor_options.longer.most=2"], "longer() got an unexpected keyword argument 'most'"),
        (
            ["search.processors=[processor.py:breaks]", "search.processor_options={}"],
            "processor.py:30: search.processors: breaks fails: IndexError",
        ),
        (["search.processors=[processor.py:wrong]", "search.processor_options={}"], "for logits of shape ("),
    ],
)
def test_what_a_logit_processor_cannot_do_is_refused_by_name(overrides, said, capsys):
    assert call("run", "e.yaml", *FORBID, *overrides, "--output", "run") == 2
    assert said in " ".join(capsys.readouterr().err.split())
