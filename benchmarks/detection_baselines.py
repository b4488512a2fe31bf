"""Baselines of detection as a sequence: the average boxes, and a dense detector on the same stem.

    python -m benchmarks.detection_baselines tasks/detection-nat.yaml
    python -m benchmarks.detection_baselines tasks/detection-bccd.yaml data.path=path/to/bccd

Both take data, sizes, batches, optimiser and the length of the training from the YAML. The dense detector predicts for
each patch whether an object's centre is there, its class, and its sides (FCOS on one scale, without the encoder),
followed by non-maximum suppression.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config import config_file
from seq2seq_suite.data.pictures import Augmentation, Objects, fit, nms, scaled
from seq2seq_suite.model.picture import ConvolutionalStem
from seq2seq_suite.options.training import Training
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.detection.task import DetectionTask
from seq2seq_suite.training.optimizer import build_optimizer, learning_rate, set_rate

_OVERLAP, _LEAST_SCORE, _MOST = 0.5, 0.01, 400


def average_boxes(train: Sequence[Example]) -> Objects:
    """As many boxes as a training picture has on average, each class with its share, mean place and size."""
    boxes: dict[str, list[Sequence[float]]] = {}
    for example in train:
        for box, label in zip(example.reference.boxes, example.reference.labels, strict=True):
            boxes.setdefault(label, []).append(box)
    shares = Counter({label: len(found) / len(train) for label, found in boxes.items()})
    found = [(label, share) for label, share in shares.most_common() for _ in range(max(1, round(share)))]
    return Objects(
        tuple(tuple(np.mean(boxes[label], 0).tolist()) for label, _ in found),
        tuple(label for label, _ in found),
        tuple(min(1.0, share) for _, share in found),
    )


class Dense(nn.Module):
    """The suite's stem with a class and four distances at each patch."""

    def __init__(self, width: int, labels: int, *, stride: int, channels: int):
        super().__init__()
        self.stem = ConvolutionalStem(width, stride=stride, channels=channels, dropout_rate=0.0)
        self.mix = nn.Sequential(
            *(
                layer
                for _ in range(2)
                for layer in (nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(8, width), nn.ReLU())
            )
        )
        self.head = nn.Conv2d(width, labels + 4, 1)
        nn.init.constant_(self.head.bias[:labels], -4.0)
        self.labels, self.stride = labels, stride

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B,H,W,3) uint8 -> class logits (B,C,h,w) and distances to left, top, right, bottom (B,4,h,w) in pixels."""
        rows, columns = pixels.size(1) // self.stride, pixels.size(2) // self.stride
        values = self.stem(pixels, torch.ones(pixels.shape[:2], dtype=torch.bool)).values
        x = self.head(self.mix(values.transpose(1, 2).unflatten(2, (rows, columns))))
        return x[:, : self.labels], functional.softplus(x[:, self.labels :]) * self.stride


def targets(task: DetectionTask, objects: Sequence[Objects], rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Class (B,C,h,w), distances (B,4,h,w) and weight (B,h,w): 1 at the patch of each object's centre."""
    stride = task.options.stride
    label = torch.zeros(len(objects), len(task.target.labels), rows, columns)
    distance, weight = torch.zeros(len(objects), 4, rows, columns), torch.zeros(len(objects), rows, columns)
    for number, one in enumerate(objects):
        for (x1, y1, x2, y2), name in zip(one.boxes, one.labels, strict=True):
            row = min(int((y1 + y2) / 2 / stride), rows - 1)
            column = min(int((x1 + x2) / 2 / stride), columns - 1)
            x, y = (column + 0.5) * stride, (row + 0.5) * stride
            label[number, task.target.labels.index(name), row, column] = 1.0
            distance[number, :, row, column] = torch.tensor([x - x1, y - y1, x2 - x, y2 - y])
            weight[number, row, column] = 1.0
    return label, distance, weight


