"""A run of an imported BART or mBART computes what transformers' classes do."""

import json
import shutil

import pytest
import torch
from pretrained import TEXTS, changed_run, generated, moved, need_transformers, taught, write_bart
from safetensors.torch import load_file, save_file

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.data.batching import collate
from seq2seq_suite.data.subwords import clean_text
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.weights import MODEL

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
KINDS = {
    "bart": {},
    "bart, odd": {**ODD, "scale_embedding": True},
    "bart, untied": {"tie_word_embeddings": False},
    "mbart": {"kind": "mbart"},
    "mbart50": {"kind": "mbart50"},
    "mbart50, odd": {"kind": "mbart50", **ODD, "scale_embedding": False},
}
PAIRS = list(map(Example, TEXTS["en"], TEXTS["de"]))
ALONE = ["device=cpu", "training.threads=1", "strategy.label_smoothing=0.0"]


def taken(folder, output, *changes):
    assert cli.main(["import", str(folder), "--output", str(output)]) == 0
    return open_run(output, [*ALONE, *changes])


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """One model as transformers has it, with its tokenizer, and as a run; and the folder with both."""
    folder = tmp_path_factory.mktemp(request.param.replace(", ", "-"))
    model = write_bart(folder / "theirs", **KINDS[request.param])
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(folder / "theirs")
    return model, tokenizer, taken(folder / "theirs", folder / "run"), folder


def both(pair, examples):
    """A batch of both: the suite's, and what transformers' model is called with.

    The code of the language behind </s>, with which mBART's decoder begins, is no label: no output has it.
    """
    model, tokenizer, run, _ = pair
    texts, targets = [one.source for one in examples], [one.reference for one in examples]
    theirs = tokenizer(texts, text_target=targets, return_tensors="pt", padding=True)
    theirs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(theirs["labels"])
    labels = theirs["labels"]
    behind = (labels == tokenizer.eos_token_id).long().cumsum(1) - (labels == tokenizer.eos_token_id).long()
    theirs["labels"] = labels.masked_fill((labels == tokenizer.pad_token_id) | (behind > 0), -100)
    return collate(run.task.encode(examples), run.task.name), theirs


def test_the_tokenizers_agree(pair):
    _, tokenizer, run, _ = pair
    source, target = run.task.source, run.task.target
    for text in [*TEXTS["en"][:20], "The dog – sees  it.", "Жук!", "ﬁ", "a <mask> b", "我们"]:
        assert [source.pieces.rows[number] for number in source.encode(text, {})] == tokenizer(text)["input_ids"]
    for text in [*TEXTS["de"][:20], "Ж"]:
        ids, theirs = target.encode(text, {}), tokenizer(text_target=text)["input_ids"]
        assert [target.pieces.rows[number] for number in [*ids, END]] == theirs[: len(ids) + 1]
        assert theirs[len(ids) + 1 :] in ([], [model_start(pair)])
        if text != "Ж":
            decoded = tokenizer.decode(theirs, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            assert target.pieces.decode(ids) == decoded == text


def model_start(pair):
    return pair[0].config.decoder_start_token_id


def without_start(pair):
    """Which symbols transformers must not write, because ours cannot: BEGIN, if it is another one than END."""
    rows = pair[2].task.target.pieces.rows
    return {"suppress_tokens": [rows[PAD], rows[UNKNOWN], *(rows[BEGIN:END] if rows[BEGIN] != rows[END] else [])]}


def test_no_text_injects_padding_or_an_end(pair):
    _, _, run, _ = pair
    assert not {PAD, BEGIN, END} & {*run.task.target.encode("a <pad> b </s> c", {})}


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
    made = {
        name: (torch.zeros_like(one) if given.get(name) is None else given[name]).contiguous()
        for name, one in weights.items()
    }
    save_file(made, tmp_path / "gradients" / MODEL, metadata={"format": "pt"})
    wanted = dict(taken(tmp_path / "gradients", tmp_path / "run").predictor.model.named_parameters())
    learner = run.predictor.learner
    learner.zero_grad()
    loss = learner(batch)
    ((name, total),) = loss.sums.items()
    (total / loss.counts[name]).backward()
    rows, checked = run.task.target.pieces.rows, 0
    for name, parameter in learner.model.named_parameters():
        if name == "output.bias":  # theirs is fixed
            continue
        found, expected = parameter.grad, wanted[name].detach()
        if found.size(0) == len(rows):  # theirs has one row where two of ours have the same number
            found, expected = (torch.cat((one[:BEGIN], one[BEGIN + 1 :])) for one in (found, expected))
            if rows[BEGIN] == rows[END]:
                found[END - 1] += parameter.grad[BEGIN]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, msg=lambda said, name=name: f"{name}: {said}")
        checked += float(expected.abs().max()) > 1e-4
    assert checked > 20


