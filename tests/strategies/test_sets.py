"""Targets that are sets: order, the order-free loss, the label head and decisions over sets of a beam."""

import math
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from daily import daily
from making import strategy_of
from plain import alone

from seq2seq_suite.common.shapes import SetShape, Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, Hypothesis
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.sets import Sets, shuffle
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton

SYMBOLS = 7  # three labels: 4, 5, 6
SHAPE = Shape(TokenShape(11), TargetShape(SYMBOLS))
POINTED = Shape(TokenShape(11), SetShape(SYMBOLS, head="label_wise", pointer=True))
HEADS = {
    "none": {},
    "pooled": {"head": "pooled"},
    "label_wise": {"head": "label_wise"},
    "pointer": {"head": "label_wise", "pointer": True},
}


def sets_of(order="fixed", *, head="none", noise=0.2, **options):
    """A strategy for sets."""
    return strategy_of(Sets, target=SetShape(SYMBOLS, order=order, **HEADS[head], **options), noise=noise)


def set_batch(make_batch, targets: list[list[int]]):
    batch = make_batch([6, 3, 4][: len(targets)], [len(target) for target in targets], target_symbols=SYMBOLS)
    rows = torch.zeros_like(batch.target)
    for row, target in enumerate(targets):
        rows[row, : len(target)] = torch.tensor(target)
    return replace(batch, target=rows)


def test_shuffling_moves_labels_only_and_reaches_every_order():
    torch.manual_seed(1)
    row = torch.tensor([[4, 5, 6, END, 0], [5, END, 0, 0, 0]])
    seen = set()
    for _ in range(100):
        shuffled = shuffle(row)
        assert shuffled[0, 3:].tolist() == [END, 0] and shuffled[1].tolist() == row[1].tolist()
        seen.add(tuple(shuffled[0, :3].tolist()))
    assert seen == set(permutations((4, 5, 6)))


def test_a_random_order_is_drawn_in_training_alone(make_model, make_batch):
    model, strategy = make_model(SHAPE), sets_of("random")
    batch = set_batch(make_batch, [[4, 5, 6, END]])
    torch.manual_seed(2)
    with torch.no_grad():
        trained = {round(float(strategy.train().loss(model, batch).sums["cross_entropy"]), 4) for _ in range(20)}
        judged = {round(float(strategy.eval().loss(model, batch).sums["cross_entropy"]), 4) for _ in range(5)}
    assert len(trained) > 1 and len(judged) == 1


@pytest.mark.parametrize("head", HEADS)
def test_padding_never_changes_the_loss(make_model, make_batch, head):
    model = make_model(POINTED if head == "pointer" else SHAPE)
    strategy = sets_of(head=head, head_weight=0.5).eval()
    together = set_batch(make_batch, [[4, 5, 6, END], [5, END], [6, 4, END]])
    whole = strategy.loss(model, together)
    summed = dict.fromkeys(whole.sums, 0.0)
    for row, (source, target) in enumerate([(6, 4), (3, 2), (4, 3)]):
        alone = replace(
            together,
            **{
                name: getattr(together, name)[row : row + 1, :size]
                for name, size in (
                    ("source", source),
                    ("source_mask", source),
                    ("target", target),
                    ("target_mask", target),
                    ("given", target),
                )
            },
        )
        for name, value in strategy.loss(model, alone).sums.items():
            summed[name] += value.item()
    assert {name: value.item() for name, value in whole.sums.items()} == pytest.approx(summed, rel=1e-4)
    assert whole.counts == strategy.counts(together)


def test_the_set_loss_of_one_label_is_the_cross_entropy_of_label_and_end(make_model, make_batch):
    """With one label left there is one right next symbol; a rollout that errs first pays for the error besides."""
    model = make_model(SHAPE)
    batch = set_batch(make_batch, [[5, END]])
    sequence = sets_of().loss(model, batch).sums["cross_entropy"].item()
    strategy = sets_of("free")
    torch.manual_seed(0)
    losses = [strategy.loss(model, batch).sums["set"].item() for _ in range(30)]
    assert min(abs(loss - sequence) for loss in losses) < 1e-4
    assert any(abs(loss - sequence) > 1e-3 for loss in losses)


