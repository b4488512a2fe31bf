"""What a task asks of model and strategy, in plain numbers: neither knows the task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SoundShape:
    """What log-mel features ask of the front-end.

    Args:
        mean, deviation: of each of the F bins in the training data.
        subsampling: frames that become one vector, 2 or 4.
        frequency_bars, frequency_width, time_bars, time_share: of `model.audio.Masking`.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    subsampling: int = 4
    frequency_bars: int = 0
    frequency_width: int = 0
    time_bars: int = 0
    time_share: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """What a task's vocabularies ask of the model.

    Args:
        target_symbols: V.
        source_symbols: token or word types.
        source_characters: letters, where words are read by their letters; otherwise 0.
        words: True for sources (B,S,P), words with pieces; False for (B,S) tokens.
        source_labels: (kind, classes, weight in the loss) of the auxiliary labels of each source position.
        num_focus: K; 0 without a guide.
        num_context: M.
        unknown_probability: chance of each word type to be dropped to <unknown> in training.
        shared_symbols: True where source and target have one vocabulary, and one embedding serves both.
        source_segments: segment numbers, below which those of sources (B,S,2) lie, a token and its segment each;
            0 for sources without them.
        segment_jitter: chance of each segment number that it and those above it grow by one in training.
        sentences: True for sources (B,S,W), sentences with their words, read as one vector each; the segment
            number of a sentence is its place.
        pointer: True where tokens of the source are symbols of the target and may be copied.
        sound: for sources (B,S,F) of log-mel features; None for symbols.
        ctc_symbols: symbols of the transcript, the blank among them; 0 without CTC.
        picture_stride: pixels along each side of a patch, for sources (B,H,W,3); 0 for other sources.
        picture_rows: rows of encoder positions of a picture.
        picture_channels: of the first convolution.
        has_source: False for a language model, which has no encoder.
        sets: how targets that are sets are learned; None for other targets.
        boxes: how objects are written; None for other targets.
    """

    target_symbols: int
    source_symbols: int
    source_characters: int = 0
    words: bool = False
    source_labels: tuple[tuple[str, int, float], ...] = ()
    num_focus: int = 0
    num_context: int = 0
    unknown_probability: tuple[float, ...] = ()
    shared_symbols: bool = False
    source_segments: int = 0
    segment_jitter: float = 0.0
    sentences: bool = False
    pointer: bool = False
    sound: SoundShape | None = None
    ctc_symbols: int = 0
    picture_stride: int = 0
    picture_rows: int = 0
    picture_channels: int = 32
    has_source: bool = True
    sets: SetOptions | None = None
    boxes: BoxOptions | None = None


GROUP = 5  # symbols of an object


@dataclass(frozen=True)
class BoxOptions:
    """How objects are written as symbols: y1 x1 y2 x2 class, `instances` times, noise where there is no object left.

    Symbols are the specials, then the bins of coordinates, then the classes, then the class of noise.

    Args:
        bins: of coordinates.
        labels: classes, without that of noise.
        instances: objects written of each picture, noise included.
        extent: height and width of a picture, in bins.
        patch: side of a patch, in bins.
        smoothing: deviation, in bins, of the bell that coordinates are learned as; 0 for the one bin.
        noise_weight: of noise's class in the loss.
    """

    bins: int
    labels: int
    instances: int
    extent: tuple[float, float]
    patch: float
    smoothing: float = 1.0
    noise_weight: float = 1.0


@dataclass(frozen=True)
class SetOptions:
    """How targets that are sets of symbols are learned and searched for.

    Args:
        order: fixed: as encoded; random: drawn anew each time; free: a loss over the symbols not yet written.
        head_weight: weight of the label head's binary cross-entropy in the loss; 0 for none.
        head_mixture: mu, share of the label head's verdict in decoding; 0 for none.
        marginals: give each hypothesis the probability of every symbol, from the beam's sets.
        head: pooled or label_wise, a classifier of each target symbol on the encoder; empty for none.
        pointer: the decoder's logits see what the label-wise head found.
    """

    order: str = "fixed"
    head_weight: float = 0.0
    head_mixture: float = 0.0
    marginals: bool = False
    head: str = ""
    pointer: bool = False
