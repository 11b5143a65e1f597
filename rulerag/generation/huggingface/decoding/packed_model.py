"""Passes of a model over pieces of many sequences at once, without padding.

The tokens of all pieces stand behind one another in one row, so that every layer works on one
large matrix; only attention looks at the pieces one by one. A piece attends to itself, and to
blocks of keys and values of what comes before it. A block is read once for all pieces behind it;
the parts are joined by their log-sum-exp, as FlashAttention joins its tiles (Dao et al. 2022,
arXiv:2205.14135).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from rulerag.generation.huggingface.decoding.batches import Tokens
from rulerag.generation.huggingface.decoding.prefix_tree import TrieNode

# Blocks grow to this many tokens before a new one is begun.
_BLOCK = 256
_NAME = "rulerag_packed"
# Attention of these has no bias, sink or cap beyond queries, keys, values and a window.
_KNOWN = {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gpt_neox"}
_active = threading.local()

KeysValues = tuple[Any, Any]


@dataclass(slots=True, eq=False)
class States:
    """Keys and values by layer, each of shape (1, heads, length, width)."""

    layers: list[KeysValues]

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return int(self.layers[0][0].shape[2])


class PackedModel:
    """A causal language model that reads packed rows.

    Args:
        model: of transformers, in evaluation mode.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether the model can be run this way, and gains by it: on a processor."""
        config = model.config.get_text_config()
        return (
            model.config.model_type in _KNOWN
            and config is model.config
            and model.device.type == "cpu"
            and _flash() is not None
        )

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Inside the block the model attends to packed pieces."""
        _register()
        before = self.model.config._attn_implementation  # transformers has no public way to ask
        self.model.set_attn_implementation(_NAME)
        try:
            yield
        finally:
            self.model.set_attn_implementation(before)

    def __call__(
        self,
        ids: Tokens,
        positions: Tokens,
        attention: PieceAttention | RowAttention,
        keep: Sequence[int],
    ) -> Any:
        """One pass.

        Args:
            ids: tokens of all pieces, of shape (tokens,).
            positions: their places in their sequences, of shape (tokens,).
            attention: what the pieces look at.
            keep: the tokens whose logits are wanted, by their place in ``ids``.

        Returns:
            The logits, of shape (len(keep), vocabulary).
        """
        import torch

        _active.attention = attention
        try:
            output = self.model(
                input_ids=torch.from_numpy(ids)[None],
                position_ids=torch.from_numpy(positions)[None],
                use_cache=False,
                logits_to_keep=torch.tensor(keep or [0]),
            )
        finally:
            del _active.attention
        return output.logits[0, : len(keep)]


