"""Passes for each symbol: as many as the decoder is called for, sentence by sentence."""

from dataclasses import replace

import pytest
import torch
from making import SHAPE, strategy_of, with_ctc

from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.inspection.decoding_trace import Watched
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.prediction.speed import passes, speed
from seq2seq_suite.search.speculative import with_drafts
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.parallel.length_head import LengthHead
from seq2seq_suite.strategies.parallel.mask_predict import MaskPredict

KINDS = {
    "left to right": (Assisted, {}, {}),
    "drafts": (Assisted, {}, {}),
    "all at once": (LengthHead, {}, {"beam_size": 2}),
    "mask-predict": (MaskPredict, {}, {"iterations": 3}),
    "blocks of one": (Blocks, {"block": 4}, {"block": 1}),
    "verified": (Blocks, {"block": 3}, {"order": "verified"}),
    "any order": (Blocks, {"block": 4}, {"order": "any", "threshold": 0.3}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_passes_are_the_calls_of_the_decoder_for_each_sentence_alone(make_model, make_batch, kind):
    cls, given, search = KINDS[kind]
    model, strategy, options = make_model(), strategy_of(cls, **given), SearchOptions(**search)
    batch, limit = replace(make_batch([5, 3, 7], [4, 6, 3]), indices=(0, 1, 2)), torch.tensor([9, 6, 12])
    if kind == "drafts":
        batch = with_drafts(batch, strategy.generate(model, batch, options=options, limit=limit))
    together = strategy.generate(model, batch, options=options, limit=limit)
    for row, (best, *_) in enumerate(together):
        watched = Watched(model)
        strategy.generate(watched.as_model, batch.select([row]), options=options, limit=limit[[row]])
        assert passes(strategy, options.iterations, best) == len(watched.passes)
    predictor = Predictor(None, Learner(model, strategy), options, torch.device("cpu"))
    found = speed(predictor, together, 0.6)
    count = sum(len(best.symbols) + 1 for best, *_ in together)
    assert found["passes_per_symbol"] * count == pytest.approx(
        sum(passes(strategy, options.iterations, best) for best, *_ in together)
    )
    assert found["milliseconds_per_sentence"] == pytest.approx(200.0) and found["sentences_at_a_time"] == 128
    if kind in ("left to right", "blocks of one"):
        assert found["passes_per_symbol"] == 1.0


@pytest.mark.parametrize(("weight", "drafter"), [(1.0, ""), (0.5, ""), (0.0, "ctc")])
def test_ctc_alone_takes_no_pass_and_its_drafts_save_some(make_model, make_batch, weight, drafter):
    model, strategy, batch = make_model(SHAPE), with_ctc(), make_batch([5], [4], target_symbols=7)
    options, watched = SearchOptions(ctc_weight=weight, drafter=drafter), Watched(model)
    ((best,),) = strategy.generate(watched.as_model, batch, options=options, limit=torch.tensor([9]))
    assert passes(strategy, options.iterations, best) == len(watched.passes)
    assert (len(watched.passes) == 0) == (weight == 1.0) and len(watched.passes) <= len(best.symbols) + 1


def test_what_was_judged_and_not_searched_for_has_no_speed(make_model):
    predictor = Predictor(None, Learner(make_model(), strategy_of(Assisted)), SearchOptions(), torch.device("cpu"))
    assert speed(predictor, [[Hypothesis((5,), -1.0, details={"log_probs": (-1.0,)})]], 1.0) is None
    assert speed(predictor, [], 0.0) is None
    assert speed(predictor, [[]], 1.0)["passes_per_symbol"] == 1.0, "no output: END alone"
