"""The decoder that the Transformer replaced: a recurrent network that looks at the memory by additive attention.

Shape suffixes in this module: B sentences, N rows (a sentence's beams side by side), S encoder positions, T symbols,
D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.model.decoder import Cache, Memory
from seq2seq_suite.model.dropout import Dropout
from seq2seq_suite.model.variants.additive import additive_attention
from seq2seq_suite.types import States


@dataclass(frozen=True)
class CellStates:
    """Hidden states and cells (N,layers,D) after `length` symbols."""

    hidden: Tensor
    cells: Tensor
    length: int = 0

    def select(self, rows: Tensor) -> CellStates:
        """The given rows, (N',) int64, in that order."""
        return CellStates(self.hidden.index_select(0, rows), self.cells.index_select(0, rows), self.length)


class RecurrentNetworkDecoder(nn.Module):
    """s_t = cell([x_t, c_t], s_t-1) with c_t = attention(s_t-1, memory); the output is tanh(W [s_t, c_t, x_t]).

    With several layers the first one attends, the others read the one below. It sees the past by its nature: `visible`
    and `mask` of `forward` say nothing new to it, and it cannot write all symbols at once.

    Source: Bahdanau et al. 2015 (RNNsearch), section 3.1, with a plain projection for its maxout.

    Args:
        width: D.
        num_layers: of cells.
        cell: lstm or gru.
        dropout_rate: between layers.
    """

    num_steps = 1

    def __init__(self, width: int, num_layers: int, *, cell: str, dropout_rate: float):
        super().__init__()
        self.width, self.cell = width, cell
        build = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[cell]
        self.cells = nn.ModuleList(build(2 * width if number == 0 else width, width) for number in range(num_layers))
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.weight = nn.Parameter(torch.randn(width) * width**-0.5)
        self.begin = nn.Linear(width, num_layers * width)
        self.output = nn.Linear(3 * width, width)
        self.dropout = Dropout(dropout_rate)

    def remember(self, memory: States) -> Memory:
        """Keys and values (B,1,S,D) of the memory (B,S,D), and the states that decoding begins with."""
        keys = self.key(memory.values).unsqueeze(1)
        weight = memory.mask.unsqueeze(2).to(memory.values.dtype)
        mean = (memory.values * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        start = torch.tanh(self.begin(mean)).unflatten(1, (len(self.cells), self.width))
        return Memory((KeysValues(keys, memory.values.unsqueeze(1)), CellStates(start, torch.zeros_like(start))),
                      memory.mask.unsqueeze(1))

    def new_cache(self, like: Tensor) -> Cache:
        """No states yet, for inputs like x (N,T,D)."""
        nothing = like.new_empty(like.size(0), 0, self.width)
        return Cache((CellStates(nothing, nothing),))

    def forward(self, x: Tensor, visible: Tensor | None, memory: Memory, cache: Cache | None = None,
                *, mask: Tensor | None = None, balance: list[Tensor] | None = None) -> tuple[Tensor, Cache | None]:
        """Hidden states of the target; see `DecoderStack.forward`.

        Args:
            x: (N,T,D) embedded symbols.
            visible, mask, balance: not looked at.
            memory: from `remember`.
            cache: the layers' states and how many symbols they have read.

        Returns:
            (N,T,D) and the cache after these symbols, None if there was none.
        """
        rows, sentences = x.size(0), memory.visible.size(0)
        attended, begun = memory.layers
        visible = memory.visible.unsqueeze(1)
        if cache is None or not cache.length:
            states = [part.repeat_interleave(rows // sentences, 0) for part in (begun.hidden, begun.cells)]
        else:
            states = [cache.layers[0].hidden, cache.layers[0].cells]
        hidden, cells = (list(part.unbind(1)) for part in states)
        outputs = []
        for symbol in x.unbind(1):
            query = self.query(hidden[0]).view(sentences, 1, -1, self.width)
            context = additive_attention(query, attended.keys, attended.values, visible,
                                         weight_HE=self.weight.to(query.dtype).unsqueeze(0))
            context = context.view(rows, self.width).to(symbol.dtype)
            below = torch.cat((symbol, context), 1)
            for number, cell in enumerate(self.cells):
                if self.cell == "lstm":
                    hidden[number], cells[number] = cell(below, (hidden[number], cells[number]))
                else:
                    hidden[number] = cell(below, hidden[number])
                below = self.dropout(hidden[number])
            seen = torch.cat((below, context.to(below.dtype), symbol.to(below.dtype)), 1)
            outputs.append(torch.tanh(self.output(seen)))
        out = torch.stack(outputs, 1)
        if cache is None:
            return out, None
        kept = (torch.stack(part, 1) for part in (hidden, cells))
        return out, Cache((CellStates(*kept, cache.length + x.size(1)),))
