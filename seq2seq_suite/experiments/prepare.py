"""Prepares a run: examples, vocabularies, weights to start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded, Example
from seq2seq_suite.common.parts import POSITIONS, row_of
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import lengths
from seq2seq_suite.data.drawn import Drawn
from seq2seq_suite.experiments import resuming
from seq2seq_suite.experiments.corpus import Corpus, large
from seq2seq_suite.experiments.streaming import Stream, numbered
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.training import Training
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs import weights
from seq2seq_suite.runs.distributed import Ranks
from seq2seq_suite.runs.run_directory import CONFIG, RunDirectory, provenance
from seq2seq_suite.strategies.learner import Trained
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.rows import place_of, splits_elsewhere
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.training.freezing import freeze, part_of
from seq2seq_suite.training.lora import adapt, base_of

EVERYTHING = "all"  # of `init_parts`
_NO_WEIGHTS = ("positions", "norm_placement", "num_heads", "activation")  # of backbone: weights fit whatever they say
Train = Sequence[Example] | Corpus | Stream  # a training split: in memory, encoded in a file, or read file by file


def with_own_splits(config: Config) -> Config:
    """The configuration without test splits of miniworld that other data do not have; says which they are."""
    if config.tasks:
        return config.model_copy(update={"tasks": {name: with_own_splits(one) for name, one in config.tasks.items()}})
    gone = splits_elsewhere(config.data, open_task(config.task, config).languages)
    if not gone:
        return config
    print(f"data.test_splits without {', '.join(gone)}: miniworld has this, {config.data.path} has not")
    kept = tuple(split for split in config.data.test_splits if split not in gone)
    return config.model_copy(update={"data": config.data.model_copy(update={"test_splits": kept})})


def read_splits(config: Config, task: Task) -> dict[str, Train]:
    """The splits of a run; of the training split, the share `data.share`, at least one example.

    A large training split is not read yet, see `corpus.large`, nor one that is streamed.
    """
    task.check_installed()  # scoring needs some of them, and should not fail after training
    data, choose = config.data, partial(portion, share=config.data.share, seed=config.seed)
    later = Stream(task) if data.streaming else large(config, task, choose)
    read = later.read if isinstance(later, Corpus) else task.read
    splits: dict[str, list[Example]] = {}
    for split in dict.fromkeys(("train", "validation", *data.test_splits)):
        with preparing(f"preparing the split {split} of {data.path} for {task.name}"):
            if later is None or split != "train":
                splits[split] = read(split)
    if later is not None:
        return {"train": later, **splits}
    train = splits["train"]
    used = [train[index] for index in choose(len(train))]
    _tell_share(data, len(used), len(train))
    return {**splits, "train": used}


def _tell_share(data: Data, used: int, size: int) -> None:
    if data.share < 1.0:
        print(f"train: {used:,} of {size:,} examples are used (data.share={data.share:g})")


def encode(backbone: Backbone, task: Task, examples: Train) -> Sequence[Encoded]:
    """Examples as numbers; of a stream those of the first file.

    Raises:
        DataError: the decoder has fewer positions than a target has symbols.
    """
    if isinstance(examples, Stream):
        items = encode(backbone, task, examples.examples(0))
        sources, targets = lengths(items)
        return Drawn(items.__getitem__, source_lengths=sources, target_lengths=targets, digest=examples.digest)
    if isinstance(examples, Corpus):
        encoded = examples.encoded()
        _tell_share(task.data, len(encoded), encoded.size)
    else:
        encoded = task.encode(examples)
    sources, targets = lengths(encoded)
    # A decoder without an encoder reads the source itself.
    most = backbone.max_positions - (sources if backbone.encoder == "none" else np.zeros_like(sources))
    bounded = backbone.decoder != "rnn" and row_of(POSITIONS, backbone.positions).bounded
    for place in np.flatnonzero(targets > most)[:bounded]:
        raise DataError(
            f"a target of {targets[place]:,} symbols",
            **place_of(origins(examples)[int(place)]),
            expected=f"at most {most[place]:,}: backbone.max_positions is {backbone.max_positions:,}",
            remedy="remove the row, or raise backbone.max_positions",
        )
    return encoded


def origins(examples: Train) -> Sequence[str]:
    """Where each example came from; of a corpus after it is encoded."""
    return examples.origins() if isinstance(examples, Corpus | Stream) else [example.origin for example in examples]


def write_provenance(
    config: Config,
    run_directory: RunDirectory,
    encoded: Mapping[str, Sequence[Encoded]],
    ranks: Ranks,
    *,
    resume: bool,
    command: list[str],
) -> None:
    """Write configuration and provenance, after all checks.

    The data must be the same in all processes, and unchanged if the run is resumed.

    Raises:
        DataError: they differ.
    """
    hashes = {split: resuming.fingerprint(items) for split, items in encoded.items()}
    if resume:
        resuming.check_data(run_directory, hashes, config.data.path)
    if ranks.first(hashes) != hashes:
        raise DataError(
            f"process {ranks.rank} reads other examples than the first one",
            file=config.data.path,
            expected="the same data on every machine",
            remedy="copy the data of the first machine",
        )
    run_directory.summary.unlink(missing_ok=True)  # it is out of date
    write_config(config, run_directory)
    own_code = {key.removeprefix("components."): one for key, one in config.code.items()}
    run_directory.write_provenance(
        provenance(command, config.seed, hashes, processes=ranks.world, kernels=config.kernels, components=own_code)
    )


def write_config(config: Config, run_directory: RunDirectory) -> None:
    """Write the configuration, and before it the files of code that it names, so that the run is whole."""
    kept = {reference: run_directory.keep_code(*reference.rsplit(":", 1)) for reference in config.code.values()}
    run_directory.write_config(config_file.dump(config, kept))


def round_lengths(options: Training, precision: torch.dtype, device: torch.device) -> bool:
    """Whether to pad batches to few shapes: oneDNN compiles a bfloat16 kernel for each, torch.compile layers."""
    return options.compile or (precision == torch.bfloat16 and device.type == "cpu")


def fit(task: Task, train: Train) -> None:
    """Build the task's vocabularies, and count what it needs of the targets."""
    if isinstance(train, Corpus):
        train.fit()
    else:
        task.fit(train)
    task.count(train)