def test_greedy_outputs_are_equal(pair):
    model, tokenizer, _, folder = pair
    run = open_run(folder / "run", [*ALONE, "search.beam_size=1"])
    examples = [run.task.from_text(text) for text in TEXTS["en"][:2]]
    options = run.predictor.options
    for example, found in zip(examples, run.predict(examples), strict=True):
        size = len(run.task.source.encode(example.source, {}))
        limit = int(options.max_length_factor * size) + options.max_length_extra + len(run.task.target.begins)
        wanted = generated(model, tokenizer, example.source, limit, **without_start(pair))[0]
        assert found[0][0] == clean_text(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bart", "mbart", "mbart50"])
def test_a_model_that_has_learned_gives_equal_outputs_and_scores_by_five_beams(tmp_path, kind):
    model = write_bart(tmp_path / "theirs", kind=kind)
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts, targets = TEXTS["en"][:8], TEXTS["de"][:8]
    batch = tokenizer(texts, text_target=targets, return_tensors="pt", padding=True)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    taught(model, batch, 120).save_pretrained(tmp_path / "theirs")
    run = taken(tmp_path / "theirs", tmp_path / "run", "search.beam_size=5", "search.length_penalty=0.0")
    found = [one[0] for one in run.predict([run.task.from_text(text) for text in texts])]
    forbidden = without_start((model, tokenizer, run, None))
    wanted = [generated(model, tokenizer, text, 100, beams=5, **forbidden) for text in texts]
    assert len({text for text, _ in wanted}) > 6
    assert [text for text, _ in found] == [text for text, _ in wanted]
    # Theirs does not count the beginning that it forces, which ours has learned.
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=2e-2)


def test_a_source_as_long_as_positions_allow_gives_equal_logits(pair):
    model, _, run, _ = pair
    size, rows = run.config.backbone.max_positions, torch.tensor(run.task.target.pieces.rows)
    torch.manual_seed(5)
    source = torch.randint(4, len(rows), (1, size))
    target = torch.randint(4, len(rows), (1, size - 1))
    begun = torch.cat((torch.full((1, 1), BEGIN), target), 1)
    with torch.no_grad():
        ours = run.predictor.model(source, torch.ones_like(source, dtype=torch.bool), begun)
        theirs = model(input_ids=rows[source], decoder_input_ids=rows[begun]).logits
    others = [number for number in range(len(rows)) if number != BEGIN]
    torch.testing.assert_close(ours[..., others], theirs[..., rows[others]], rtol=0, atol=5e-5)


# -- the way out -------------------------------------------------------------------------------------------------------


def exported(run, folder):
    """The model and the tokenizer of transformers that a run becomes."""
    assert cli.main(["export", str(run), "--to", "transformers", str(folder)]) == 0
    found = need_transformers()
    return found.AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), found.AutoTokenizer.from_pretrained(folder)


