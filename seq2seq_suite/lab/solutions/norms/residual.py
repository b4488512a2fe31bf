"""The residual connection, and the norm before or behind it."""

from collections.abc import Callable

import torch
from torch import Tensor


def residual(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor], placement: str
             ) -> Tensor:
    """A sub-layer with what lies around it.

    post: y = Norm(x + Sublayer(x))
    pre:  y = x + Sublayer(Norm(x))

    Args:
        x: (B,T,D).
        sublayer: attention or the feed-forward network, (B,T,D) -> (B,T,D).
        norm: (B,T,D) -> (B,T,D).
        placement: "pre" or "post".

    Returns:
        (B,T,D).

    Example: a sub-layer that doubles and a norm that takes 1 away.
        >>> def double(x): return 2 * x
        >>> def less(x): return x - 1
        >>> one = torch.tensor([[[5.0]]])
        >>> residual(one, double, less, "post").item(), residual(one, double, less, "pre").item()
        (14.0, 13.0)

    Source: Vaswani et al. 2017, section 3.1 (post); Xiong et al. 2020, Table 1 (pre); "Encoder" in note 003.
    """
    # BEGIN SOLUTION
    if placement == "pre":
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))
    # END SOLUTION
