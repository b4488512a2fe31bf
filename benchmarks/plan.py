"""Hours and memory for WMT14 English-German on H100s, computed from shapes before anything is rented.

    python -m benchmarks.plan

Steps and batches are those of Vaswani et al. 2017: base 100,000 and big 300,000 steps of 25,000 source and 25,000
target tokens, 37,000 joint symbols. Computed are operations (`Shape.operations`), bytes of weights, gradients and
AdamW, and the exchange of gradients over a link; counted here, with a small batch and one and two layers, are the
bytes of activations that a pass keeps for each token, and how many kernels an update launches. Assumed are the share of
the peak, the rates of links and the time to launch a kernel: all below, with their sources.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from benchmarks.machine import markdown_table
from benchmarks.systems import Shape

LENGTH = 30  # tokens of a sentence, END included; from 15 to 60 it changes operations by 2 %
TOKENS = 25_000  # of the source, and of the target, in a step; Vaswani et al. 2017, section 5.1
PEAK = 989e12  # bfloat16 operations a second of an H100 SXM, dense; NVIDIA's data sheet
# Of the peak. llm-foundry publishes 40 % for a GPT of 760M parameters on texts of 512 tokens, its smallest on H100s,
# and 43 % for one of 125M on A100s (scripts/train/benchmarking/README.md); half of it for short, padded sentences.
SHARES = (0.4, 0.2)
LAUNCH = 5e-6  # seconds in which PyTorch launches a kernel; what no larger batch hides
BYTES = {"weights": 4, "their bfloat16 copies": 2, "gradients": 4, "AdamW": 8}  # of each parameter
BUCKET = 25e6  # bytes that DistributedDataParallel exchanges at a time; the last cannot be overlapped


@dataclass(frozen=True)
class Recipe:
    """A published training.

    Args:
        shape: the model's.
        steps: of the whole training.
        seconds: of a step on the authors' eight P100s.
    """

    shape: Shape
    steps: int
    seconds: float


RECIPES = {
    "base": Recipe(Shape(512, 2048, 8, 6, 37_000), 100_000, 0.4),
    "big": Recipe(Shape(1024, 4096, 16, 6, 37_000), 300_000, 1.0),
}


@dataclass(frozen=True)
class Link:
    """What joins GPUs: bytes a second that leave a GPU within its machine, and a machine for the other one."""

    name: str
    gpus: int
    inside: float
    between: float = 0.0


# NVLink: 370 GB/s of 450 (NVIDIA/nccl-tests#212); networks at 90 % of their rate.
LINKS = (
    Link("one H100", 1, 0.0),
    Link("eight, NVLink", 8, 370e9),
    Link("two machines of eight, 8 x 400 Gb/s", 16, 370e9, 0.9 * 8 * 50e9),
    Link("two machines of eight, 100 Gb/s", 16, 370e9, 0.9 * 12.5e9),
)


def parameters(shape: Shape) -> int:
    """Of a Transformer with one embedding for source, target and output, biases and gains included."""
    width, inner = shape.width, shape.feed_forward
    attention, feed_forward, norm = 4 * width * (width + 1), 2 * width * inner + inner + width, 2 * width
    layers = shape.layers * (3 * attention + 2 * feed_forward + 5 * norm)
    return layers + shape.vocabulary * (width + 1)


def operations(shape: Shape) -> float:
    """Of a step."""
    return TOKENS / LENGTH * shape.operations(LENGTH, LENGTH)


def exchange(size: float, link: Link) -> float:
    """Seconds to sum `size` bytes over all GPUs: a ring in each machine, in which each GPU sends 2 (n - 1) / n of them;
    between two machines each sends them all once, every GPU its share."""
    inside = min(link.gpus, 8)
    seconds = 2 * (inside - 1) / inside * size / link.inside if link.gpus > 1 else 0.0
    return seconds + (size / link.between if link.between else 0.0)


def waiting(size: float, link: Link, backward: float) -> float:
    """Seconds of an exchange that the backward pass does not hide: what takes longer than it, at least a bucket."""
    whole = exchange(size, link)
    return max(whole - backward, exchange(min(size, BUCKET), link))


def counted(shape: Shape) -> tuple[float, int]:
    """Bytes kept for the backward pass for each target token with its source token, and kernels launched by an update
    without the optimiser, in bfloat16."""
    narrow = dataclasses.replace(shape, vocabulary=1000)
    kept, launched = [], []
    for layers in (1, 2):
        small, large = (_pass(dataclasses.replace(narrow, layers=layers), pairs) for pairs in (4, 8))
        kept.append((large[0] - small[0]) / (4 * LENGTH))
        launched.append(large[1])
    more = shape.layers - 1
    return kept[0] + more * (kept[1] - kept[0]), launched[0] + more * (launched[1] - launched[0])


def _pass(shape: Shape, pairs: int) -> tuple[int, int]:
    """Bytes that a forward pass keeps beside parameters, and kernels that it and the backward pass launch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from benchmarks.corpus import Corpus
    from benchmarks.systems import suite
    from seq2seq_suite.common.types import END
    from seq2seq_suite.data.batching import collate

    class Calls(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += not (function.is_view or function._schema.name in ("aten::detach", "aten::empty"))
            return function(*args, **(kwargs or {}))

    learner = suite.learner(shape, 0.1)
    model, strategy = learner.model, learner.strategy
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    held: dict[int, int] = {}

    def hold(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    sentence = [*range(10, 9 + LENGTH), END]
    batch = collate(Corpus("", [], [], []).encoded([(sentence, sentence)] * pairs), "translation")
    with Calls() as calls:
        with torch.autocast("cpu", torch.bfloat16), torch.autograd.graph.saved_tensors_hooks(hold, lambda one: one):
            loss = strategy.loss(model.train(), batch).sums["cross_entropy"]
        loss.backward()
    return sum(held.values()), calls.count


def rows() -> list[list[str]]:
    """The table's."""
    table = []
    for name, recipe in RECIPES.items():
        shape, count = recipe.shape, parameters(recipe.shape)
        kept, launched = counted(shape)
        floor = launched * LAUNCH
        for link in LINKS:
            for share in SHARES:
                compute = operations(shape) / (link.gpus * share * PEAK)
                idle = waiting(4 * count, link, 2 / 3 * compute) if link.gpus > 1 else 0.0
                step = max(compute + idle, floor)
                memory = sum(BYTES.values()) * count + 4 * shape.width * shape.vocabulary + kept * TOKENS / link.gpus
                table.append(
                    [
                        name,
                        link.name,
                        f"{100 * share:.0f} %",
                        f"{1e3 * compute:.1f}",
                        f"{1e3 * exchange(4 * count, link):.1f}" if link.gpus > 1 else "-",
                        f"{1e3 * idle:.1f}",
                        f"{1e3 * floor:.1f}",
                        f"{recipe.steps * step / 3600:.2f}",
                        f"{memory / 1e9:.1f}",
                    ]
                )
    return table


def main() -> None:
    """Print the plan."""
    for name, recipe in RECIPES.items():
        shape, count, each = recipe.shape, parameters(recipe.shape), operations(recipe.shape)
        kept, launched = counted(shape)
        print(
            f"{name}: {count / 1e6:.1f}M parameters, {each / 1e12:.1f} TFLOP a step, {recipe.steps * each:.2g} in "
            f"all; {sum(BYTES.values()) * count / 1e9:.2f} GB for {', '.join(BYTES)}; {kept / 1e3:.0f} kB of "
            f"activations a token, {launched:,} kernels an update; the authors' {recipe.seconds} s a step are "
            f"{100 * each / recipe.seconds / (8 * 10.6e12):.0f} % of eight P100s' 10.6 TFLOP/s"
        )
    print()
    header = [
        "model",
        "GPUs",
        "share of peak",
        "compute, ms a step",
        "exchange, ms",
        "exposed, ms",
        "launches, ms",
        "hours",
        "GB on a GPU",
    ]
    print("\n".join(markdown_table(header, rows())))


if __name__ == "__main__":
    main()