def test_a_rollout_never_repeats_and_asks_for_what_is_missing(make_model, make_batch):
    model = make_model(SHAPE, noise=1.0)
    batch = set_batch(make_batch, [[4, 6, END], [5, END, 0], [4, 5, 6, END]])
    strategy = sets_of("free")
    torch.manual_seed(3)
    for _ in range(10):
        inputs, right, real = strategy._rollout(model, batch, model.prepare(model.encode(batch)))
        assert (inputs[:, 0] == BEGIN).all()
        for row, gold in enumerate(({4, 6}, {5}, {4, 5, 6})):
            written: list[int] = []
            for step in range(inputs.size(1)):
                if step:
                    written.append(int(inputs[row, step]))
                if not real[row, step]:
                    continue
                assert len(set(written)) == len(written) and END not in written
                missing = gold - set(written)
                assert set(right[row, step].nonzero().flatten().tolist()) == (missing or {END})


@torch.no_grad()
@pytest.mark.parametrize("seed", [1, 2, 5, 6])
def test_the_set_loss_is_its_plain_loop(make_model, make_batch, monkeypatch, seed):
    """Of a rollout without chance: the likeliest symbol each time."""
    monkeypatch.setattr(torch, "multinomial", lambda chances, count: chances.argmax(1, keepdim=True))
    model = make_model(SHAPE, seed=seed, noise=0.5)
    with torch.no_grad():
        model.output.bias[END] += 1.0  # often too early
    targets = [[4, 6, END], [5, END], [4, 5, 6, END]]
    batch, expected, erred = set_batch(make_batch, targets), 0.0, 0
    for row, target in enumerate(targets):
        one = alone(batch, row)
        memory, missing, inputs = model.prepare(model.encode(one)), set(target[:-1]), [BEGIN]
        for _ in range(len(target) + 1):
            hidden, _ = model.decode(model.embed(torch.tensor([inputs]), memory), causal(len(inputs)), memory)
            scores = model.output(hidden)[0, -1].log_softmax(0).tolist()
            expected -= math.log(sum(math.exp(scores[symbol]) for symbol in missing or {END}))
            if not missing:
                break
            drawn = max({END, 4, 5, 6} - set(inputs), key=scores.__getitem__)
            erred += drawn not in missing
            inputs.append(max(missing, key=scores.__getitem__) if drawn == END else drawn)
            missing -= {inputs[-1]}
    assert erred
    loss = sets_of("free").loss(model, batch)
    assert float(loss.sums["set"]) == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    "options", [{}, {"head_mixture": 0.7}, {"marginals": True}, {"head_mixture": 0.7, "marginals": True}]
)
def test_sets_are_weighed_as_a_plain_loop_weighs_them(make_model, make_batch, options):
    model, batch = make_model(SHAPE, noise=0.5), make_batch([6, 3], [2, 2])
    strategy = sets_of(head="label_wise", noise=0.5, **options).eval()
    found = strategy.generate(
        model,
        batch,
        limit=torch.tensor([9, 9]),
        options=SearchOptions(beam_size=5, num_hypotheses=3),
        constraint=LabelAutomaton(SYMBOLS),
    )
    beams = strategy_of(Autoregressive).generate(
        model,
        batch,
        limit=torch.tensor([9, 9]),
        constraint=LabelAutomaton(SYMBOLS),
        options=SearchOptions(beam_size=5, num_hypotheses=5 if options else 3, length_penalty=0.0 if options else 0.6),
    )
    if not options:
        assert found == beams
        return
    for row, beam in enumerate(beams):
        verdict = strategy.head(model.encode(alone(batch, row))).logits[0].tolist()
        yes = [1.0 / (1.0 + math.exp(-one)) for one in verdict]
        chances, scores = {}, {}
        for one in beam:
            chances[frozenset(one.symbols)] = chances.get(frozenset(one.symbols), 0.0) + math.exp(one.score)
        for members, chance in chances.items():
            says = sum(math.log(yes[label] if label in members else 1.0 - yes[label]) for label in (4, 5, 6))
            scores[members] = math.log(chance) + options.get("head_mixture", 0.0) * says
        order = sorted(scores, key=lambda members: -scores[members])[:3]
        assert [set(one.symbols) for one in found[row]] == [set(members) for members in order]
        assert [one.score for one in found[row]] == pytest.approx([scores[members] for members in order], rel=1e-3)
        assert not any(one.details for one in found[row][1:])
        if options.get("marginals"):
            for label in range(SYMBOLS):
                share = sum(chance for members, chance in chances.items() if label in members) / sum(chances.values())
                if "head_mixture" in options:
                    share = (share + 0.7 * yes[label]) / 1.7
                marginal = found[row][0].details["marginals"][label]
                assert marginal == pytest.approx(share if label >= 4 else 0.0, rel=1e-3)
        else:
            assert not found[row][0].details