def train_dense(
    task: DetectionTask, examples: Sequence[Example], *, width: int, training: Training, seed: int
) -> tuple[Dense, int]:
    """A dense detector and its updates, trained with focal loss and L1, the optimiser and batches as in `training`."""
    torch.manual_seed(seed)
    options, rng = task.options, Random(seed)
    count = max(1, min(training.batch_tokens // options.height, len(examples)))
    change = Augmentation(options.flip, options.scales, options.colour)
    model = Dense(width, len(task.target.labels), stride=options.stride, channels=options.channels).train()
    optimizer, updates = build_optimizer(model, training), 0
    rows, columns = options.height // options.stride, options.width // options.stride
    start = time.monotonic()
    while (
        share := max(updates / training.max_updates, (time.monotonic() - start) / 60.0 / training.max_minutes)
    ) < 1.0:
        set_rate(optimizer, learning_rate(training, updates, share))
        pictures, objects = [], []
        for example in rng.sample(list(examples), count):
            pixels, scale = fit(example.source.pixels(), options.height, options.width)
            pixels, seen = change(pixels, scaled(example.reference, scale), rng)
            pictures.append(torch.from_numpy(np.array(pixels)))  # a copy, because the array is read-only
            objects.append(seen)
        logits, distances = model(torch.stack(pictures))
        label, distance, weight = targets(task, objects, rows, columns)
        chance = logits.sigmoid()
        wrong = functional.binary_cross_entropy_with_logits(logits, label, reduction="none")
        focal = (label - chance).abs().square() * wrong
        far = ((distances - distance).abs() / options.stride * weight.unsqueeze(1)).sum()
        loss = (focal.sum() + 0.25 * far) / weight.sum().clamp(min=1.0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
        optimizer.step()
        updates += 1
    return model.eval(), updates


@torch.inference_mode()
def detect(task: DetectionTask, model: Dense, example: Example) -> Objects:
    """Boxes of one picture by descending score, after non-maximum suppression within each class."""
    original = example.source.pixels()
    pixels, scale = fit(original, task.options.height, task.options.width)
    logits, distances = model(torch.from_numpy(pixels)[None])
    chances = logits[0].sigmoid().flatten(1)
    best, place = chances.flatten().topk(min(_MOST, chances.numel()))
    columns = logits.size(3)
    boxes, labels, scores = [], [], []
    for score, flat in zip(best.tolist(), place.tolist(), strict=True):
        if score < _LEAST_SCORE:
            break
        patch = flat % chances.size(1)
        x, y = (patch % columns + 0.5) * model.stride, (patch // columns + 0.5) * model.stride
        left, top, right, bottom = distances[0, :, patch // columns, patch % columns].tolist()
        boxes.append((x - left, y - top, x + right, y + bottom))
        labels.append(task.target.labels[flat // chances.size(1)])
        scores.append(score)
    return nms(scaled(Objects(tuple(boxes), tuple(labels), tuple(scores)), 1.0 / scale), _OVERLAP)


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yaml")
    parser.add_argument("override", nargs="*", help="key=value")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_intermixed_args(given)
    torch.set_num_threads(arguments.threads)
    config = config_file.load(Path(arguments.yaml), arguments.override)
    task = open_task("detection", config)
    train, test = task.read("train"), task.read("test")
    task.fit(train)
    average = average_boxes(train)
    dense, updates = train_dense(task, train, width=config.backbone.width, training=config.training, seed=config.seed)
    rows = []
    for name, predictions in (
        ("average boxes", [average] * len(test)),
        ("dense detector on the same stem", [detect(task, dense, item) for item in test]),
    ):
        score = task.score(predictions, [example.reference for example in test])
        rows.append([name, *(f"{score.figures[figure]:.2f}" for figure in ("ap", "ap50", "ap75", "recall"))])
    publish(
        [
            f"## Baselines: `{Path(arguments.yaml).name}`, test",
            "",
            *markdown_table(["detector", "AP", "AP50", "AP75", "recall"], rows),
            "",
            f"- {score.signature}",
            f"- the dense detector: {updates:,} updates",
            *provenance(config.seed, arguments.threads),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
