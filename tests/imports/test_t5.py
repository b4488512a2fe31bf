"""A run of an imported T5ForConditionalGeneration computes what transformers does."""

import json
import shutil

import pytest
import torch
from pretrained import TEXTS, changed_run, generated, need_transformers, roughened, taught, write_t5
from safetensors.torch import load_file, save_file

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN, PAD
from seq2seq_suite.data.batching import collate
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.weights import MODEL

KINDS = {
    "first": {},
    "gated": {"gated": True},
    "narrow": {"gated": True, "d_model": 21, "d_kv": 7, "num_heads": 2, "d_ff": 40, "num_decoder_layers": 1},
    "odd": {"d_model": 15, "d_kv": 5, "num_heads": 3, "d_ff": 37, "num_layers": 3, "num_decoder_layers": 1},
}
PAIRS = list(map(Example, TEXTS["en"], TEXTS["de"]))
ALONE = ["device=cpu", "training.threads=1", "strategy.label_smoothing=0.0"]


def taken(folder, output, *changes):
    assert cli.main(["import", str(folder), "--output", str(output)]) == 0
    return open_run(output, [*ALONE, *changes])


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """One model as transformers has it, and as a run; and the folder with both."""
    folder = tmp_path_factory.mktemp(request.param)
    model = write_t5(folder / "theirs", **KINDS[request.param])
    return model, taken(folder / "theirs", folder / "run"), folder


def theirs_of(run, batch):
    """What transformers' model is called with: their ids are ours in another order."""
    size = len(run.task.target)
    order = torch.tensor([0, 0, 1, 2, *range(3, size - 1)])  # PAD, BEGIN, END, UNKNOWN, and all others
    labels = order[batch.target].masked_fill(~batch.target_mask, -100)
    return order, {"input_ids": order[batch.source], "attention_mask": batch.source_mask.long(), "labels": labels}


def test_pieces_have_the_numbers_of_their_tokenizer(pair):
    _, run, folder = pair
    tokenizer = need_transformers().T5Tokenizer.from_pretrained(folder / "theirs")
    for text in [*TEXTS["en"][:20], "ﬁ – Жук!"]:
        batch = collate(run.task.encode([run.task.from_text(text)]), "translation")
        assert theirs_of(run, batch)[1]["input_ids"][0].tolist() == tokenizer(text)["input_ids"]
    ids = run.task.target.encode(TEXTS["de"][0], {})
    assert run.task.target.pieces.decode(ids) == TEXTS["de"][0]


def test_logits_and_loss_are_equal_in_a_padded_batch_and_beyond_the_farthest_bucket(pair):
    model, run, _ = pair
    learner = run.predictor.learner
    long = [Example(" ".join(TEXTS["en"][:12]), " ".join(TEXTS["de"][:12])), PAIRS[0]]
    for examples in (PAIRS[:5], long):
        batch = collate(run.task.encode(examples), "translation")
        order, theirs = theirs_of(run, batch)
        with torch.no_grad():
            wanted, loss = model(**theirs), learner(batch)
            begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
            logits = learner.model(batch.source, batch.source_mask, begun)
        others = [number for number in range(len(order)) if number != BEGIN]
        found, expected = logits[batch.target_mask][:, others], wanted.logits[batch.target_mask][:, order[others]]
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-4)
        ((name, total),) = loss.sums.items()
        assert float(total) / int(loss.counts[name]) == pytest.approx(float(wanted.loss), rel=1e-5)
    assert batch.source.size(1) > 140