def test_what_comes_in_goes_out_and_comes_in_again_bit_for_bit(pair, tmp_path):
    model, tokenizer, run, folder = pair
    out, their = exported(folder / "run", tmp_path / "out")
    assert type(out) is type(model) and out.config.vocab_size == model.config.vocab_size
    before = model.state_dict()
    for name, one in out.state_dict().items():
        first = 2 * ("embed_positions" in name)  # two are never used
        assert torch.equal(one[first:], before[name][first:]), name
    for text in (*TEXTS["en"][:5], "a <mask> b, Жук"):
        assert their(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert their(text_target=TEXTS["de"][0])["input_ids"] == tokenizer(text_target=TEXTS["de"][0])["input_ids"]
    with torch.no_grad():
        theirs = both(pair, PAIRS[:4])[1]
        assert torch.equal(out(**theirs).logits, model(**theirs).logits)
    assert generated(out, their, TEXTS["en"][0], 30) == generated(model, tokenizer, TEXTS["en"][0], 30)
    again = taken(tmp_path / "out", tmp_path / "run")
    ours, later = (one.predictor.learner.state_dict() for one in (run, again))
    assert ours.keys() == later.keys() and all(torch.equal(one, later[name]) for name, one in ours.items())
    for side in ("source", "target"):
        name = f"vocabulary/{side}.tokenizer.json"
        assert (tmp_path / "run" / name).read_text() == (folder / "run" / name).read_text()


def test_a_run_that_has_learned_since_goes_out_with_a_beginning_of_its_own(pair, tmp_path):
    model, _, _, folder = pair
    place = changed_run(folder / "run", tmp_path / "run", moved)
    run, (out, their) = open_run(place, ALONE), exported(place, tmp_path / "out")
    rows = [*run.task.target.pieces.rows]
    own = rows[BEGIN] == rows[END]
    assert out.config.vocab_size == model.config.vocab_size + own
    rows[BEGIN] = out.config.decoder_start_token_id
    batch, numbers = collate(run.task.encode(PAIRS[:4]), run.task.name), torch.tensor(rows)
    begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
    with torch.no_grad():
        ours = run.predictor.model(batch.source, batch.source_mask, begun)
        theirs = out(
            input_ids=numbers[batch.source],
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=numbers[begun],
            decoder_attention_mask=torch.ones_like(begun),
        ).logits
    torch.testing.assert_close(ours[batch.target_mask], theirs[batch.target_mask][:, numbers], rtol=0, atol=5e-5)
    run = open_run(place, [*ALONE, "search.beam_size=1"])
    limit = int(run.predictor.limits(batch)[0])
    found = out.generate(**their(PAIRS[0].source, return_tensors="pt"), max_new_tokens=limit)
    outputs = [one[0][0] for one in run.predict([run.task.from_text(PAIRS[0].source)])]
    assert [clean_text(text) for text in their.batch_decode(found, skip_special_tokens=True)] == outputs
    later = taken(tmp_path / "out", tmp_path / "again").predictor.learner.state_dict()
    wanted = run.predictor.learner.state_dict()
    assert all(torch.equal(one, later[name]) for name, one in wanted.items())


def test_a_symbol_with_a_probability_that_theirs_has_not_is_refused_and_nothing_is_left(whole, tmp_path, capsys):
    """A tokenizer without <unk> has padding in its place."""
    shutil.copytree(whole, tmp_path / "theirs")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}
    change_json("tokenizer_config.json", **names)(tmp_path / "theirs")
    need_transformers().AutoTokenizer.from_pretrained(whole).backend_tokenizer.save(
        str(tmp_path / "theirs" / "tokenizer.json")
    )
    assert taken(tmp_path / "theirs", tmp_path / "run").task.target.pieces.rows[UNKNOWN] == 1

    def learn(weights):
        weights["model.output.bias"][UNKNOWN] = 0.0

    place = changed_run(tmp_path / "run", tmp_path / "learned", learn)
    assert cli.main(["export", str(place), "--to", "transformers", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "transformers' BART has one symbol for <unknown> and <pad>" in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("positions", "said"), [("sinusoidal", "backbone.positions sinusoidal"), ("learned", "these pieces")]
)
def test_a_run_that_only_resembles_a_bart_is_refused(tmp_path, positions, said, capsys):
    small = {"task": "translation", "data": {"size": 40}, "translation": {"vocabulary_size": 120}}
    small["backbone"] = {"width": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    small["backbone"] |= {"embedding_norm": True, "positions": positions, "feed_forward_width": 16}
    small["training"] = {"max_updates": 1, "threads": 1}
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    words = [str(tmp_path / "small.yaml"), "device=cpu", "--output", str(tmp_path / "run")]
    assert cli.main(["run", *words]) == 0
    assert cli.main(["export", str(tmp_path / "run"), "--to", "transformers", str(tmp_path / "out")]) == 2
    assert f"transformers' BART cannot express {said}" in capsys.readouterr().err and not (tmp_path / "out").exists()


# -- languages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mbart", "mbart50"])
def test_languages_are_chosen_at_import(tmp_path, kind):
    model = write_bart(tmp_path / "theirs", kind=kind, begins=None, decoder_start_token_id=2)
    languages = ["translation.source_language=fr_XX", "translation.target_language=ro_RO"]
    assert cli.main(["import", str(tmp_path / "theirs"), "--output", str(tmp_path / "run"), *languages]) == 0
    run = open_run(tmp_path / "run", [*ALONE, "search.beam_size=1"])
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(tmp_path / "theirs", src_lang="fr_XX")
    text, code = TEXTS["en"][0], tokenizer.lang_code_to_id["ro_RO"]
    rows, symbols = run.task.source.pieces.rows, run.task.source.encode(text, {})
    assert [rows[number] for number in symbols] == tokenizer(text)["input_ids"]
    assert kind == "mbart" or [rows[number] for number in run.task.target.begins] == [code]
    limit = 2 * len(symbols) + run.predictor.options.max_length_extra + len(run.task.target.begins)
    start = {"decoder_start_token_id": code} if kind == "mbart" else {"forced_bos_token_id": code}
    start |= without_start((model, tokenizer, run, None))
    found = next(iter(run.predict([run.task.from_text(text)])))
    assert found[0][0] == generated(model, tokenizer, text, limit, **start)[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "translation.target_language is target"),
        (["translation.target_language=de"], "translation.target_language is de"),
        (["translation.target_language=ro_RO", "translation.source_language=xx"], "translation.source_language is xx"),
    ],
)
def test_a_language_that_the_model_does_not_have_is_refused(tmp_path, capsys, words, said):
    write_bart(tmp_path / "theirs", kind="mbart50", begins=None)
    change_json("tokenizer_config.json", tgt_lang=None)(tmp_path / "theirs")
    assert cli.main(["import", str(tmp_path / "theirs"), "--output", str(tmp_path / "run"), *words]) == 2
    found = capsys.readouterr().err
    assert said in found and "ro_RO" in found and "Traceback" not in found and not (tmp_path / "run").exists()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("whole") / "bart"
    write_bart(folder)
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


