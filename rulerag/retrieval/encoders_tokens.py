"""Texts as token batches: cut once, packed flat, padded to the longest of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Tokens", "padded", "tokenize"]

Longs = npt.NDArray[np.int64]
_WINDOW = 4096  # texts cut at once: the tokenizer's own records are a hundred times the ids


class Tokens(NamedTuple):
    """The tokens of many texts, one after the other.

    Args:
        ids: int32 array of shape (n_tokens,).
        starts: int64 array of shape (n_texts + 1,); text i holds ``ids[starts[i]:starts[i + 1]]``.
        truncated: how many texts lost tokens to the window.
    """

    ids: npt.NDArray[np.int32]
    starts: Longs
    truncated: int

    @property
    def lengths(self) -> Longs:
        """Tokens of each text."""
        return np.diff(self.starts)


def tokenize(tokenizer: Any, texts: Sequence[str], window: int | None) -> Tokens:
    """Cut texts into tokens, special ones included.

    Args:
        tokenizer: a fast tokenizer of transformers; its own settings are left as they were.
        texts: the texts.
        window: tokens kept of a text; all when None.
    """
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    parts: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    truncated = 0
    try:
        backend.no_padding()
        if window is None:
            backend.no_truncation()
        else:
            backend.enable_truncation(window)
        for start in range(0, len(texts), _WINDOW):
            for encoding in backend.encode_batch_fast(list(texts[start : start + _WINDOW])):
                ids = np.array(encoding.ids, dtype=np.int32)
                parts.append(ids)
                lengths.append(len(ids))
                truncated += bool(encoding.overflowing)
    finally:
        _restore(backend, truncation, padding)
    flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
    return Tokens(flat, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), truncated)


def _restore(backend: Any, truncation: Any, padding: Any) -> None:
    backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
    backend.no_padding() if padding is None else backend.enable_padding(**padding)


def padded(tokens: Tokens, rows: Longs, pad_id: int, *, left: bool = False) -> tuple[Longs, Longs]:
    """Some texts as a batch.

    Args:
        tokens: the tokens of all texts.
        rows: the texts of the batch.
        pad_id: the id to fill up with.
        left: fill up on the left.

    Returns:
        ``input_ids`` and ``attention_mask``, int64 arrays of shape (len(rows), longest).
    """
    starts = tokens.starts[rows][:, None]
    lengths = tokens.starts[rows + 1][:, None] - starts
    width = int(lengths.max(initial=0))
    places = np.arange(width)
    offset = places - (width - lengths) if left else np.broadcast_to(places, (len(rows), width))
    inside = offset >= 0 if left else offset < lengths
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    ids[inside] = tokens.ids[(starts + offset)[inside]]
    return ids, inside.astype(np.int64)
