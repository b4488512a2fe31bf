"""Freed memory stays with the process."""

import ctypes
import subprocess
import sys

import pytest

# Prints how many pages the system maps while three blocks of 16 MiB are taken, written and freed nine times.
PAGES = """
import ctypes, resource
from seq2seq_suite.kernels import memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def use():
    blocks = [libc.malloc(2**24) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, 2**24)
    for block in blocks:
        libc.free(block)
def mapped():
    use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(9):
        use()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
usual = mapped()
memory.keep_freed()
print(usual, mapped())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_what_is_freed_needs_no_new_pages():
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True, timeout=100)
    usual, kept = map(int, done.stdout.split())
    assert usual > 9 * 4_000  # of 4 KiB, of two blocks: otherwise this says nothing
    assert kept < 1_000