def prepare_vocabulary(config: Config, task: Task, train: Train, folder: Path, ranks: Ranks, *, resume: bool) -> None:
    """Build or load the task's vocabularies, which are saved in the run directory; see `Config.init_parts`."""
    fits = ranks.is_first and not (resume and folder.is_dir())
    if fits and config.init_from:
        weights.best(Path(config.init_from))  # fail early if there is no checkpoint
    if fits and config.init_from and EVERYTHING in config.init_parts:
        task.load(Path(config.init_from) / "vocabulary")
        task.count(train)
    elif fits:
        fit(task, train)
    if fits:
        task.save(folder)
    ranks.copy_files(folder, "**/*")
    if not fits:
        task.load(folder)


def initialise_from(config: Config, learner: Trained) -> str:
    """Load the weights that `init_from` names into a learner; a message that says what was loaded.

    A model that reads them otherwise than the one that they come from is allowed, and said.

    Raises:
        DataError: there are none, or they do not fit.
    """
    run = Path(config.init_from)
    path = weights.best(run)
    theirs, ours = config_file.parse(run / CONFIG, of_run=True).get("backbone", {}), config.backbone.model_dump()
    said = (
        weights.load_parts(path, learner, config.init_parts)
        if EVERYTHING not in config.init_parts
        else f"everything starts from {path}: {weights.load_weights(path, learner, grown=True)}"
    )
    unlike = [
        f"backbone.{key} is {ours[key]}, but {theirs[key]} there"
        for key in _NO_WEIGHTS
        if theirs.get(key, ours[key]) != ours[key]
    ]
    return "; ".join((said, *unlike))


def adapt_and_freeze(config: Config, learner: Trained) -> str:
    """Give the learner the changes of `backbone.lora`, and freeze what they change and what `training.freeze` names.

    Returns:
        A message if parts that are frozen keep the random weights that they begin with.

    Raises:
        ConfigError: one of both keys names what the model does not have, or nothing is left to learn.
    """
    given = config.init_parts if config.init_from else ()
    loaded = {part_of(name) for name, _ in learner.named_parameters()} if EVERYTHING in given else {*given}
    adapt(learner, config.backbone.lora, loaded)
    frozen = freeze(learner, config.training.freeze, base_of(learner, loaded) if config.backbone.lora.rank else ())
    fresh = [part for part in dict.fromkeys(map(part_of, frozen)) if part not in loaded]
    if not fresh:
        return ""
    said = f"init_from gives {', '.join(given)} alone" if given else "init_from names no run"
    return f"training.freeze: random weights of {', '.join(fresh)} never change, for {said}"


def epoch_encoder(backbone: Backbone, task: Task, train: Train) -> Callable[[int], Sequence[Encoded]] | None:
    """Encodes the training data for an epoch; None if it is the same in every epoch."""
    if isinstance(train, Stream):
        return lambda epoch: numbered(encode(backbone, task, train.examples(epoch)), epoch)
    # A task whose examples vary has no corpus: see `large`.
    return partial(task.encode_epoch, train) if task.varies and not isinstance(train, Corpus) else None


def portion(size: int, share: float, seed: int) -> Sequence[int]:
    """A random share of `range(size)`, at least one number, sorted."""
    return subset(size, max(1, round(share * size)), seed)


def subset(size: int, wanted: int, seed: int) -> Sequence[int]:
    """`wanted` random numbers of `range(size)`, sorted; all if `wanted` is 0 or too large."""
    if not wanted or wanted >= size:
        return range(size)
    order: Tensor = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return sorted(order[:wanted].tolist())
