"""Attempts written when the laws were finished, and never used to mend them: `python -m benchmarks.lab`.

Each module has `RIGHT`, a solution of each part in one style (`later`: in any of the three), and `BUGS`: (part, what
stands once in it, what takes its place, what is wrong).
"""

PRELUDE = """
import itertools
import math
import torch
from torch import Tensor
from torch.nn import functional
from lab_given import Weights, attend, causal_mask, merge_heads, residual, shift_right, split_heads
"""
STYLES = ("loops", "einsum", "framework", "later")
