"""Freed memory stays with the process, and kernels take no more than their share."""

import ctypes
import os
import subprocess
import sys

import pytest

from seq2seq_suite.kernels import torch_private

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

# Prints the megabytes that 300 shapes of a product add to the process, and those that 300 add after 300 more.
SHAPES = """
import os, torch
from seq2seq_suite.kernels import product
from seq2seq_suite.prediction import build
os.sysconf = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}.get
build.use_threads(1)
def megabytes():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) // 1000
x, weight, found = torch.ones(1000, 4096), torch.ones(16, 4096), [megabytes()]
for first in (100, 400, 700):
    for rows in range(first, first + 300):
        product.product(x[:rows], weight)
    found.append(megabytes())
print(found[1] - found[0], found[3] - found[2])
"""


@pytest.mark.slow
@pytest.mark.skipif(not torch_private.has_onednn() or sys.platform != "linux", reason="oneDNN or /proc is missing")
def test_new_shapes_of_a_product_take_no_more_memory_for_ever():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    done = subprocess.run(
        [sys.executable, "-c", SHAPES], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    first, last = map(int, done.stdout.split())
    assert first > 20  # 150 in PyTorch 2.13, 30 to 70 in 2.11; otherwise this says nothing
    assert last < first / 8


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_what_is_freed_needs_no_new_pages():
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True, timeout=100)
    usual, kept = map(int, done.stdout.split())
    assert usual > 9 * 4_000  # of 4 KiB, of two blocks: otherwise this says nothing
    assert kept < 1_000