def cut(name):
    def change(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) * 2 // 3])

    return change


def without(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def of_another_model(folder):
    """The tokenizer of a model with fewer pieces."""
    path = folder / "vocab.json"
    pieces = {name: number for name, number in json.loads(path.read_text()).items() if number < 280}
    path.write_text(json.dumps(pieces))
    merges = (folder / "merges.txt").read_text().split("\n")
    known = [line for line in merges if line.startswith("#") or line.replace(" ", "") in pieces]
    (folder / "merges.txt").write_text("\n".join(known))


BROKEN = {
    "another activation": (change_json("config.json", activation_function="tanh"), "tanh", "swish"),
    "other heads": (change_json("config.json", decoder_attention_heads=4), "attention_heads are 2 in the", "equal"),
    "more layers": (change_json("config.json", encoder_layers=3), "no weight model.encoder.layers.2", "shape"),
    "fewer layers": (change_json("config.json", decoder_layers=1), "model.decoder.layers.1", "config.json"),
    "other positions": (change_json("config.json", max_position_embeddings=140), "embed_positions", "(142, 16)"),
    "a missing norm": (
        change_weights(model__encoder__layernorm_embedding__weight=None),
        "no weight model.encoder.layernorm_embedding.weight",
        "(16,)",
    ),
    "a classifier": (
        change_weights(classification_head__dense__weight=lambda _: torch.ones(3, 16)),
        "classification_head.dense.weight",
        "architecture",
    ),
    "mbart's norm": (
        change_weights(model__encoder__layer_norm__weight=lambda _: torch.ones(16)),
        "model.encoder.layer_norm.weight",
        "architecture",
    ),
    "another family": (change_json("config.json", model_type="mbart"), "encoder.layer_norm", "config.json"),
    "another output": (change_weights(lm_head__weight=lambda _: torch.randn(331, 16)), "lm_head.weight", ""),
    "half a download": (cut(MODEL), "no weights", "whole file"),
    "no tokenizer": (without("vocab.json"), "the tokenizer is missing", "tokenizer.json or vocab.json and merges.txt"),
    "half a tokenizer": (cut("vocab.json"), "no tokenizer", "transformers"),
    "another tokenizer": (of_another_model, "pieces for 331 rows", "the tokenizer of this model"),
    "another padding": (change_json("config.json", pad_token_id=5), "padding 1", "padding 5"),
    "another end": (change_json("config.json", eos_token_id=5), "[2] behind", "and 5"),
    "code": (
        change_json("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]}, tokenizer_class="Evil"),
        "no tokenizer",
        "without further code",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_the_suite_cannot_take_in_is_refused_by_name_and_leaves_nothing(whole, tmp_path, capsys, kind):
    change, got, expected = BROKEN[kind]
    shutil.copytree(whole, tmp_path / "bart")
    change(tmp_path / "bart")
    assert cli.main(["import", str(tmp_path / "bart"), "--output", str(tmp_path / "runs" / "run")]) == 2
    said = capsys.readouterr().err
    assert got in said.split("\n")[0] and expected in said and "Traceback" not in said, said
    assert "remedy" in said and not (tmp_path / "runs").exists()


def test_files_as_they_once_were_give_the_same_run(whole, tmp_path):
    """Of BART's first models: pickles of the model without its head, copies, a version, and no bias of the logits."""
    wanted = taken(whole, tmp_path / "run").predictor.model.state_dict()
    shutil.copytree(whole, tmp_path / "bart")
    weights = {name.removeprefix("model."): one for name, one in load_file(whole / MODEL).items()}
    del weights["final_logits_bias"]
    for stack in ("encoder", "decoder"):
        weights |= {f"{stack}.version": torch.ones(1), f"{stack}.embed_tokens.weight": weights["shared.weight"].clone()}
    (tmp_path / "bart" / MODEL).unlink()
    torch.save(weights, tmp_path / "bart" / "pytorch_model.bin")
    found = taken(tmp_path / "bart", tmp_path / "again").predictor.model.state_dict()
    assert found.keys() == wanted.keys() and all(
        torch.equal(found[name], wanted[name]) for name in wanted if name != "output.bias"
    )


def test_a_checkpoints_own_search_is_kept(tmp_path):
    """That of bart-large-cnn, whose lengths count the decoder's first input."""
    write_bart(tmp_path / "bart")
    own = {"num_beams": 4, "max_length": 62, "min_length": 12, "no_repeat_ngram_size": 3}
    change_json("generation_config.json", **own)(tmp_path / "bart")
    search = taken(tmp_path / "bart", tmp_path / "run").config.search
    assert (search.beam_size, search.no_repeat_ngram, search.min_length) == (4, 3, 11)
    assert int(126 * search.max_length_factor) + search.max_length_extra == 60  # and <s>
