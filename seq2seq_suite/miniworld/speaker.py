"""eSpeak NG in processes of its own, so that a sentence always sounds the same.

The library keeps state from one sentence to the next (the phase of its oscillators, random numbers), which changes the
samples. Here a small process loads it and forks a child for every sentence: each is the first that its child speaks.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from queue import Empty, LifoQueue

import numpy as np

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.lazy_imports import installing
from seq2seq_suite.common.processes import pipes

_SYNCHRONOUS, _DONT_EXIT, _UTF8, _RATE, _PITCH = 2, 0x8000, 1, 1, 3  # speak_lib.h
_HEAD = struct.Struct("<ii")  # samples a second, number of samples; a rate of 0 for a voice that is not there


class Speaker:
    """One helper process, for one thread at a time."""

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ModuleNotFoundError:
            raise ConfigError(
                "eSpeak NG is not installed", expected="it speaks the embedded sentences", remedy=installing("speech")
            ) from None
        paths = espeakng_loader.get_library_path(), espeakng_loader.get_data_path()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def say(self, text: str, voice: str, *, rate: int, pitch: int) -> tuple[np.ndarray, int]:
        """Samples (N,) float32 in [-1, 1] and their rate; `rate` in words a minute, `pitch` from 0 to 99."""
        requests, answers = pipes(self._process)
        requests.write(json.dumps([text, voice, rate, pitch]).encode() + b"\n")
        requests.flush()
        head = answers.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise DataError("eSpeak NG stopped", remedy="install espeakng-loader again")
        hertz, count = _HEAD.unpack(head)
        if not hertz:
            raise DataError(f"eSpeak NG has no voice '{voice}'", remedy="install espeakng-loader again")
        return np.frombuffer(answers.read(2 * count), dtype="<i2").astype(np.float32) / 32768.0, hertz

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.stdin.close()
            process.stdout.close()
            process.wait()


class Speakers:
    """As many speakers as threads that speak at a time.

    Args:
        start: makes another one.
    """

    def __init__(self, start: Callable[[], Speaker]):
        self._start, self._idle, self._may_grow = start, LifoQueue[Speaker](), True

    def fix(self, number: int) -> None:
        """Start this many now and no more later: for a process that is about to lose the right to start any."""
        for _ in range(number):
            self._idle.put(self._start())
        self._may_grow = False

    def say(self, text: str, voice: str, *, rate: int, pitch: int) -> tuple[np.ndarray, int]:
        """What `Speaker.say` returns."""
        try:
            speaker = self._idle.get(block=not self._may_grow)
        except Empty:
            speaker = self._start()
        try:
            return speaker.say(text, voice, rate=rate, pitch=pitch)
        finally:
            self._idle.put(speaker)


SPEAKERS = Speakers(Speaker)


def serve(library_path: str, data_path: str) -> None:
    """Speak each line of standard input, JSON of text, voice, rate and pitch, to standard output."""
    library, parts = ctypes.CDLL(library_path), []
    hertz = library.espeak_Initialize(_SYNCHRONOUS, 0, data_path.encode(), _DONT_EXIT)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def receive(wave, count: int, _events) -> int:
        if wave and count:
            parts.append(ctypes.string_at(wave, 2 * count))
        return 0

    library.espeak_SetSynthCallback(receive)
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))
    for line in sys.stdin.buffer:
        if hasattr(os, "fork") and os.fork():
            os.wait()
            continue
        text, voice, rate, pitch = json.loads(line)
        content = text.encode() + b"\0"
        parts.clear()
        found = hertz > 0 and library.espeak_SetVoiceByName(voice.encode()) == 0
        if found:
            library.espeak_SetParameter(_RATE, rate, 0)
            library.espeak_SetParameter(_PITCH, pitch, 0)
            library.espeak_Synth(content, ctypes.c_size_t(len(content)), 0, 0, 0, _UTF8, None, None)
        wave = b"".join(parts)
        sys.stdout.buffer.write(_HEAD.pack(hertz if found else 0, len(wave) // 2) + wave)
        sys.stdout.buffer.flush()
        if hasattr(os, "fork"):
            os._exit(0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
