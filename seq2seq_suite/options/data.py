"""Where examples come from: the section `data` of a configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq_suite.options.section import Fraction, NotNegative, Positive, Section, Share


class Data(Section):
    """Where examples come from."""

    path: str = "miniworld"  # miniworld (embedded) | a local file or folder | a Hub name; a single file is train
    format: str = ""  # of local files, by their extensions; or one of these, such as jsonl; or FILE.py:NAME, a function
    # of yours from a file's path to its rows, each a dictionary
    subset: str = ""  # configuration name of a Hub data set, or view of miniworld if not the task's own
    size: Annotated[int, Field(ge=0, le=10**7)] = 0  # rows of miniworld's training split; 0: the view's default
    splits: dict[str, str] = {}  # our split name -> file pattern in a folder, split of a Hub data set; of a file train
    split: dict[str, Fraction] = {}  # splits cut off train, by a hash of each row, e.g. {validation: 0.1, test: 0.1}
    test_splits: tuple[str, ...] = ("test",)  # evaluated once, with the best checkpoint, at the end of a run; of other
    # data than miniworld without miniworld's own, unless they have them
    share: Share = 1.0  # share of the training split that is used, a random subset
    max_bad_rows: NotNegative = 0  # broken rows tolerated (and listed) before the run stops
    max_row_megabytes: Positive = 64  # longest line of a text file, and longest cell of a table, that is read
    in_memory_megabytes: NotNegative = 16  # a training split of larger text files is encoded once into `cache`, and
    # read from there; for tasks whose rows do not depend on one another, such as translation
    cache: str = ""  # folder for encoded corpora; empty: seq2seq_suite/corpora in the user's folder for caches
    vocabulary_rows: Positive = 500_000  # rows of such a split, evenly spread, from which vocabularies are built
    streaming: bool = False  # train's files of rows are read one after the other, over and over, each an epoch; neither
    # memory nor cache holds more than one of them
    unicode: Literal["nfc", "none"] = "nfc"  # Unicode form of all texts: composed, as most are already; none:
    # unchanged, as in runs older than this key
    max_length: Positive = 256  # longest source, in words; a longer one is a bad row

    @model_validator(mode="after")
    def _rows_are_left(self) -> Data:
        if "train" in self.split or sum(self.split.values()) >= 1.0:
            raise ValueError("data.split names shares of train that become other splits, less than 1 in all")
        if self.streaming and (self.split or self.share < 1.0):
            raise ValueError("data.streaming reads whole files: leave out data.split and data.share")
        return self