class PieceAttention:
    """Attention of new pieces behind known contexts; keeps their keys and values.

    Args:
        nodes: the pieces, in the trie's order; the contexts of their parents are known.
    """

    def __init__(self, nodes: Sequence[TrieNode]) -> None:
        self.nodes = nodes
        ends = np.cumsum([len(node.tokens) for node in nodes]).tolist()
        self.bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        contexts = [node.parent.context if node.parent is not None else () for node in nodes]
        self._runs = [
            (self.bounds[first][0], self.bounds[last - 1][1], block)
            for runs in _runs(contexts)
            for first, last, block in runs
        ]
        self.layers: list[KeysValues] = []

    def attend(self, layer: int, q: Any, k: Any, v: Any, scale: float | None) -> Any:
        """Attention of one layer; the pieces' keys and values are kept.

        Args:
            layer: its number.
            q: the queries, of shape (1, heads, tokens, width).
            k: the keys, of that shape with fewer heads.
            v: the values, of the keys' shape.
            scale: of the products; by the width when None.

        Returns:
            Of shape (1, tokens, heads, width).
        """
        import torch

        flash = _flash()
        self.layers.append((k, v))
        heads, shared = q.shape[1], q.shape[1] // k.shape[1]
        out = q.new_empty((1, q.shape[2], heads, q.shape[3])).transpose(1, 2)
        sums = q.new_empty((1, heads, q.shape[2]), dtype=torch.float32)
        every_k, every_v = (
            (part.repeat_interleave(shared, dim=1) for part in (k, v)) if shared > 1 else (k, v)
        )
        for start, end in self.bounds:
            part = slice(start, end)
            out[:, :, part], sums[:, :, part] = flash(
                q[:, :, part], every_k[:, :, part], every_v[:, :, part], 0.0, True, scale=scale
            )
        for start, end, block in self._runs:
            keys, values = block.layers[layer]
            folded = q[:, :, start:end].reshape(1, k.shape[1], -1, q.shape[3])
            more, their_sums = flash(folded, keys, values, 0.0, False, scale=scale)
            shape = (1, heads, end - start)
            _join(
                out[:, :, start:end],
                sums[:, :, start:end],
                more.reshape(*shape, -1),
                their_sums.reshape(shape),
            )
        return out.transpose(1, 2)

    def states(self, place: int) -> States:
        """The keys and values of one piece, as views."""
        part = slice(*self.bounds[place])
        return States([(k[:, :, part], v[:, :, part]) for k, v in self.layers])

    def keep(self, place: int) -> None:
        """Give a piece its context, for what comes behind it."""
        import torch

        node, own = self.nodes[place], self.states(place)
        before = list(node.parent.context) if node.parent is not None else []
        if before and before[-1].length + own.length <= _BLOCK:
            last = before.pop()
            pairs = zip(last.layers, own.layers, strict=True)
            joined = [
                (torch.cat([a[0], b[0]], dim=2), torch.cat([a[1], b[1]], dim=2)) for a, b in pairs
            ]
        else:
            joined = [(k.contiguous(), v.contiguous()) for k, v in own.layers]
        node.context = [*before, States(joined)]


class RowAttention:
    """Attention of one new token a row.

    What many rows have before them is read from its block once for all of them. The rest of each
    row stands in a padded memory, to the right, so that new tokens share a column.

    Args:
        own: keys and values of each row's own piece.
        contexts: the blocks before each row.
        new_tokens: how many tokens may follow.
    """

    def __init__(
        self, own: Sequence[States], contexts: Sequence[Sequence[States]], new_tokens: int
    ) -> None:
        import torch

        pieces = self._divide(own, contexts)
        lengths = [sum(block.length for block in blocks) for blocks in pieces]
        self.column = max(lengths)
        like = own[0].layers[0][0]
        shape = (len(own), like.shape[1], self.column + new_tokens, like.shape[3])
        self._layers: list[KeysValues] = []
        for layer in range(len(own[0].layers)):
            both = like.new_empty(shape), like.new_empty(shape)
            for row, blocks in enumerate(pieces):
                end = self.column - lengths[row]
                for memory in both:
                    memory[row, :, :end] = 0  # what is masked must still be a number
                for block in blocks:
                    start, end = end, end + block.length
                    for memory, states in zip(both, block.layers[layer], strict=True):
                        memory[row, :, start:end] = states[0]
            self._layers.append(both)
        padding = self.column - torch.tensor(lengths)
        hidden = torch.arange(shape[2])[None] < padding[:, None]
        self._mask = like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None, None]

    def _divide(
        self, own: Sequence[States], contexts: Sequence[Sequence[States]]
    ) -> list[list[States]]:
        """Say which blocks are read where they stand, and return the pieces to copy, by row."""
        parts: list[list[States]] = [[] for _ in own]
        self._shared: list[tuple[int, int, States]] = []
        for runs in _runs(contexts):
            # A call for each of many blocks would cost more than to copy them.
            if 4 * len(runs) <= len(own):
                self._shared += runs
                continue
            for first, last, block in runs:
                for row in range(first, last):
                    parts[row].append(block)
        return [[*blocks, last] for blocks, last in zip(parts, own, strict=True)]

    def attend(self, layer: int, q: Any, k: Any, v: Any, scale: float | None) -> Any:
        """As :meth:`PieceAttention.attend`, of one token a row, to which its state is added."""
        rows, heads, width = q.shape[2], k.shape[1], q.shape[3]
        keys, values = self._layers[layer]
        keys[:, :, self.column] = k[0].transpose(0, 1)
        values[:, :, self.column] = v[0].transpose(0, 1)
        end = self.column + 1
        queries = q[0].transpose(0, 1).reshape(rows, heads, -1, width)
        mask = self._mask[..., :end]
        out, sums = _few(queries, keys[:, :, :end], values[:, :, :end], mask, scale)
        for first, last, block in self._shared:
            count = last - first
            folded = queries[first:last].transpose(0, 1).reshape(1, heads, -1, width)
            more, their_sums = _flash()(folded, *block.layers[layer], 0.0, False, scale=scale)
            more = more.reshape(heads, count, -1, width).transpose(0, 1)
            their_sums = their_sums.reshape(heads, count, -1).transpose(0, 1)
            _join(out[first:last], sums[first:last], more, their_sums)
        return out.reshape(1, rows, -1, width)

    def step(self) -> None:
        """Move on to the column of the next tokens."""
        self.column += 1

    def select(self, rows: Sequence[int]) -> None:
        """Go on with some rows only; they stay in order."""
        import torch

        index = torch.tensor(rows)
        self._layers = [(keys[index], values[index]) for keys, values in self._layers]
        self._mask = self._mask[index]
        places = np.array(rows)
        moved = [
            (*np.searchsorted(places, [first, last]).tolist(), block)
            for first, last, block in self._shared
        ]
        self._shared = [(first, last, block) for first, last, block in moved if last > first]


