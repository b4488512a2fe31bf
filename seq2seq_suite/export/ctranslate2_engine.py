"""CTranslate2 as the engine of the search, instead of PyTorch."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import END, Batch, Constraint, Hypothesis
from seq2seq_suite.export import ctranslate2_model as export_ctranslate2
from seq2seq_suite.export.compatibility import both_sides
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.search.ensemble import Ensemble

if TYPE_CHECKING:
    from ctranslate2 import Translator

    from seq2seq_suite.options.search import Search as SearchOptions

ENGINES = {"pytorch": "", "ctranslate2": "float32", "ctranslate2-int8": "int8"}  # the precision of CTranslate2


def with_engine(run: LoadedRun, directory: Path, engine: str) -> LoadedRun:
    """The run with another engine for its searches; the model is converted to a temporary folder and read from there.

    PyTorch keeps one thread: its others would spin beside CTranslate2's, which then takes many times as long.

    Args:
        run: opened, and not used yet.
        directory: the run's.
        engine: one of `ENGINES`.

    Raises:
        ConfigError: an unknown engine, one that is not installed, or a run that it cannot express.
    """
    if engine not in ENGINES:
        raise ConfigError(f"--engine {engine}", expected=" or ".join(ENGINES), remedy="choose one of these")
    if engine == "pytorch":
        return run
    export_ctranslate2.check(run.config, run.task, directory)
    search = run.config.search
    if isinstance(run.predictor.model, Ensemble):
        raise ConfigError(f"several runs with --engine {engine}", expected="one run", remedy="leave out --engine")
    is_exact = getattr(run.predictor.learner.strategy, "is_exact", None)  # of blocks, whose left-to-right half it has
    for key, wrong in (
        ("order", is_exact is not None and not is_exact(search)),
        ("sampling", search.sampling),
        ("risk", search.risk > 1),
        ("drafter", search.drafter),
        ("rescorer", search.rescorer),
        ("min_length", search.min_length),
        ("no_repeat_ngram", search.no_repeat_ngram),
        ("repetition_penalty", search.repetition_penalty != 1.0),
        ("suppress", search.suppress),
        ("begin_suppress", search.begin_suppress),
        ("processors", search.processors),
    ):
        if wrong:
            raise ConfigError(
                f"search.{key} {getattr(search, key)} with --engine {engine}",
                file=str(directory),
                expected="greedy or beam search alone",
                remedy="leave out --engine",
            )
    import ctranslate2

    threads = run.config.training.threads or torch.get_num_threads()
    torch.set_num_threads(1)
    device = run.predictor.device.type if run.predictor.device.type == "cuda" else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        export_ctranslate2.specification(run).save(folder)
        translator = ctranslate2.Translator(folder, device=device, intra_threads=threads, compute_type=ENGINES[engine])
    names, targets = (one.pieces.names(range(len(one))) for one in both_sides(run.task))
    return replace(
        run,
        predictor=replace(
            run.predictor,
            device=torch.device("cpu"),
            learner=TranslatorLearner(run.predictor.learner, translator, names, targets),
        ),
    )


class TranslatorLearner:
    """Replaces a learner where only its outputs are needed.

    Hypotheses are ranked by the suite's normalisation of length, among those that CTranslate2's beams end with.

    Args:
        learner: whose model was converted.
        translator: the converted model.
        source_names, target_names: of all ids.
    """

    training = False

    def __init__(
        self, learner: torch.nn.Module, translator: Translator, source_names: list[str], target_names: list[str]
    ):
        self.model, self.strategy, self.translator = learner.model, learner.strategy, translator
        self.source_names = source_names
        self.target_ids = {name: number for number, name in enumerate(target_names)}

    def generate(
        self, batch: Batch, *, options: SearchOptions, limit: torch.Tensor, constraint: Constraint | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first; see `Strategy.generate`.

        Raises:
            ConfigError: the beginnings of outputs are given.
        """
        if "begin" in batch.auxiliary:
            raise ConfigError(
                "the beginning of an output with --engine ctranslate2",
                expected="whole outputs to search for",
                remedy="leave out --begin or --engine",
            )
        sources = [
            [self.source_names[number] for number in row[:length] if number != END]
            for row, length in zip(batch.source.tolist(), batch.source_mask.sum(1).tolist(), strict=True)
        ]
        found = self.translator.translate_batch(
            sources,
            beam_size=options.beam_size,
            num_hypotheses=options.beam_size,
            return_scores=True,
            length_penalty=options.length_penalty,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=int(limit.max()),
        )
        return [
            self._ranked(one.hypotheses, one.scores, options, longest)[: options.num_hypotheses]
            for one, longest in zip(found, limit.tolist(), strict=True)
        ]

    def _ranked(
        self, outputs: list[list[str]], scores: list[float], options: SearchOptions, limit: int
    ) -> list[Hypothesis]:
        ranked = []
        for output, score in zip(outputs, scores, strict=True):
            symbols = tuple(self.target_ids[name] for name in output)[: limit - 1]
            complete = len(symbols) == len(output)
            log_probability = torch.tensor(score * (len(output) + 1) ** options.length_penalty)
            ranked.append(Hypothesis(symbols, float(options.normalise(log_probability, len(output) + 1)), complete))
        return sorted(ranked, key=lambda one: -one.score)
