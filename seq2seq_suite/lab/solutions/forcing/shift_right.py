"""Teacher forcing: the decoder is given the right symbols, one place later."""

import torch
from torch import Tensor


def shift_right(target: Tensor, begin: int) -> Tensor:
    """What the decoder reads while it is to write `target`: at each position the right symbol before it.

    Args:
        target: (B,T) int64, each row ending with END and padded with PAD.
        begin: the symbol BEGIN.

    Returns:
        (B,T) int64: BEGIN first; the last column of `target` is gone.

    Example: BEGIN 1, END 2, PAD 0; a row "7 8 9 END" and a row "5 END".
        >>> shift_right(torch.tensor([[7, 8, 9, 2], [5, 2, 0, 0]]), begin=1).tolist()
        [[1, 7, 8, 9], [1, 5, 2, 0]]

    Source: "teacher forcing" in note 003: vectors + BEGIN + ground truth 1 -> output 2.
    """
    # BEGIN SOLUTION
    return torch.cat((torch.full_like(target[:, :1], begin), target[:, :-1]), 1)
    # END SOLUTION
