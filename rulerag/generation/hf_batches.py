"""Cutting prompts into batches: shared beginnings computed once, padding kept low."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Batch", "plan_batches", "shared_length"]

# What one forward pass costs beyond its tokens, in tokens: weights are read once a pass.
_PASS = 32

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts that are read together.

    Args:
        rows: places of the prompts.
        shared: how many of their first tokens are the same; at most the shortest length less one.
    """

    rows: tuple[int, ...]
    shared: int


def shared_length(first: Tokens, second: Tokens) -> int:
    """How many tokens two sequences begin with in common."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def plan_batches(
    prompts: Sequence[Tokens],
    *,
    batch_size: int,
    max_batch_tokens: int,
    new_tokens: int,
    share: bool = True,
) -> list[Batch]:
    """Cut prompts into batches of least estimated work.

    Prompts are put in two orders, by their tokens (which brings equal beginnings together) and by
    length (which keeps padding low). Each order is cut into runs by dynamic programming over the
    work of a run: its own part of the shared beginning once, the padded rest for every row, and
    what its passes cost beyond their tokens. The cheaper cut is returned.

    Args:
        prompts: token ids of each prompt, at least one each.
        batch_size: the most rows of a batch.
        max_batch_tokens: the most tokens that a batch may hold, padding and answers included; a
            single prompt is always allowed.
        new_tokens: how many tokens each answer may have.
        share: whether shared beginnings are computed once.
    """
    if not prompts:
        return []
    orders = [sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))]
    if share:
        orders.append(sorted(range(len(prompts)), key=lambda i: prompts[i].tolist()))
    plans = [
        _cut(order, prompts, (batch_size, max_batch_tokens, new_tokens), share=share)
        for order in orders
    ]
    return min(plans, key=lambda plan: plan[0])[1]


def _cut(
    order: Sequence[int],
    prompts: Sequence[Tokens],
    limits: tuple[int, int, int],
    *,
    share: bool,
) -> tuple[float, list[Batch]]:
    """The least work of an order cut into runs, and the runs."""
    batch_size, max_tokens, new_tokens = limits
    lengths = [len(prompts[i]) for i in order]
    common = [0] * len(order)  # with the prompt before
    if share:
        for place in range(1, len(order)):
            common[place] = shared_length(prompts[order[place - 1]], prompts[order[place]])
    fixed = _PASS * (new_tokens + 2)
    best = [0.0] + [float("inf")] * len(order)
    choice = [(0, 0)] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        longest, shared = 0, lengths[end - 1] - 1
        for start in range(end - 1, max(-1, end - 1 - batch_size), -1):
            longest = max(longest, lengths[start])
            shared = min(shared, lengths[start] - 1)
            rows = end - start
            if rows > 1:
                shared = min(shared, common[start + 1])
                if rows * (longest + new_tokens) > max_tokens:
                    break
            prefix = shared if share else 0
            work = prefix - min(prefix, common[start]) + rows * (longest - prefix) + fixed
            if best[start] + work < best[end]:
                best[end], choice[end] = best[start] + work, (start, prefix)
    batches: list[Batch] = []
    end = len(order)
    while end:
        start, prefix = choice[end]
        batches.append(Batch(tuple(order[start:end]), prefix))
        end = start
    return best[-1], batches[::-1]
