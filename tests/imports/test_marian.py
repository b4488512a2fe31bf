"""A run of an imported MarianMTModel computes what transformers does, and what the suite cannot express is refused."""

import json
import shutil

import pytest
import torch
from pretrained import TEXTS, generated, need_transformers, taught, write_marian
from safetensors.torch import load_file, save_file

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN
from seq2seq_suite.data.batching import collate
from seq2seq_suite.export.transformers_models import write
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.weights import MODEL

EVEN = {"d_model": 16}
ODD = {
    "d_model": 15,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "encoder_layers": 3,
    "decoder_layers": 1,
    "activation_function": "relu",
    "max_position_embeddings": 131,
}
KINDS = {"even": EVEN, "odd": ODD, "separate": {"separate": True}}
PAIRS = list(map(Example, TEXTS["en"], TEXTS["de"]))
ALONE = ["device=cpu", "training.threads=1", "strategy.label_smoothing=0.0"]


def taken(folder, output, *changes):
    assert cli.main(["import", str(folder), "--output", str(output)]) == 0
    return open_run(output, [*ALONE, *changes])


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """One model as transformers has it, with its tokenizer, and as a run; and the folder with both."""
    transformers, folder = need_transformers(), tmp_path_factory.mktemp(request.param)
    model = write_marian(folder / "theirs", **KINDS[request.param])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "theirs")
    return model, tokenizer, taken(folder / "theirs", folder / "run"), folder


def both(pair, examples):
    """A batch of both: the suite's, and what transformers' model is called with."""
    _, tokenizer, run, _ = pair
    texts, targets = [one.source for one in examples], [one.reference for one in examples]
    theirs = tokenizer(texts, text_target=targets, return_tensors="pt", padding=True)
    theirs["labels"] = theirs["labels"].masked_fill(theirs["labels"] == tokenizer.pad_token_id, -100)
    return collate(run.task.encode(examples), "translation"), theirs


def test_the_tokenizers_agree(pair):
    _, tokenizer, run, _ = pair
    sources, targets = rows_of(pair)
    for text in [*TEXTS["en"][:20], ">>deu<< The dog – sees  it.", "Жук!", "ﬁ"]:
        assert [sources[number] for number in run.task.source.encode(text, {})] == tokenizer(text)["input_ids"]
    for text in [*TEXTS["de"][:20], "Ж"]:
        ids, theirs = run.task.target.encode(text, {}), tokenizer(text_target=text)["input_ids"]
        assert [targets[number] for number in ids] == theirs[:-1]
        if text != "Ж":
            assert run.task.target.pieces.decode(ids) == tokenizer.decode(theirs, skip_special_tokens=True)


def test_logits_and_loss_are_equal_in_a_padded_batch_and_alone(pair):
    model, _, run, _ = pair
    learner = run.predictor.learner
    for examples in (PAIRS[:5], PAIRS[7:8]):
        batch, theirs = both(pair, examples)
        with torch.no_grad():
            wanted = model(**theirs)
            loss = learner(batch)
            begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
            logits = learner.model(batch.source, batch.source_mask, begun)
        picked = logits.log_softmax(-1)[batch.target_mask].gather(1, batch.target[batch.target_mask].unsqueeze(1))
        labels = theirs["labels"]
        expected = wanted.logits.log_softmax(-1)[labels != -100].gather(1, labels[labels != -100].unsqueeze(1))
        torch.testing.assert_close(picked, expected, rtol=0, atol=2e-5)
        ((name, total),) = loss.sums.items()
        assert float(total) / int(loss.counts[name]) == pytest.approx(float(wanted.loss), abs=1e-5)


def test_gradients_are_equal(pair, tmp_path):
    """Theirs are written in the place of weights, and imported as those were."""
    model, _, run, folder = pair
    batch, theirs = both(pair, PAIRS[:4])
    model.zero_grad()
    model(**theirs).loss.backward()
    shutil.copytree(folder / "theirs", tmp_path / "gradients")
    weights = load_file(folder / "theirs" / MODEL)
    given = {name: parameter.grad for name, parameter in model.named_parameters(remove_duplicate=False)}
    save_file(
        {name: given.get(name, torch.zeros_like(one)).contiguous() for name, one in weights.items()},
        tmp_path / "gradients" / MODEL,
        metadata={"format": "pt"},
    )
    wanted = dict(taken(tmp_path / "gradients", tmp_path / "run").predictor.model.named_parameters())
    learner = run.predictor.learner
    learner.zero_grad()
    loss = learner(batch)
    ((name, total),) = loss.sums.items()
    (total / loss.counts[name]).backward()
    checked = 0
    for name, parameter in learner.model.named_parameters():
        if name != "output.bias":  # theirs is fixed
            found, expected = parameter.grad, wanted[name].detach()
            if "embedding" in name:  # of BEGIN theirs has no row of its own
                found, expected = (torch.cat((one[:BEGIN], one[BEGIN + 1 :])) for one in (found, expected))
            torch.testing.assert_close(
                found, expected, rtol=1e-4, atol=1e-6, msg=lambda said, name=name: f"{name}: {said}"
            )
            checked += float(expected.abs().max()) > 1e-4
    assert checked > 20


