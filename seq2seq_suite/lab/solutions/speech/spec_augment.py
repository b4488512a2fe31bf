"""SpecAugment: bars of silence, so that a model does not lean on single frames."""

import torch
from torch import Tensor


def spec_augment(x: Tensor, lengths: Tensor, starts: Tensor, widths: Tensor) -> Tensor:
    """Frames start to start + width - 1 of each bar become 0.

    Args:
        x: (B,T,M) float, features.
        lengths: (B,) int64, frames of each utterance; what lies behind stays as it is.
        starts, widths: (B,K) int64, K bars for each utterance; a bar may have width 0, or reach beyond the end.

    Returns:
        (B,T,M); x stays as it is.

    Example: five frames of one feature, of which the last is padding; one bar of three frames from frame 2.
        >>> x, bar = torch.ones(1, 5, 1), torch.tensor([[2]])
        >>> spec_augment(x, torch.tensor([4]), bar, torch.tensor([[3]])).flatten().tolist()
        [1.0, 1.0, 0.0, 0.0, 1.0]

    Source: Park et al. 2019, section 2, time masking.
    """
    # BEGIN SOLUTION
    place = torch.arange(x.size(1))
    hidden = ((place >= starts.unsqueeze(2)) & (place < (starts + widths).unsqueeze(2))).any(1)
    hidden = hidden & (place < lengths.unsqueeze(1))
    return x.masked_fill(hidden.unsqueeze(2), 0.0)
    # END SOLUTION