@torch.no_grad()
@pytest.mark.parametrize("head", ["pooled", "label_wise"])
def test_a_label_head_is_asked_of_each_label_whether_it_is_there(make_model, make_batch, head):
    model, targets = make_model(SHAPE), [[4, 6, END], [5, END]]
    batch, strategy = set_batch(make_batch, targets), sets_of(head=head, head_weight=0.5).eval()
    loss, expected = strategy.loss(model, batch), 0.0
    for row, target in enumerate(targets):
        verdict = strategy.head(model.encode(alone(batch, row))).logits[0].tolist()
        expected += sum(
            math.log1p(math.exp(-verdict[label] if label in target else verdict[label])) for label in (4, 5, 6)
        )
    assert float(loss.sums["label_head"]) == pytest.approx(expected, rel=1e-4)
    assert loss.counts == {"cross_entropy": 5, "label_head": 2}
    assert loss.weights == {"cross_entropy": 1.0, "label_head": 0.5}


def test_the_set_loss_does_not_depend_on_the_order_of_the_target(make_model, make_batch):
    model, strategy = make_model(SHAPE), sets_of("free")
    losses = []
    for target in ([4, 5, 6, END], [6, 4, 5, END]):
        torch.manual_seed(4)
        losses.append(strategy.loss(model, set_batch(make_batch, [target])).sums["set"].item())
    assert losses[0] == losses[1]


@pytest.mark.parametrize("order", daily(["fixed", "random", "free"], "random", "free"))
def test_every_order_overfits_eight_sets_to_exact_match(make_model, make_batch, overfit, order):
    targets = [[4, END], [5, END], [6, END], [4, 5, END], [4, 6, END], [5, 6, END], [4, 5, 6, END], [6, 4, END]]
    model = make_model(POINTED, noise=0.0)
    batch = make_batch([5] * 8, [len(target) for target in targets], target_symbols=SYMBOLS)
    rows = torch.zeros_like(batch.target)
    for row, target in enumerate(targets):
        rows[row, : len(target)] = torch.tensor(target)
    batch = replace(batch, target=rows)
    strategy = sets_of(order, head="pointer", head_weight=0.5, noise=0.0)
    overfit(model, strategy.train(), batch, updates=120)
    found = strategy.eval().generate(
        model, batch, options=SearchOptions(), limit=torch.full((8,), 6), constraint=LabelAutomaton(SYMBOLS)
    )
    assert [set(hypotheses[0].symbols) for hypotheses in found] == [set(target) - {END} for target in targets]


@pytest.mark.parametrize("head", ["label_wise", "pointer"])
def test_a_beam_with_a_label_head_scores_what_the_loss_scores(make_model, make_batch, head):
    """Cached search, its beams side by side, against one parallel pass."""
    model = make_model(POINTED if head == "pointer" else SHAPE)
    batch = make_batch([6, 3], [2, 2])
    strategy = sets_of(head=head).eval()
    options = SearchOptions(beam_size=3, num_hypotheses=3, length_penalty=0.0, constraint=False)
    found = strategy.generate(model, batch, options=options, limit=torch.tensor([9, 9]))
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses[:2]:
            target = torch.tensor([[*hypothesis.symbols, END]])
            lone = replace(
                batch,
                source=batch.source[row : row + 1],
                source_mask=batch.source_mask[row : row + 1],
                target=target,
                target_mask=torch.ones_like(target, dtype=torch.bool),
                given=torch.zeros_like(target, dtype=torch.bool),
            )
            memory = strategy.encode_source(model, lone)
            hidden = strategy._hidden(model, lone, memory, torch.cat((torch.tensor([[BEGIN]]), target[:, :-1]), 1))
            logits = model.logits(hidden, memory)
            logits[..., [0, 1, 3]] = float("-inf")  # the search never writes these
            expected = logits.log_softmax(-1).gather(2, target.unsqueeze(2)).sum().detach()
            assert hypothesis.score == pytest.approx(float(expected), abs=1e-3)


