"""What each task may be told: its options in a configuration."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from seq2seq_suite.config_section import (
    Few,
    FewOrNone,
    Fraction,
    NotNegative,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    Share,
    ShareOrNone,
    Symbols,
)
from seq2seq_suite.types import brief

Zoom = Annotated[float, Field(ge=0.1, le=10.0)]
Pixels = Annotated[int, Field(ge=16, le=10_000)]
Channels = Annotated[int, Field(ge=8, le=8000, multiple_of=8)]
Speeds = Annotated[tuple[Zoom, ...], Field(min_length=1)]
MadeOrNone = Annotated[int, Field(ge=0, le=10**7)]


class Parsing(Section):
    """Options of the parsing task."""

    target: ClassVar[str] = "trees"
    linearisation: Literal["in_order", "brackets", "tetra_tags"] = "in_order"  # tetra_tags: of known length, unguided
    guide: bool = True  # the decoder's input holds the parser's state: focus words and open labels
    characters: bool = True  # words are read by their letters too
    max_characters: Positive = 20  # of a word: the first and last halves of a longer one are kept
    min_count: Positive = 2  # rarer words are <unknown>, read by their letters
    unknown_rate: ShareOrNone = 0.5  # word dropped to <unknown> with rate * min(1, 2/count)
    tag_loss: NotNegativeFloat = 0.5  # weight of predicting part-of-speech tags from the encoder
    move_loss: NotNegativeFloat = 0.5  # the same for what the parser does between a word and the next
    max_unary: Few = 3  # longest chain of nodes with one child

    @model_validator(mode="after")
    def _guide_has_a_parser(self) -> Parsing:
        if self.guide and self.linearisation == "tetra_tags":
            raise ValueError("parsing.linearisation tetra_tags has no parser's state to show: set parsing.guide=false")
        return self


class Translation(Section):
    """Options of the translation task."""

    target: ClassVar[str] = "text"
    source_language: str = "en"  # what columns and files are called: `en`, train.en; a language of miniworld
    target_language: str = "de"
    source_subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    target_subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    vocabulary_size: Symbols = 4000  # of each side, or of both together; at most
    joint: bool = True  # one vocabulary for both languages: source, target and output share an embedding
    bpe_dropout: Fraction = 0.0  # in training each merge is left out with this probability
    unigram_alpha: NotNegativeFloat = 0.0  # in training segmentations are drawn with p^alpha; 0 is off
    lowercase: Literal["none", "source", "both"] = "none"  # with `both` the figures disregard case, too
    metric_tokenizer: Literal["13a", "zh", "none"] = "13a"  # of sacreBLEU; none only for text tokenised already
    tokenised_lowercase_bleu: bool = False  # as many papers print it, besides

    @model_validator(mode="after")
    def _sides_agree(self) -> Translation:
        kinds = {self.source_subwords, self.target_subwords}
        if self.joint and len(kinds) > 1:
            raise ValueError("translation.joint needs the same translation.source_subwords and "
                             "translation.target_subwords")
        for key, kind in (("bpe_dropout", "bpe"), ("unigram_alpha", "unigram")):
            if getattr(self, key) and kind not in kinds:
                raise ValueError(f"translation.{key} acts on {kind} subwords, but translation.source_subwords is "
                                 f"{self.source_subwords} and translation.target_subwords {self.target_subwords}")
        if self.source_language == self.target_language:
            raise ValueError(f"translation.source_language and translation.target_language are both "
                             f"{brief(self.source_language)}")
        if self.target_language == "zh" and (self.metric_tokenizer == "13a" or self.tokenised_lowercase_bleu):
            raise ValueError("translation.target_language zh has no spaces between words: "
                             "translation.metric_tokenizer must be zh, and translation.tokenised_lowercase_bleu false")
        return self


class QA(Section):
    """Options of the question-answering task."""

    target: ClassVar[str] = "text"
    encoding: Literal["tokens", "sentences", "pieces"] = "tokens"  # the source's positions are words with the distance
    # of their sentence, or whole sentences, or pieces of context and question, as a language model reads them
    pieces: Symbols = 4000  # of encoding `pieces`, at most; those of init_from where it is given
    lowercase: bool = False  # questions, contexts and answers are read and written in lower case
    min_count: Positive = 1  # rarer words are <unknown>
    segments: Positive = 64  # distances from the question that are told apart, in sentences
    segment_jitter: Fraction = 0.0  # in training, chance of each distance that it and all beyond grow by one
    crop: Literal["refuse", "first", "last", "overlap"] = "refuse"  # contexts beyond data.max_length: a bad row, or
    # keep the first or the last sentences, or those that share most words with the question
    pointer: bool = False  # answers may be copied from question and context, which share their vocabulary then
    category_columns: tuple[str, ...] = ("task", "type")  # the first one there is a question's category
    keep_categories: tuple[str, ...] = ()  # other categories are left out (and counted); empty keeps all

    @field_validator("keep_categories", mode="before")
    @classmethod
    def _numbers_are_names(cls, given: Any) -> Any:
        if isinstance(given, (list, tuple)):  # bAbI's tasks are numbers
            return tuple(str(name) if isinstance(name, int) else name for name in given)
        return given

    @model_validator(mode="after")
    def _words_to_copy(self) -> QA:
        if self.pointer and self.encoding != "tokens":
            raise ValueError(f"qa.pointer copies words, but qa.encoding is {self.encoding}: use tokens")
        return self


class Multilabel(Section):
    """Options of the multi-label task."""

    target: ClassVar[str] = "labels"
    order: Literal["frequency", "given", "random", "free"] = "frequency"  # of labels in the target; random: drawn anew
    # each time an example is seen; free: any order is right, a loss over the set of labels not yet written
    encoding: Literal["words", "pieces"] = "words"  # pieces: of the text as it stands, as a language model reads it
    pieces: Symbols = 4000  # of encoding `pieces`, at most; those of init_from where it is given
    max_words: NotNegative = 0  # the network reads the first so many words of a longer text; 0 reads all
    lower_case: bool = True
    min_count: Positive = 2  # rarer words are <unknown>
    max_vocabulary: NotNegative = 0  # most word types kept; 0 keeps all
    characters: bool = False  # words are read by their letters too
    max_characters: Positive = 20  # of a word: the first and last halves of a longer one are kept
    word_dropout: Fraction = 0.1  # chance of each word to be <unknown> in training
    allow_empty: bool = False  # texts without a label are examples, and outputs may be empty; otherwise bad rows
    head: Literal["none", "pooled", "label_wise"] = "none"  # classifier of each label on the encoder
    head_weight: PositiveFloat = 0.5  # of its binary cross-entropy in the loss
    head_mixture: NotNegativeFloat = 0.0  # mu: a set's score = log p(sequence) + mu * log p(head)
    pointer: bool = False  # the decoder's logits see what label-wise attention found
    decision: Literal["best", "marginals"] = "best"  # best: the likeliest set; marginals: every label whose
    # probability, summed over the sets in the beam and mixed with the head's by mu, exceeds the threshold
    threshold: Share = 0.5  # of `marginals`
    tune_threshold: bool = True  # put the threshold where micro-F1 on the validation split is highest
    prior_adjustment: NotNegativeFloat = 0.0  # of `marginals`: lambda * log prior off a label's log-odds
    linear_scores: bool = False  # the head reads the scores of linear classifiers, out of fold in training
    linear_folds: Annotated[int, Field(ge=2, le=1000)] = 5
    linear_strength: PositiveFloat = 1.0  # C of the linear support vector machines
    linear_ngrams: Few = 1  # longest n-gram that they read
    linear_mixture: NotNegativeFloat = 0.0  # of `marginals`: times their scores, onto the log-odds
    linear_title: NotNegativeFloat = 0.0  # weight of the words before the first full stop, read apart

    @model_validator(mode="after")
    def _parts_are_there(self) -> Multilabel:
        if self.pointer and self.head != "label_wise":
            raise ValueError("multilabel.pointer needs multilabel.head=label_wise")
        if self.head_mixture and self.head == "none":
            raise ValueError("multilabel.head_mixture needs multilabel.head=pooled or label_wise")
        if self.linear_scores and self.head == "none":
            raise ValueError("multilabel.linear_scores needs multilabel.head=pooled or label_wise")
        if self.prior_adjustment and self.decision != "marginals":
            raise ValueError("multilabel.prior_adjustment needs multilabel.decision=marginals")
        if self.linear_mixture and not (self.linear_scores and self.decision == "marginals"):
            raise ValueError("multilabel.linear_mixture needs multilabel.linear_scores=true and "
                             "multilabel.decision=marginals")
        return self


class Audio(Section):
    """How sound is read, in every task that hears."""

    bins: Few = 80  # of the mel scale
    subsampling: Literal[2, 4] = 4  # frames of 10 ms that become one vector
    speeds: Speeds = (1.0,)  # in training each sound is played at one of these, drawn each epoch
    pad_seconds: Annotated[float, Field(ge=0.0, le=600.0)] = 0.0  # shorter sounds get silence on both sides
    frequency_bars: FewOrNone = 2  # SpecAugment, in training: bands of mel bins silenced
    frequency_width: NotNegative = 27  # the widest, in bins
    time_bars: FewOrNone = 5  # and spans of time
    time_share: Fraction = 0.05  # the longest, as a share of the sound
    cache: str = ""  # folder where features are kept; empty: seq2seq_suite/features in the user's folder for caches


class ASR(Section):
    """Options of speech recognition."""

    target: ClassVar[str] = "text"
    text_column: str = "text"
    subwords: Literal["characters", "bpe", "unigram"] = "characters"
    vocabulary_size: Symbols = 500  # of bpe and unigram, at most
    leave_out_speaker: str = ""  # train and validate without this one, test on it alone (column `speaker`)
    composed: MadeOrNone = 0  # sequences made of one speaker's recordings, added to the training split
    composed_parts: tuple[Few, Few] = (3, 7)  # fewest and most recordings in one

    @model_validator(mode="after")
    def _some_parts(self) -> ASR:
        if self.composed_parts[0] > self.composed_parts[1]:
            raise ValueError(f"asr.composed_parts {list(self.composed_parts)}: the fewest are more than the most")
        return self


class SpeechTranslation(Section):
    """Options of speech translation."""

    target: ClassVar[str] = "text"
    text_column: str = "text"  # of the transcript, for CTC
    translation_column: str = "translation"
    subwords: Literal["characters", "bpe", "unigram"] = "characters"  # of the translation
    vocabulary_size: Symbols = 1000  # at most
    metric_tokenizer: Literal["13a", "zh", "none"] = "zh"  # of sacreBLEU


class Detection(Section):
    """Options of detection as a sequence."""

    target: ClassVar[str] = "objects"
    height: Pixels = 240  # every picture is fitted into these, in pixels
    width: Pixels = 320
    stride: Literal[4, 8, 16, 32] = 16  # pixels along each side of what becomes one vector
    frontend: Literal["convolutions", "patches"] = "convolutions"
    channels: Channels = 32  # of the first convolution; doubled with each halving
    bins: Annotated[int, Field(ge=2, le=100_000)] = 200  # of coordinates, along the longer side
    instances: Positive = 40  # objects written of each picture, noise included; a picture with more is a bad row
    smoothing: NotNegativeFloat = 1.0  # deviation of coordinates' soft targets, in bins; 0 for hard ones
    order: Literal["random", "place"] = "random"  # in which objects are learned; place: from above, then from the left
    noise_weight: PositiveFloat = 1.0  # of noise's class in the loss
    patch_loss: NotNegativeFloat = 0.0  # weight of naming what has its centre in an encoded patch
    top_p: ShareOrNone = 0.0  # draw coordinates from this share; 0 takes the likeliest
    max_overlap: Share = 1.0  # of two boxes of a class, the surer is kept beyond this
    flip: bool = True  # in training, sideways and upside down
    turn: bool = False  # by quarters, where pictures are square
    scales: tuple[Zoom, Zoom] = (1.0, 1.0)  # smallest and largest zoom in training
    colour: Fraction = 0.0  # change of brightness, contrast and saturation in training

    @model_validator(mode="after")
    def _pictures_are_seen(self) -> Detection:
        if self.scales[0] > self.scales[1]:
            raise ValueError(f"detection.scales {list(self.scales)}: the smallest is larger than the largest")
        if min(self.height, self.width) < self.stride:
            raise ValueError(f"detection.height {self.height} and detection.width {self.width}: a side is shorter than "
                             f"detection.stride {self.stride}")
        return self


class LanguageModel(Section):
    """Options of language modelling: a decoder alone."""

    target: ClassVar[str] = "continuations"
    text_column: str = "text"
    subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    vocabulary_size: Symbols = 4000  # at most
    lowercase: bool = False  # figures are of lower-cased texts then
    window: Positive = 1000  # characters that are read together; longer texts are cut at spaces