def test_greedy_outputs_are_equal(pair):
    model, tokenizer, _, folder = pair
    run = open_run(folder / "run", [*ALONE, "search.beam_size=1"])
    examples = [run.task.from_text(text) for text in TEXTS["en"][:2]]
    options = run.predictor.options
    for example, found in zip(examples, run.predict(examples), strict=True):
        size = len(run.task.source.encode(example.source, {}))
        limit = int(options.max_length_factor * size) + options.max_length_extra
        assert found[0][0] == generated(model, tokenizer, example.source, limit)[0]


@pytest.mark.slow
def test_a_model_that_has_learned_gives_equal_outputs_and_scores_by_five_beams(tmp_path):
    transformers = need_transformers()
    model = write_marian(tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts, targets = TEXTS["en"][:8], TEXTS["de"][:8]
    batch = tokenizer(texts, text_target=targets, return_tensors="pt", padding=True)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    taught(model, batch, 100).save_pretrained(tmp_path / "theirs")
    run = taken(tmp_path / "theirs", tmp_path / "run", "search.beam_size=5", "search.length_penalty=0.0")
    found = [one[0] for one in run.predict([run.task.from_text(text) for text in texts])]
    wanted = [generated(model, tokenizer, text, 100, beams=5) for text in texts]
    assert len({text for text, _ in wanted}) > 6
    assert [text for text, _ in found] == [text for text, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-3)


def test_a_source_as_long_as_positions_allow_gives_equal_logits(pair):
    model, _, run, _ = pair
    size = run.config.backbone.max_positions
    torch.manual_seed(5)
    source = torch.randint(4, len(run.task.source), (1, size))
    target = torch.randint(4, len(run.task.target), (1, size - 1))
    begun = torch.cat((torch.full((1, 1), BEGIN), target), 1)
    rows = [torch.tensor(one) for one in rows_of(pair)]
    with torch.no_grad():
        ours = run.predictor.model(source, torch.ones_like(source, dtype=torch.bool), begun)
        theirs = model(input_ids=rows[0][source], decoder_input_ids=rows[1][begun]).logits
    others = [number for number in range(len(run.task.target)) if number != BEGIN]
    torch.testing.assert_close(ours[..., others], theirs[..., rows[1][others]], rtol=0, atol=5e-5)


def rows_of(pair):
    """Their number of each of our symbols, of both sides."""
    _, _, run, folder = pair
    found = []
    for side, name in ((run.task.source, "vocab.json"), (run.task.target, "target_vocab.json")):
        path = folder / "theirs" / name
        table = json.loads((path if path.exists() else path.with_name("vocab.json")).read_text())
        specials = [table["<pad>"], table["<pad>"], table["</s>"], table["<unk>"]]
        found.append(specials + [table[name] for name in side.pieces.names(range(4, len(side)))])
    return found


def test_what_comes_in_goes_out_and_comes_in_again_bit_for_bit(pair, tmp_path):
    folder = pair[3]
    assert cli.main(["export", str(folder / "run"), "--to", "transformers", str(tmp_path / "out")]) == 0
    again = taken(tmp_path / "out", tmp_path / "run")
    ours, theirs = (load_file(run / "checkpoints" / "best" / MODEL) for run in (folder / "run", tmp_path / "run"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    examples = [again.task.from_text(text) for text in TEXTS["en"][:3]]
    assert [one[0] for one in again.predict(examples)] == [one[0] for one in pair[2].predict(examples)]
    assert (tmp_path / "run" / "config.yaml").read_text() == (folder / "run" / "config.yaml").read_text()


def test_what_goes_back_to_transformers_writes_the_same_texts(pair, tmp_path):
    *_, folder = pair
    transformers, run = need_transformers(), open_run(folder / "run", [*ALONE, "search.beam_size=1"])
    write(run, tmp_path)
    model, tokenizer = (
        kind.from_pretrained(tmp_path) for kind in (transformers.AutoModelForSeq2SeqLM, transformers.AutoTokenizer)
    )
    search = run.config.search
    for text in TEXTS["en"][:3]:
        batch = tokenizer(text, return_tensors="pt")
        most = int(batch["input_ids"].size(1) * search.max_length_factor) + search.max_length_extra
        found = model.generate(**batch, num_beams=1, max_length=most + 1)
        ((best, *_),) = run.predict([run.task.from_text(text)])
        assert tokenizer.decode(found[0], skip_special_tokens=True).split() == best[0].split()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("whole") / "opus"
    write_marian(folder)
    return folder


def change_json(name, **changes):
    def change(folder):
        path = folder / name
        content = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))

    return change


def change_weights(**changes):
    """Tensors in the place of others, whose dots are two underscores here; None removes one."""

    def change(folder):
        weights = load_file(folder / MODEL)
        for name, made in changes.items():
            key = name.replace("__", ".")
            weights[key] = made(weights.get(key)) if made else None
        save_file({name: one for name, one in weights.items() if one is not None}, folder / MODEL)

    return change


def cut(name, share=0.7):
    def change(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return change


def without(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


class Evil:
    """What unpickles by calling a function."""

    def __reduce__(self):
        return exec, ("raise SystemExit('it was run')",)


def as_bin(content):
    def change(folder):
        (folder / MODEL).unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return change


SIX = "model__encoder__layers__1__fc1__weight"
BROKEN = {
    "another architecture": (change_json("config.json", model_type="bert"), "model_type is bert", "marian"),
    "no architecture": (change_json("config.json", model_type=None), "model_type is None", "str"),
    "another activation": (change_json("config.json", activation_function="tanh"), "tanh", "swish"),
    "unscaled": (change_json("config.json", scale_embedding=False), "scale_embedding", "sqrt"),
    "other heads": (change_json("config.json", decoder_attention_heads=4), "attention_heads are 2 in the", "equal"),
    "more layers": (change_json("config.json", encoder_layers=3), "no weight model.encoder.layers.2", "shape"),
    "fewer layers": (change_json("config.json", decoder_layers=1), "model.decoder.layers.1", "config.json"),
    "another width": (change_json("config.json", encoder_ffn_dim=25, decoder_ffn_dim=25), "(24, 16)", "(25, 16)"),
    "words for numbers": (change_json("config.json", d_model="16"), "d_model is '16'", "int"),
    "a missing weight": (change_weights(**{SIX: None}), "no weight model.encoder.layers.1.fc1.weight", "(24, 16)"),
    "an unused weight": (
        change_weights(model__encoder__layer_norm__bias=lambda _: torch.ones(16)),
        "layer_norm.bias",
        "",
    ),
    "no numbers": (change_weights(**{SIX: lambda one: one / 0}), "not finite", "weights"),
    "whole numbers": (change_weights(**{SIX: lambda one: one.to(torch.int8)}), "int8", "weights"),
    "learned positions": (
        change_weights(model__encoder__embed_positions__weight=lambda _: torch.randn(128, 16)),
        "learned positions",
        "sinusoids",
    ),
    "another output": (change_weights(lm_head__weight=lambda _: torch.randn(245, 16)), "lm_head.weight", ""),
    "half a download": (cut(MODEL), "no weights", "whole file"),
    "no weights": (without(MODEL), "no weights", MODEL),
    "no configuration": (without("config.json"), "config.json", "folder"),
    "a broken configuration": (cut("config.json"), "config.json", "JSON"),
    "no tokenizer": (without("source.spm"), "source.spm is missing", ""),
    "no numbers of pieces": (without("vocab.json"), "vocab.json", ""),
    "half a tokenizer": (cut("target.spm"), "target.spm", "SentencePiece"),
    "another tokenizer": (change_json("tokenizer_config.json", tokenizer_class="T5Tokenizer"), "T5Tokenizer", "Marian"),
    "another vocabulary": (change_json("vocab.json", more=9999), "pieces for", "vocabulary"),
    "code": (as_bin({"a": Evil()}), "no weights", "whole file"),
    "lists": (as_bin({"a": [1, 2]}), "something else than tensors", "whole file"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_the_suite_cannot_take_in_is_refused_by_name_and_leaves_nothing(whole, tmp_path, capsys, kind):
    change, got, expected = BROKEN[kind]
    shutil.copytree(whole, tmp_path / "opus")
    change(tmp_path / "opus")
    assert cli.main(["import", str(tmp_path / "opus"), "--output", str(tmp_path / "runs" / "run")]) == 2
    said = capsys.readouterr().err
    assert got in said.split("\n")[0] and expected in said and "Traceback" not in said, said
    assert "remedy" in said and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: no model"),
        (["RUN"], "a run of the suite"),
        (["Helsinki-NLP/opus-mt-en-de"], "HF_HUB_OFFLINE is set"),
        (["WHOLE", "search.beam=2"], "search.beam"),
        (["WHOLE", "task=summarisation"], "a section of another task"),
        (["WHOLE", "backbone.width=32"], "backbone.width=32"),
        (["WHOLE", "strategy.kind=length_head"], "no weights for"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_refused(whole, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if "RUN" in words:
        taken(whole, tmp_path / "other")
    places = {"RUN": str(tmp_path / "other"), "WHOLE": str(whole)}
    assert cli.main(["import", *(places.get(word, word) for word in words), "--output", str(tmp_path / "run")]) == 2
    found = capsys.readouterr().err
    assert said in found and "Traceback" not in found and not (tmp_path / "run").exists()


# -- other forms of the same -------------------------------------------------------------------------------------------


def halve(folder):
    weights = load_file(folder / MODEL)
    save_file({name: one.half() for name, one in weights.items()}, folder / MODEL)


def shard(folder):
    weights = list(load_file(folder / MODEL).items())
    (folder / MODEL).unlink()
    names = {}
    for number, some in enumerate((weights[:40], weights[40:]), 1):
        name = f"model-0000{number}-of-00002.safetensors"
        save_file(dict(some), folder / name)
        names |= dict.fromkeys(dict(some), name)
    (folder / f"{MODEL}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


def as_it_once_was(folder):
    """One file of pickles with copies of tied matrices and tables of positions, as models of 2020 have it."""
    transformers = need_transformers()
    model = transformers.MarianMTModel.from_pretrained(folder)
    (folder / MODEL).unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


@pytest.mark.parametrize("change", [halve, shard, as_it_once_was])
def test_half_precision_shards_and_older_files_are_read(whole, tmp_path, capsys, change):
    shutil.copytree(whole, tmp_path / "opus")
    change(tmp_path / "opus")
    found, wanted = taken(tmp_path / "opus", tmp_path / "run"), taken(whole, tmp_path / "whole")
    assert ("float16 are kept as float32" in capsys.readouterr().out) == (change is halve)
    theirs = wanted.predictor.model.state_dict()
    for name, tensor in found.predictor.model.state_dict().items():
        assert torch.equal(tensor, theirs[name].half().float() if change is halve else theirs[name])


def test_weights_that_are_kept_in_bfloat16_are_rounded_once_and_counted(whole, tmp_path, capsys):
    """Marian's weights are renumbered, so that those of a checkpoint in bfloat16 stay what they are."""
    half = tmp_path / "half"
    shutil.copytree(whole, half)
    weights = load_file(half / MODEL)
    save_file({name: one.bfloat16() for name, one in weights.items()}, half / MODEL, metadata={"format": "pt"})
    found = {}
    for name, folder, dtype in (("full", whole, "float32"), ("run", whole, "bfloat16"), ("half", half, "bfloat16")):
        run = tmp_path / f"{name}-run"
        assert cli.main(["import", str(folder), "--output", str(run), "--dtype", dtype]) == 0
        found[name] = load_file(run / "checkpoints" / "best" / MODEL), capsys.readouterr().out
    full, kept = found["full"][0], found["run"][0]
    assert full.keys() == kept.keys() and {one.dtype for one in kept.values()} == {torch.bfloat16}
    assert all(torch.equal(kept[name], one.bfloat16()) for name, one in full.items())
    total = sum(one.numel() for one in full.values())
    rounded = sum(int((one.bfloat16() != one).sum()) for one in full.values())
    assert f"kept as bfloat16, to which {rounded:,} of {total:,} were rounded" in found["run"][1] and rounded
    assert f"to which 0 of {total:,} were rounded" in found["half"][1]
    state = open_run(tmp_path / "half-run", ALONE).predictor.learner.state_dict()
    assert all(torch.equal(state[name], one.float()) for name, one in found["half"][0].items())


def test_a_shard_that_is_missing_is_named(whole, tmp_path, capsys):
    shutil.copytree(whole, tmp_path / "opus")
    shard(tmp_path / "opus")
    (tmp_path / "opus" / "model-00002-of-00002.safetensors").unlink()
    assert cli.main(["import", str(tmp_path / "opus"), "--output", str(tmp_path / "run")]) == 2
    assert "model-00002-of-00002.safetensors" in capsys.readouterr().err
