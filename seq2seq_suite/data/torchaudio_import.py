"""torchaudio with any build of torch."""

from __future__ import annotations

import sys
from types import ModuleType

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.lazy_imports import installing


def load_torchaudio() -> ModuleType:
    """torchaudio, without its compiled part if that cannot be loaded.

    The wheel's compiled part links CUDA libraries, which a CPU build of torch lacks. Nothing here needs it, but the
    package cannot be imported without it, so that a stub replaces the module that loads it.

    Raises:
        DataError: torchaudio is not installed.
    """
    try:
        import torchaudio
    except ModuleNotFoundError:
        raise DataError(
            "torchaudio is not installed", expected="it reads sound for this task", remedy=installing("speech")
        ) from None
    except OSError:
        import torch

        if torch.version.cuda is not None:
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]
        sys.modules["torchaudio._extension"] = _without_compiled_part()
        import torchaudio
    return torchaudio


def _without_compiled_part() -> ModuleType:
    module = ModuleType("torchaudio._extension")
    module._IS_TORCHAUDIO_EXT_AVAILABLE = module._IS_ALIGN_AVAILABLE = False  # type: ignore[attr-defined]
    module._check_cuda_version = lambda: None  # type: ignore[attr-defined]
    module.fail_if_no_align = lambda function: function  # type: ignore[attr-defined]
    return module
