"""What a task asks of model and strategy, in plain numbers: neither knows the task.

Each kind of source asks for a front-end of its own; each kind of target may tell its strategy more than its symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 5  # symbols of an object


@dataclass(frozen=True)
class SourceShape:
    """The shape that a source needs of the front-end; this base is for no source (a language model)."""

    symbols: int = 0  # token or word types; 0 where they are none


@dataclass(frozen=True)
class TokenShape(SourceShape):
    """Sources (B,S) of tokens, or (B,S,2) of tokens and their segments.

    Args:
        segments: numbers that segments are below; 0 for sources without them.
        segment_jitter: chance of each segment number that it and those above it grow by one in training.
        shared: source and target have one vocabulary, and one embedding serves both.
        copied: tokens are symbols of the target, and may be copied to it.
    """

    segments: int = 0
    segment_jitter: float = 0.0
    shared: bool = False
    copied: bool = False


@dataclass(frozen=True)
class SentenceShape(SourceShape):
    """Sources (B,S,W), sentences with their words, each read as one vector; its place is its segment, as of tokens."""

    segments: int = 0
    segment_jitter: float = 0.0


@dataclass(frozen=True)
class WordShape(SourceShape):
    """Sources (B,S,1+C) of words with their letters.

    Args:
        characters: letters, where words are read by them; otherwise 0.
        dropped: chance of each word type to be dropped to <unknown> in training.
    """

    characters: int = 0
    dropped: tuple[float, ...] = ()


@dataclass(frozen=True)
class SoundShape(SourceShape):
    """Sources (B,S,F) of log-mel features.

    Args:
        mean, deviation: of each of the F bins in the training data.
        subsampling: frames that become one vector, 2 or 4.
        masking: frequency_bars, frequency_width, time_bars and time_share of `model.audio.Masking`.
        transcript: symbols of what is said, CTC's blank among them.
        whisper: features and front-end are Whisper's, which need neither mean nor deviation.
    """

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    subsampling: int = 4
    masking: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    transcript: int = 0
    whisper: bool = False


@dataclass(frozen=True)
class PictureShape(SourceShape):
    """Sources (B,H,W,3); `stride` pixels along each side of a patch, `channels` of the first convolution."""

    stride: int = 16
    channels: int = 32


@dataclass(frozen=True)
class TargetShape:
    """The shape that a target needs of decoder and strategy.

    Args:
        symbols: V.
        num_focus: K of the guide; 0 without one.
        num_context: M of the guide.
        source_labels: (kind, classes, weight in the loss) of the labels that the encoder predicts for each source
            position.
        span_weight: in the loss, of whether each span of the source is a bracket; 0 for none.
    """

    symbols: int
    num_focus: int = 0
    num_context: int = 0
    source_labels: tuple[tuple[str, int, float], ...] = ()
    span_weight: float = 0.0


@dataclass(frozen=True)
class SetShape(TargetShape):
    """Targets that are sets of symbols.

    Args:
        order: fixed: as encoded; random: in each epoch; free: a loss over the symbols not yet predicted.
        head: pooled or label_wise, a classifier of each target symbol on the encoder; empty for none.
        head_weight: of its binary cross-entropy in the loss; 0 for none.
        head_mixture: mu, share of its verdict in decoding; 0 for none.
        pointer: the decoder's logits see the label-wise head's predictions.
        marginals: give each hypothesis the probability of every symbol, from the beam's sets.
    """

    order: str = "fixed"
    head: str = ""
    head_weight: float = 0.0
    head_mixture: float = 0.0
    pointer: bool = False
    marginals: bool = False


@dataclass(frozen=True)
class BoxShape(TargetShape):
    """Objects, written as y1 x1 y2 x2 class, `instances` times, noise where there is no object left.

    Symbols are the specials, then the bins of coordinates, then the classes, then the class of noise.

    Args:
        bins: of coordinates.
        labels: classes, without that of noise.
        instances: objects predicted for each picture, noise included.
        extent: height and width of a picture, in bins.
        patch: side of a patch, in bins.
        rows: of patches.
        smoothing: deviation, in bins, of the bell that coordinates are learned as; 0 for the one bin.
        noise_weight: of noise's class in the loss.
    """

    bins: int = 0
    labels: int = 0
    instances: int = 0
    extent: tuple[float, float] = (0.0, 0.0)
    patch: float = 1.0
    rows: int = 0
    smoothing: float = 1.0
    noise_weight: float = 1.0


@dataclass(frozen=True)
class Shape:
    """Of a task."""

    source: SourceShape
    target: TargetShape