def test_gradients_are_equal(pair, tmp_path):
    """Theirs are written in the place of weights, and imported as those were: with the factor of each squared."""
    model, run, folder = pair
    batch = collate(run.task.encode(PAIRS[:4]), "translation")
    model.zero_grad()
    model(**theirs_of(run, batch)[1]).loss.backward()
    shutil.copytree(folder / "theirs", tmp_path / "gradients")
    given = {name: parameter.grad for name, parameter in model.named_parameters(remove_duplicate=False)}
    weights = {name: given[name].contiguous() for name in load_file(folder / "theirs" / MODEL)}
    save_file(weights, tmp_path / "gradients" / MODEL, metadata={"format": "pt"})
    wanted = dict(taken(tmp_path / "gradients", tmp_path / "run").predictor.model.named_parameters())
    learner = run.predictor.learner
    learner.zero_grad()
    loss = learner(batch)
    ((name, total),) = loss.sums.items()
    (total / loss.counts[name]).backward()
    width, head = model.config.d_model, model.config.d_kv
    for name, parameter in learner.model.named_parameters():
        if name.endswith(".bias"):
            continue  # theirs has none
        found, expected = parameter.grad, wanted[name].detach()
        if "embedding" in name:  # theirs begins with padding
            expected = expected * width
            found = torch.cat((found[PAD : PAD + 1] + found[BEGIN : BEGIN + 1], found[BEGIN + 1 :]))
            expected = torch.cat((expected[:BEGIN], expected[BEGIN + 1 :]))
        elif name == "output.weight":
            found, expected = (torch.cat((one[:BEGIN], one[BEGIN + 1 :])) for one in (found, expected))
        elif ".query." in name:
            expected = expected / head
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5, msg=lambda said, name=name: f"{name}: {said}")


def logits_of(model, run, examples):
    """Ours and theirs, of the symbols that outputs may have."""
    batch = collate(run.task.encode(examples), "translation")
    order, theirs = theirs_of(run, batch)
    begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
    others = [number for number in range(len(order)) if number != BEGIN]
    with torch.no_grad():
        ours = run.predictor.model(batch.source, batch.source_mask, begun)
        return ours[batch.target_mask][:, others], model(**theirs).logits[batch.target_mask][:, order[others]]


def test_what_comes_in_goes_out_and_comes_in_again_bit_for_bit(pair, tmp_path):
    model, run, folder = pair
    assert cli.main(["export", str(folder / "run"), "--to", "transformers", str(tmp_path / "out")]) == 0
    theirs = need_transformers().AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    before = model.state_dict()
    for name, one in theirs.state_dict().items():
        torch.testing.assert_close(one, before[name], rtol=1e-6, atol=0)
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(tmp_path / "out")
    first = need_transformers().T5Tokenizer.from_pretrained(folder / "theirs")
    assert tokenizer(TEXTS["en"][0])["input_ids"] == first(TEXTS["en"][0])["input_ids"]
    torch.testing.assert_close(*logits_of(theirs, run, PAIRS[:5]), rtol=0, atol=2e-4)
    again = taken(tmp_path / "out", tmp_path / "run")
    ours, later = (one.predictor.learner.state_dict() for one in (run, again))
    assert ours.keys() == later.keys() and all(torch.equal(one, later[name]) for name, one in ours.items())
    assert (tmp_path / "run" / "config.yaml").read_text() == (folder / "run" / "config.yaml").read_text()


LEARNED = {
    "a bias": ("model.encoder.layers.0.attention.query.bias", "has no biases, but encoder.layers.0.attention.query"),
    "the output's bias": ("model.output.bias", "has no biases, but output.bias has learned"),
    "the beginning": ("model.frontend.embedding.weight", "begins with padding, whose vector here is not"),
}