def _runs(contexts: Sequence[Sequence[States]]) -> Iterator[list[tuple[int, int, States]]]:
    """By depth, each block with the rows that it stands before: the first, and behind the last."""
    for depth in range(max(map(len, contexts), default=0)):
        blocks = (context[depth] if depth < len(context) else None for context in contexts)
        runs, first = [], 0
        for block, run in groupby(blocks):
            last = first + len(list(run))
            if block is not None:
                runs.append((first, last, block))
            first = last
        yield runs


def _few(q: Any, keys: Any, values: Any, mask: Any, scale: float | None) -> tuple[Any, Any]:
    """Attention of few queries, for which plain products are faster, with the log-sum-exp.

    Args:
        q: of shape (rows, heads, queries, width).
        keys: of shape (rows, heads, tokens, width).
        values: of the same shape.
        mask: added to the weights.
        scale: of the weights; by the width when None.
    """
    import torch

    flat = q.flatten(0, 1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = torch.bmm(flat, keys.flatten(0, 1).transpose(1, 2)).view(*q.shape[:3], -1)
    weights = (weights + mask).float()
    sums = torch.logsumexp(weights, dim=-1)
    shares = torch.softmax(weights, dim=-1).to(values.dtype)
    out = torch.bmm(shares.flatten(0, 1), values.flatten(0, 1))
    return out.view(q.shape), sums


def _join(out: Any, sums: Any, more: Any, their_sums: Any) -> None:
    """Add the attention to further keys to that of the first, in place."""
    import torch

    weight = torch.sigmoid(their_sums - sums).unsqueeze(-1)
    out.lerp_(more, weight.to(out.dtype))
    torch.logaddexp(sums, their_sums, out=sums)


@cache
def _flash() -> Any:
    """Attention of a processor that also gives the log-sum-exp; None in a torch without it."""
    import torch

    return getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


@cache
def _register() -> None:
    """Tell transformers the name of our attention; it then makes no mask for it."""
    from transformers import AttentionInterface

    def packed(
        module: Any, q: Any, k: Any, v: Any, mask: Any, *, scaling: float | None = None, **_: Any
    ) -> tuple[Any, None]:
        return _active.attention.attend(module.layer_idx, q, k, v, scaling), None

    AttentionInterface.register(_NAME, packed)