def hypotheses_of(*scored: tuple[tuple[int, ...], float]) -> list[Hypothesis]:
    return [Hypothesis(symbols, math.log(probability)) for symbols, probability in scored]


def test_orders_of_one_set_are_added_up():
    strategy = sets_of(marginals=True)
    beam = hypotheses_of(((4,), 0.35), ((5, 6), 0.25), ((6, 5), 0.2))
    best = strategy._decide(beam, None, SYMBOLS)
    assert set(best[0].symbols) == {5, 6} and best[0].score == pytest.approx(math.log(0.45))
    assert best[1].symbols == (4,) and not best[1].details
    assert best[0].details["marginals"] == pytest.approx((0, 0, 0, 0, 0.35 / 0.8, 0.45 / 0.8, 0.45 / 0.8))


def test_the_heads_verdict_tips_the_scale():
    beam = hypotheses_of(((4,), 0.5), ((5,), 0.4))
    verdict = torch.tensor([0.0, 0, 0, 0, -2.0, 2.0, -2.0], dtype=torch.float64)
    assert sets_of()._decide(beam, verdict, SYMBOLS)[0].symbols == (4,)
    tipped = sets_of(head_mixture=1.0, marginals=True)._decide(beam, verdict, SYMBOLS)
    assert tipped[0].symbols == (5,)
    yes = 1 / (1 + math.exp(-2))
    assert tipped[0].score == pytest.approx(math.log(0.4) + 3 * math.log(yes))
    assert tipped[0].details["marginals"][5] == pytest.approx((0.4 / 0.9 + yes) / 2)


def test_an_item_alone_has_the_marginals_that_it_has_in_a_padded_batch(make_model, make_batch):
    model = make_model(POINTED)
    strategy = sets_of(head="pointer", head_weight=0.5, head_mixture=0.5, marginals=True).eval()
    batch, options, rules = make_batch([6, 3, 4], [2, 2, 2]), SearchOptions(beam_size=3), LabelAutomaton(SYMBOLS)
    together = strategy.generate(model, batch, options=options, limit=torch.full((3,), 9), constraint=rules)
    alone = replace(batch, source=batch.source[1:2, :3], source_mask=batch.source_mask[1:2, :3])
    (found,) = strategy.generate(model, alone, options=options, limit=torch.tensor([9]), constraint=rules)
    assert found[0].symbols == together[1][0].symbols
    assert found[0].details["marginals"] == pytest.approx(together[1][0].details["marginals"], abs=1e-5)


def test_marginals_come_with_every_item_of_a_batch(make_model, make_batch):
    model = make_model(SHAPE)
    strategy = sets_of(head="label_wise", head_weight=0.5, head_mixture=0.5, marginals=True).eval()
    found = strategy.generate(
        model,
        make_batch([6, 3, 4], [2, 2, 2]),
        options=SearchOptions(beam_size=4),
        limit=torch.full((3,), 9),
        constraint=LabelAutomaton(SYMBOLS),
    )
    assert all(len(hypotheses) == 1 for hypotheses in found)
    assert all(len(one.details["marginals"]) == SYMBOLS and 0 < max(one.details["marginals"]) <= 1 for (one,) in found)


def test_a_batch_is_encoded_once_and_judged_once_by_the_head(make_model, make_batch):
    model = make_model(SHAPE)
    strategy = sets_of(head="label_wise", head_weight=0.5, head_mixture=0.5, marginals=True).eval()
    calls = []
    for module, name in ((model.encoder, "encoder"), (strategy.head, "head")):
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
    strategy.generate(
        model,
        make_batch([6, 3], [3, 3], target_symbols=SYMBOLS),
        limit=torch.tensor([5, 5]),
        options=SearchOptions(beam_size=4),
        constraint=LabelAutomaton(SYMBOLS),
    )
    assert calls == ["encoder", "head"]
