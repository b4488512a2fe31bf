"""Tables of modules that say of which class they are; PyTorch's own say only that they are modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from torch import nn

if TYPE_CHECKING:
    from collections.abc import ItemsView, Mapping, ValuesView

Part = TypeVar("Part", bound=nn.Module)


class ModuleDict(nn.ModuleDict, Generic[Part]):
    """PyTorch's, of modules of one class."""

    if TYPE_CHECKING:

        def __init__(self, modules: Mapping[str, Part] | None = None) -> None: ...

        def __getitem__(self, key: str) -> Part: ...

        def items(self) -> ItemsView[str, Part]: ...

        def values(self) -> ValuesView[Part]: ...
