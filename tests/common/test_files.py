"""Readers answer whatever is wrong with a file in one way; writers leave the old contents or the new."""

import os
from pathlib import Path

import numpy as np
import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import atomic_write_text, read_arrays, read_bytes, read_json, read_lines, read_text


@pytest.mark.parametrize(
    ("content", "got", "line"),
    [
        (b"[\ncaf\xe9]", "byte 5 is not UTF-8", 2),
        (b"{\n  x}", "invalid JSON at column 3", 2),
        (b"[" * 100_000, "nested too deep", 0),
        (b"1" * 5_000, "invalid JSON", 0),
        (b"", "invalid JSON", 1),
    ],
)
def test_a_broken_json_file_is_named_with_the_reason(tmp_path, content, got, line):
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=got) as caught:
        read_json(file)
    assert caught.value.file == str(file)
    assert caught.value.line == line
    assert caught.value.remedy


def test_arrays_are_read_and_whatever_is_none_is_named(tmp_path):
    file, plain, code = tmp_path / "a.npz", tmp_path / "a.npy", tmp_path / "code.npz"
    np.savez_compressed(file, one=np.arange(3), two=np.ones((2, 2), dtype=np.float32))
    assert read_arrays(file)["one"].tolist() == [0, 1, 2]
    np.save(plain, np.arange(3))
    np.savez(code, one=np.array([print], dtype=object))
    whole = file.read_bytes()
    for content in (b"", whole[:-9], plain.read_bytes(), code.read_bytes(), b"PK\x03\x04" * 9, b"\x80\x04N."):
        file.write_bytes(content)
        with pytest.raises(DataError, match="no arrays can be read") as caught:
            read_arrays(file)
        assert caught.value.file == str(file)
    with pytest.raises(DataError, match="no such file"):
        read_arrays(tmp_path / "none.npz")


def test_what_is_no_readable_file_is_answered_alike(tmp_path):
    (tmp_path / "long").write_text("four")
    for path, got in (
        (tmp_path / "missing", "no such file"),
        (tmp_path, "folder"),
        (tmp_path / "a\0b", "cannot be read"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ):
        with pytest.raises(DataError, match=got):
            read_text(path)
    with pytest.raises(DataError, match="more than 3 bytes"):
        read_text(tmp_path / "long", largest=3)


def test_what_has_no_end_is_read_up_to_the_bound_and_pipes_whole(tmp_path):
    with pytest.raises(DataError, match="more than 9 bytes"):
        read_bytes(Path("/dev/zero"), largest=9)
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\n")
    os.close(writing)
    assert read_lines(Path(f"/dev/fd/{reading}")) == ["a", "b"]
    os.close(reading)


def test_lines_end_at_line_feeds_alone(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes("a\u2028b\r\n\nc".encode())
    assert read_lines(file) == ["a\u2028b", "", "c"]
    file.write_bytes(b"\xef\xbb\xbfa\n")
    assert read_lines(file) == ["a"]
    file.write_bytes(b"")
    assert read_lines(file) == []


def test_what_is_written_reads_back_and_a_failed_write_leaves_the_old(tmp_path, monkeypatch):
    file = tmp_path / "file.json"
    atomic_write_text(file, '"\ud800"')
    assert read_json(file) == "\ud800"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write_text(file, "1")
    assert read_json(file) == "\ud800"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


def test_links_and_pipes_are_written_to_and_not_replaced(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    link.symlink_to(target)
    atomic_write_text(link, "1")
    assert link.is_symlink() and target.read_text() == "1"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write_text(pipe, "2")
    assert os.read(reading, 9) == b"2" and pipe.is_fifo()
    os.close(reading)


def test_a_text_of_just_the_length_is_not_cut():
    from seq2seq_suite.common.errors import truncate
    from seq2seq_suite.common.types import Hypothesis

    assert truncate("x" * 80, 80) == "x" * 80 and truncate("x" * 81, 80) == "x" * 77 + "..."
    assert Hypothesis((1, 2), 0.0).complete
