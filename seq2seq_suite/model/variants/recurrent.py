"""What the Transformer replaced: recurrent encoders, and a decoder that looks at the memory by additive attention.

Shape suffixes in this module: B sentences, N rows (a sentence's beams side by side), S encoder positions, T symbols,
D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq_suite.common.types import PerRow, States
from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.model.decoder import Cache, CrossKeysValues
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.variants.additive import additive_attention
from seq2seq_suite.model.variants.real_positions import on_real_positions


class RecurrentEncoder(nn.Module):
    """N bidirectional LSTM or GRU layers, each direction half as wide; they read real positions alone.

    Each layer but the first adds to what it reads, without which three of them hardly begin to learn; pre-norm stacks
    end in a norm, as the others do.

    Source: Bahdanau et al. 2015, section 3.2 (bidirectional encoder); Hochreiter & Schmidhuber 1997; Cho et al. 2014;
    Wu et al. 2016 (GNMT), section 3.1 (residual connections).

    Args:
        shape: width D, even, and dropout between layers.
        num_layers: N.
        cell: lstm or gru.
    """

    def __init__(self, shape: LayerShape, num_layers: int, *, cell: str):
        super().__init__()
        build = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.layers = nn.ModuleList(
            build(shape.width, shape.width // 2, batch_first=True, bidirectional=True) for _ in range(num_layers)
        )
        self.dropout = nn.Dropout(shape.dropout)
        self.norm = shape.last_norm()

    def forward(self, states: States) -> States:
        """(B,S,D) -> (B,S,D); padding does not affect real positions."""
        x, length = states.values, states.mask.size(1)
        lengths = states.mask.sum(1).clamp(min=1).cpu()
        with torch.autocast(x.device.type, enabled=False):  # its kernels take float32 on every device
            for number, layer in enumerate(self.layers):
                source = self.dropout(x) if number else x
                packed = pack_padded_sequence(source.float(), lengths, batch_first=True, enforce_sorted=False)
                read, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=length)
                x = x + read if number else read
        with on_real_positions(states.mask):
            return States(self.norm(x), states.mask)


@dataclass(frozen=True)
class CellStates(PerRow):
    """Hidden states and cells (N,layers,D) after `length` symbols."""

    hidden: Tensor
    cells: Tensor
    length: int = 0


@dataclass(frozen=True)
class RecurrentMemory(CrossKeysValues):
    """Keys and values (B,1,S,D), as of one layer, and the states that decoding begins with."""

    begun: CellStates


@dataclass(frozen=True)
class RecurrentCache(Cache):
    """The cells' states in place of keys and values."""

    states: CellStates

    @property
    def length(self) -> int:
        """Symbols read so far."""
        return self.states.length


class RecurrentDecoder(nn.Module):
    """s_t = cell([x_t, c_t], s_t-1) with c_t = attention(s_t-1, memory); the output is tanh(W [s_t, c_t, x_t]).

    With several layers the first one attends, the others read the one below. It sees the past by its nature: `visible`
    of `forward` says nothing new to it, and it cannot decode in parallel.

    Source: Bahdanau et al. 2015 (RNNsearch), section 3.1, with a plain projection for its maxout.

    Args:
        width: D.
        num_layers: of cells.
        cell: lstm or gru.
        dropout_rate: between layers.
    """

    num_heads = 1

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
        self.dropout = nn.Dropout(dropout_rate)

    def prepare_memory(self, memory: States) -> RecurrentMemory:
        """Keys and values (B,1,S,D) of the memory (B,S,D), and the states that decoding begins with."""
        keys = self.key(memory.values).unsqueeze(1)
        weight = memory.mask.unsqueeze(2).to(memory.values.dtype)
        mean = (memory.values * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        start = torch.tanh(self.begin(mean)).unflatten(1, (len(self.cells), self.width))
        return RecurrentMemory(
            (KeysValues(keys, memory.values.unsqueeze(1)),),
            memory.mask.unsqueeze(1),
            CellStates(start, torch.zeros_like(start)),
        )

    def new_cache(self, like: Tensor) -> RecurrentCache:
        """No states yet, for inputs like x (N,T,D)."""
        nothing = like.new_empty(like.size(0), 0, self.width)
        return RecurrentCache((), CellStates(nothing, nothing))

    def forward(
        self, x: Tensor, visible: Tensor | None, memory: RecurrentMemory, cache: RecurrentCache | None = None
    ) -> tuple[Tensor, RecurrentCache | None]:
        """Hidden states of the target; see `TransformerDecoder.forward`.

        Args:
            x: (N,T,D) embedded symbols.
            visible: not looked at.
            memory: from `prepare_memory`.
            cache: the layers' states and how many symbols they have read.

        Returns:
            (N,T,D) and the cache after these symbols, None if there was none.
        """
        rows, sentences = x.size(0), memory.visible.size(0)
        (attended,), begun = memory.layers, memory.begun
        visible = memory.visible.unsqueeze(1)
        if cache is None or not cache.length:
            states = [part.repeat_interleave(rows // sentences, 0) for part in (begun.hidden, begun.cells)]
        else:
            states = [cache.states.hidden, cache.states.cells]
        hidden, cells = (list(part.unbind(1)) for part in states)
        outputs = []
        for symbol in x.unbind(1):
            query = self.query(hidden[0]).view(sentences, 1, -1, self.width)
            context = self._attend(query, attended.keys, attended.values, visible)
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
        kept = CellStates(torch.stack(hidden, 1), torch.stack(cells, 1), cache.length + x.size(1))
        return out, RecurrentCache((), kept)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
        return additive_attention(query, key, value, visible, weight_HE=self.weight.to(query.dtype).unsqueeze(0))
