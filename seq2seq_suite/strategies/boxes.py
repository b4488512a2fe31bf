"""Objects as symbols, y1 x1 y2 x2 class five by five: Gaussian coordinates, and classes with their certainty."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.shapes import GROUP, BoxShape
from seq2seq_suite.common.types import BEGIN, NEVER, SPECIALS, Batch, Constraint, Distributions, Hypothesis, Loss
from seq2seq_suite.model.picture import plane_at
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import AutoregressiveOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive, past_and_real, shift_right
from seq2seq_suite.strategies.auxiliary import Auxiliaries


class Boxes(Autoregressive):
    """An autoregressive model of objects.

    Each place of a group has its own kind of symbols, and the softmax runs over these alone. Every output has
    `instances` groups, those beyond the objects with the class of noise. In training the true objects, in random order,
    are followed by noise objects with given coordinates and the class of noise, so that the model need not end early:
    it keeps proposing objects, and the class gives its confidence.

    Source: Chen et al. 2022 (Pix2Seq), sections 2.2 to 2.4.
    Differs: no END, Gaussian soft targets for coordinates, noise objects have noise as their input class too; the input
    has the position of the current box in the picture's position encoding (`box_position`).
    """

    writes = ("objects",)
    uses = ()

    target: BoxShape

    def __init__(self, options: AutoregressiveOptions, target: BoxShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.write = write_boxes

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Coordinates and classes."""
        asked = (batch.target_mask & ~batch.given)[:, : GROUP * self.target.instances]
        classes = asked[:, GROUP - 1 :: GROUP].sum()
        return {"coordinates": (asked.sum() - classes).clamp(min=1), "classes": classes}

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Summed cross-entropy of coordinates and of classes."""
        memory = model.prepare(model.encode(batch))
        hidden = self._hidden(model, batch, memory, shift_right(batch.target))
        length = GROUP * self.target.instances
        logits = model.logits(hidden, memory)[:, :length].float().unflatten(1, (-1, GROUP))
        target = batch.target[:, :length].unflatten(1, (-1, GROUP))
        asked = (batch.target_mask & ~batch.given)[:, :length].unflatten(1, (-1, GROUP))
        first_bin, first_label = len(SPECIALS), len(SPECIALS) + self.target.bins
        places = (target[:, :, :-1] - first_bin).clamp(min=0)
        bins, classes = logits[:, :, :-1, first_bin:first_label], logits[:, :, -1, first_label:]
        missed = -(gaussian_targets(places, self.target) * bins.log_softmax(-1)).sum(-1)
        labels = (target[:, :, -1] - first_label).clamp(min=0)
        wrong = -classes.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        wrong = torch.where(labels == self.target.labels, self.target.noise_weight * wrong, wrong)
        sums = {
            "coordinates": missed.masked_fill(~asked[:, :, :-1], 0.0).sum(),
            "classes": wrong.masked_fill(~asked[:, :, -1], 0.0).sum(),
        }
        judged = (
            Distributions("coordinates", lambda: bins, asked[:, :, :-1]),
            Distributions("classes", lambda: classes, asked[:, :, -1]),
        )
        own = Loss(sums, self.own_counts(batch), {"coordinates": 1.0, "classes": 1.0}, judged)
        return self.auxiliaries.added(own, batch, memory.states)

    @torch.inference_mode()
    def generate(
        self,
        model: Seq2Seq,
        batch: Batch,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        """One hypothesis per picture with all its groups and the probability of each class; boxes are never empty."""
        return self.write(model, model.prepare(model.encode(batch)), self.target, limit)

    def _hidden(self, model: Seq2Seq, batch: Batch, memory: Memory, previous: Tensor) -> Tensor:
        x = model.embed(previous, memory)
        whole = (previous.size(1) - 1) // GROUP * GROUP  # END and padding follow the groups
        groups = previous[:, 1 : 1 + whole].unflatten(1, (-1, GROUP))
        seen = box_position(groups, self.target, x.size(2)).flatten(1, 2).to(x.dtype)
        x = torch.cat((x[:, :whole] + seen, x[:, whole:]), 1)
        return model.decode(x, past_and_real(batch.target_mask), memory)[0]


def write_boxes(model: Seq2Seq, memory: Memory, target: BoxShape, limit: Tensor) -> list[list[Hypothesis]]:
    """The groups of B pictures, symbol by symbol; see `Boxes.generate`."""
    cache = model.new_cache(memory)
    rows, device = limit.size(0), limit.device
    previous, outputs, certain = torch.full((rows,), BEGIN, device=device), [], []
    first_bin, first_label = len(SPECIALS), len(SPECIALS) + target.bins
    objects = previous.new_zeros(rows, GROUP)
    for step in range(GROUP * target.instances):
        place = step % GROUP
        x = model.embed(previous.unsqueeze(1), memory, offset=step)
        x = x + box_position(objects, target, x.size(2))[:, place : place + 1].to(x.dtype)
        hidden, cache = model.decode(x, None, memory, cache)
        logits = model.logits(hidden, memory).squeeze(1).float()
        if place == GROUP - 1:
            probabilities = logits[:, first_label:].softmax(-1)
            certainty, label = probabilities[:, :-1].max(-1)
            certain.append(certainty)
            # The next input is noise's class if this was no object, as in training.
            noise = probabilities.argmax(-1) == target.labels
            outputs.append(first_label + label)
            previous = torch.where(noise, first_label + target.labels, first_label + label)
            continue
        earlier = outputs[-2] - first_bin if place >= 2 else None
        previous = first_bin + likeliest_corner(logits[:, first_bin:first_label], earlier)
        objects[:, place] = previous
        outputs.append(previous)
    return hypotheses(torch.stack(outputs, 1), torch.stack(certain, 1))


def box_position(groups: Tensor, options: BoxShape, width: int) -> Tensor:
    """The known part of the current box, before each symbol of a group, as positions in the plane of patches.

        y1: nowhere    x1: row y1    y2: y1, x1    x2: (y1 + y2) / 2, x1    class: (y1 + y2) / 2, (x1 + x2) / 2

    Attention then need not learn the place in the picture that belongs to a bin's symbol.

    Args:
        groups: (...,5) symbols; each place depends only on those before it.
        options: the number of a bin's symbol, and how many bins a patch has.
        width: D.

    Returns:
        (...,5,D) float32.
    """
    y1, x1, y2, x2 = ((groups[..., :-1] - len(SPECIALS) + 0.5) / options.patch - 0.5).unbind(-1)
    rows = torch.stack((y1, y1, (y1 + y2) / 2, (y1 + y2) / 2), -1)
    columns = torch.stack((x1, x1, (x1 + x2) / 2), -1)
    down, across = plane_at(rows, columns, width)
    return torch.cat((functional.pad(down, (0, 0, 1, 0)), functional.pad(across, (0, 0, 2, 0))), -1)


def hypotheses(symbols: Tensor, certainty: Tensor) -> list[list[Hypothesis]]:
    """One hypothesis of each picture, from its groups of symbols (B,5 N) and the certainty of their classes (B,N)."""
    return [
        [Hypothesis(tuple(row), score, True, details={"certainties": tuple(sure)})]
        for row, score, sure in zip(symbols.tolist(), certainty.log().sum(1).tolist(), certainty.tolist(), strict=True)
    ]


def likeliest_corner(scores: Tensor, earlier: Tensor | None) -> Tensor:
    """(...) the likeliest bin of scores (...,bins) that leaves no box empty.

    `earlier` (...) is the upper or left side where the lower or right one is asked for, at least a bin further.
    """
    bins = torch.arange(scores.size(-1), device=scores.device)
    empty = bins == scores.size(-1) - 1 if earlier is None else bins <= earlier.unsqueeze(-1)
    return scores.masked_fill(empty, NEVER).argmax(-1)


def gaussian_targets(places: Tensor, options: BoxShape) -> Tensor:
    """(...,bins) soft targets around bins (...)."""
    distance = (torch.arange(options.bins, device=places.device) - places.unsqueeze(-1)).float()
    if not options.smoothing:
        return (distance == 0.0).float()
    return (-0.5 * (distance / options.smoothing).square()).softmax(-1)
