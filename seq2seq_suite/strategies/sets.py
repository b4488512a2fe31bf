"""Targets that are sets, written one symbol after another: order, an order-free loss, and decisions over sets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.model.seq2seq import Prompt, Seq2Seq
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.strategies.autoregressive import Autoregressive, AutoregressiveOptions, shift_right
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.search import SearchOptions, beam_search
from seq2seq_suite.types import BEGIN, END, PAD, SPECIALS, UNKNOWN, Batch, Constraint, Hypothesis, Loss

_EXTRA_STEPS = 1  # of a rollout beyond each target's length, to be seen after a mistake


class Sets(Autoregressive):
    """An autoregressive model of sets.

    The order-free loss uses neither label smoothing nor scheduled sampling.

    Source: the order-free loss is that of optimal completion distillation (Sabour et al. 2019) applied to label sets
    (Tsai & Lee 2020): -log sum_{l in gold, not yet written} p(l), END once all are written, along the model's own
    rollout.
    """

    writes = ("labels",)

    def __init__(self, options: AutoregressiveOptions, sizes: Sizes, width: int,
                 auxiliaries: Auxiliaries | None = None):
        super().__init__(options, sizes, width, auxiliaries)
        self.sets = sizes.sets

    def counts(self, model: Seq2Seq, batch: Batch) -> dict[str, int]:
        """The counts that `loss` will give: target symbols, and examples for the label head."""
        name = "set" if self.sets.order == "free" else "cross_entropy"
        counts = {name: int(batch.target_mask.sum())}
        if self._has_head(model):
            counts["label_head"] = batch.target.size(0)
        return counts | self.auxiliaries.counts(model, batch)

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """The sequence's or the set's loss, and the label head's binary cross-entropy."""
        prompt = model.prepare(model.encode(batch))
        if self.sets.order == "random" and self.training:
            batch = replace(batch, target=shuffle(batch.target))
        if self.sets.order == "free":
            sums = {"set": self._set_loss(model, batch, prompt)}
        else:
            sums = {"cross_entropy": self._sequence_loss(model, batch, prompt)}
        weights = dict.fromkeys(sums, 1.0)
        if self._has_head(model):
            sums["label_head"] = model.label_head.loss(prompt.labels, batch.target, batch.target_mask)
            weights["label_head"] = self.sets.head_weight
        return self.auxiliaries.added(Loss(sums, self.counts(model, batch), weights), model, batch, prompt.states)

    def generate(self, model: Seq2Seq, batch: Batch, *, options: SearchOptions, limit: Tensor,
                 constraint: Constraint | None = None) -> list[list[Hypothesis]]:
        """Hypotheses of each item, best first; orders of one set count together where the sets are weighed.

        Only the first hypothesis has marginals, and none that was sampled.
        """
        if options.sampling or not (self.sets.head_mixture or self.sets.marginals):
            return super().generate(model, batch, options=options, limit=limit, constraint=constraint)
        # Without a length penalty, so that a score is a log-probability.
        wide = replace(options, num_hypotheses=options.beam_size, length_penalty=0.0)
        with torch.inference_mode():
            prompt = model.prepare(model.encode(batch))
        found = beam_search(model, batch, options=wide, limit=limit, constraint=constraint, prompt=prompt)
        weighed = prompt.labels is not None and self.sets.head_mixture
        verdicts = prompt.labels.logits.cpu().double() if weighed else None
        symbols = model.output.bias.numel()
        return [self._decide(hypotheses, verdicts[row] if verdicts is not None else None, symbols)
                [: options.num_hypotheses] for row, hypotheses in enumerate(found)]

    def _has_head(self, model: Seq2Seq) -> bool:
        return model.label_head is not None and self.sets.head_weight > 0

    def _sequence_loss(self, model: Seq2Seq, batch: Batch, prompt: Prompt) -> Tensor:
        previous = shift_right(batch.target)
        if self.options.scheduled_sampling and self.training:
            previous = self._mix_in_predictions(model, batch, prompt, previous)
        hidden = self._hidden(model, batch, prompt, previous)
        return model.cross_entropy(hidden, prompt, batch.target, batch.target_mask, self.options.label_smoothing)

    def _set_loss(self, model: Seq2Seq, batch: Batch, prompt: Prompt) -> Tensor:
        """-log sum_{l remaining} p(l) at each step of a rollout, up to the step that should write END."""
        previous, remaining, real = self._rollout(model, batch, prompt)
        stepped = replace(batch, target_mask=real)
        log_probabilities = model.logits(self._hidden(model, stepped, prompt, previous), prompt).float().log_softmax(-1)
        return -log_probabilities.masked_fill(~remaining, float("-inf")).logsumexp(-1)[real].sum()

    @torch.no_grad()
    def _rollout(self, model: Seq2Seq, batch: Batch, prompt: Prompt) -> tuple[Tensor, Tensor, Tensor]:
        """What the model writes, drawn symbol by symbol without repetition.

        Where it would end too early it writes a label that is still missing instead.

        Returns:
            inputs (B,L), the right next symbols (B,L,V) and which steps count (B,L).
        """
        count, symbols = batch.target.size(0), model.output.bias.numel()
        wanted = torch.zeros(count, symbols, dtype=torch.bool, device=batch.target.device)
        wanted.scatter_(1, batch.target.masked_fill(~batch.target_mask, 0), True)
        wanted[:, : len(SPECIALS)] = False
        used = torch.zeros_like(wanted)
        used[:, [PAD, BEGIN, UNKNOWN]] = True
        cache = model.new_cache(prompt)
        previous = torch.full((count,), BEGIN, device=wanted.device)
        open_rows, steps = torch.ones_like(wanted[:, 0]), batch.target_mask.sum(1) + _EXTRA_STEPS
        inputs, right, real = [], [], []
        for step in range(batch.target.size(1) + _EXTRA_STEPS):
            done = ~wanted.any(1)
            target = wanted.clone()
            target[:, END] = done
            inputs.append(previous)
            right.append(target)
            real.append(open_rows & (step < steps))
            open_rows = open_rows & ~done
            hidden, cache = model.decode(model.embed(previous.unsqueeze(1), prompt, offset=step), None, prompt, cache)
            logits = model.logits(hidden, prompt).squeeze(1).float().masked_fill(used, float("-inf"))
            drawn = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
            missing = logits.masked_fill(~target, float("-inf")).argmax(1)
            previous = torch.where(drawn == END, missing, drawn)
            used = used.scatter(1, previous.unsqueeze(1), (previous != END).unsqueeze(1))
            wanted = wanted.scatter(1, previous.unsqueeze(1), False)
        return torch.stack(inputs, 1), torch.stack(right, 1), torch.stack(real, 1)

    def _decide(self, hypotheses: list[Hypothesis], verdict: Tensor | None, symbols: int) -> list[Hypothesis]:
        """Sets with score = log sum over orders of p(y) + mu log p_head(set), best first, the first with marginals."""
        by_set: dict[frozenset[int], list[Hypothesis]] = defaultdict(list)
        for hypothesis in hypotheses:
            by_set[frozenset(hypothesis.symbols)].append(hypothesis)
        mixture, merged = self.sets.head_mixture, []
        for members, same in by_set.items():
            score = torch.tensor([one.score for one in same], dtype=torch.float64).logsumexp(0)
            if verdict is not None:
                holds = torch.zeros(symbols, dtype=torch.bool)
                holds[list(members)] = True
                signs = torch.where(holds, verdict, -verdict)[len(SPECIALS):]
                score = score + mixture * functional.logsigmoid(signs).sum()
            merged.append(replace(same[0], score=float(score)))
        merged.sort(key=lambda hypothesis: -hypothesis.score)
        if not self.sets.marginals:
            return merged
        sequence = torch.zeros(symbols, dtype=torch.float64)
        logs = torch.tensor([torch.tensor([one.score for one in same], dtype=torch.float64).logsumexp(0)
                             for same in by_set.values()], dtype=torch.float64)
        for share, members in zip(logs.softmax(0), by_set, strict=True):
            sequence[list(members)] += share
        if verdict is not None:
            sequence = (sequence + mixture * verdict.sigmoid()) / (1.0 + mixture)
        sequence[: len(SPECIALS)] = 0.0
        return [replace(merged[0], marginals=tuple(sequence.tolist())), *merged[1:]]


def shuffle(target: Tensor) -> Tensor:
    """(B,T) with the symbols before END in a random order of each row; END and padding stay.

    >>> _ = torch.manual_seed(0)
    >>> shuffle(torch.tensor([[5, 6, 7, 2, 0]]))[0].sort().values.tolist(), shuffle(torch.tensor([[4, 2, 0]])).tolist()
    ([0, 2, 5, 6, 7], [[4, 2, 0]])
    """
    moves = target >= len(SPECIALS)
    keys = torch.rand(target.shape, device=target.device)
    place = torch.arange(target.size(1), device=target.device, dtype=keys.dtype)
    order = torch.where(moves, keys, place + 1.0).argsort(dim=1, stable=True)
    return target.gather(1, order)