@pytest.mark.parametrize("kind", LEARNED)
def test_what_t5_cannot_have_is_refused_by_name(pair, tmp_path, capsys, kind):
    name, said = LEARNED[kind]

    def learn(weights):
        weights[name] = weights[name].clone()
        weights[name][BEGIN + (kind == "the output's bias")] += 0.5

    place = changed_run(pair[2] / "run", tmp_path / "run", learn)
    assert cli.main(["export", str(place), "--to", "transformers", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error and "backbone.lora" in error and "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_with_low_rank_changes_goes_out(tmp_path):
    write_t5(tmp_path / "theirs", gated=True, d_model=21, d_kv=7, num_heads=2, d_ff=40)
    base = taken(tmp_path / "theirs", tmp_path / "base")
    rows = [json.dumps({"source": one.source, "target": one.reference}) for one in PAIRS[:8]]
    (tmp_path / "data").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    words = [f"data.path={tmp_path / 'data'}", f"init_from={tmp_path / 'base'}", "init_parts=[all]", "device=cpu"]
    words += ["backbone.lora.rank=2", "training.max_updates=3", "training.warmup_updates=0", "data.max_length=100"]
    words += ["training.learning_rate=0.05", "training.threads=1", "training.validate_every=3"]
    assert cli.main(["run", str(tmp_path / "base/config.yaml"), *words, "--output", str(tmp_path / "run")]) == 0
    assert cli.main(["export", str(tmp_path / "run"), "--to", "transformers", str(tmp_path / "out")]) == 0
    theirs = need_transformers().AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    ours, wanted = logits_of(theirs, open_run(tmp_path / "run", ALONE), PAIRS[:4])
    torch.testing.assert_close(ours, wanted, rtol=0, atol=2e-4)
    assert float((logits_of(theirs, base, PAIRS[:4])[0] - ours).abs().max()) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("gated", [False, True])
def test_a_model_that_has_learned_gives_equal_outputs_by_greedy_search_and_five_beams(tmp_path, gated):
    model = write_t5(tmp_path / "theirs", gated=gated)
    tokenizer = need_transformers().T5Tokenizer.from_pretrained(tmp_path / "theirs")
    texts, targets = TEXTS["en"][:8], TEXTS["de"][:8]
    batch = tokenizer(texts, text_target=targets, return_tensors="pt", padding=True)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    roughened(model, 0.0)
    weights = taught(model, batch, 120).state_dict()
    kept = load_file(tmp_path / "theirs" / MODEL).keys()
    save_file({name: weights[name].contiguous() for name in kept}, tmp_path / "theirs" / MODEL)
    for beams in (1, 5):
        run = taken(
            tmp_path / "theirs", tmp_path / f"{beams}", f"search.beam_size={beams}", "search.length_penalty=0.0"
        )
        found = [one[0] for one in run.predict([run.task.from_text(text) for text in texts])]
        wanted = [generated(model, tokenizer, text, 100, beams=beams) for text in texts]
        assert len({text for text, _ in wanted}) > 6
        assert [text for text, _ in found] == [text for text, _ in wanted]
        if beams > 1:
            assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-3)


def config_with(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


BROKEN = {
    "buckets": (config_with(relative_attention_num_buckets=16), "relative_attention_num_buckets is 16"),
    "activation": (config_with(feed_forward_proj="gated-silu"), "gated-silu"),
    "heads": (config_with(num_heads=4), "4 heads of width 8"),
    "width": (config_with(feed_forward_proj="gated-gelu", d_ff=25), "d_ff is 25"),
    "another norm": (config_with(layer_norm_epsilon=1e-5), "layer_norm_epsilon"),
    "no tokenizer": (lambda folder: (folder / "spiece.model").unlink(), "spiece.model is missing"),
    "a smaller vocabulary": (config_with(vocab_size=100), "shape"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_the_suite_cannot_take_in_is_refused_by_name(tmp_path, capsys, kind):
    change, said = BROKEN[kind]
    write_t5(tmp_path / "t5")
    change(tmp_path / "t5")
    assert cli.main(["import", str(tmp_path / "t5"), "--output", str(tmp_path / "run")]) == 2
    found = capsys.readouterr().err
    assert said in found and "Traceback" not in found and not (tmp_path / "run").exists()


def test_files_as_they_once_were_give_the_same_run(tmp_path):
    """Of T5 1.0: copies of the embedding, a bias that was never used, and few keys in config.json."""
    write_t5(tmp_path / "t5")
    wanted = taken(tmp_path / "t5", tmp_path / "run").predictor.model.state_dict()
    path, weights = tmp_path / "t5" / "config.json", load_file(tmp_path / "t5" / MODEL)
    unnamed = ("feed_forward_proj", "num_decoder_layers", "scale_decoder_outputs", "tie_word_embeddings")
    config = {key: value for key, value in json.loads(path.read_text()).items() if key not in unnamed}
    path.write_text(json.dumps(config | {"n_positions": 512}))
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    weights |= {name: weights["shared.weight"].clone() for name in copies}
    weights["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.randn(32, 2)
    (tmp_path / "t5" / MODEL).unlink()
    torch.save(weights, tmp_path / "t5" / "pytorch_model.bin")
    found = taken(tmp_path / "t5", tmp_path / "again").predictor.model.state_dict()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
