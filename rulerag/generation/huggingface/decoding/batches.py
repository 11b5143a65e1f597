"""What both ways of decoding share: results, endings, limits, and how prompts become batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import GenerationError

# What one forward pass costs beyond its tokens, in tokens: weights are read once a pass.
_PASS = 32

Tokens = npt.NDArray[np.int64]


@dataclass(slots=True)
class Continuation:
    """What a model wrote after one prompt.

    Args:
        tokens: the new tokens, without the one that ends the text.
        log_probability: of the tokens and of the end, natural logarithm.
    """

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much is computed at once.

    Args:
        rows: the most rows of a batch.
        tokens: the most tokens of a batch, answers included; one row is always allowed.
        new_tokens: how many tokens an answer may have.
    """

    rows: int
    tokens: int
    new_tokens: int


@dataclass(frozen=True, slots=True)
class Ending:
    """When an answer ends.

    Args:
        tokens: those that end a text.
        piece: the text of one token.
        complete: whether a text that a line break follows is a whole answer, which ends there.
    """

    tokens: frozenset[int]
    piece: Callable[[int], str]
    complete: Callable[[str], bool] = lambda text: bool(text.strip())

    def take(self, result: Continuation, token: int, score: float) -> bool:
        """Add a token to a result; False when it ends the text."""
        result.log_probability += score
        if token in self.tokens:
            return False
        before, broken, _ = self.piece(token).partition("\n")
        ended = broken and self.complete("".join(map(self.piece, result.tokens)) + before)
        result.tokens.append(token)
        return not ended


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Prompts that are read together.

    Args:
        rows: places of the prompts.
        shared: how many of their first tokens are the same; at most the shortest length less one.
    """

    rows: tuple[int, ...]
    shared: int


def no_gradients() -> AbstractContextManager[Any]:
    """Torch's inference mode; where a caller has turned gradients off, only what it chose."""
    import torch

    return torch.inference_mode() if torch.is_grad_enabled() else nullcontext()


def shared_length(first: Tokens, second: Tokens) -> int:
    """How many tokens two sequences begin with in common."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def plan_batches(
    prompts: Sequence[Tokens], limits: BatchLimits, *, share: bool
) -> list[PromptBatch]:
    """Cut prompts into batches.

    In the order of their tokens equal beginnings stand together; where none is shared, prompts are
    put in the order of their lengths, which keeps padding low. A batch ends at the limits, and
    where one row more would share so much less that a pass of its own costs less.

    Args:
        prompts: token ids of each prompt, at least one each.
        limits: of a batch.
        share: whether shared beginnings are computed once.
    """
    order = sorted(
        range(len(prompts)), key=lambda i: prompts[i].tolist() if share else len(prompts[i])
    )
    batches: list[PromptBatch] = []
    rows: list[int] = []
    longest = shared = 0
    for row in order:
        tokens = prompts[row]
        longest, least = max(longest, len(tokens)), len(tokens) - 1
        if rows:
            least = min(shared, least, shared_length(prompts[rows[-1]], tokens)) if share else 0
            lost = (shared - least) * len(rows)
            full = len(rows) == limits.rows
            large = (len(rows) + 1) * (longest + limits.new_tokens) > limits.tokens
            if full or large or lost > _PASS * (limits.new_tokens + 2):
                batches.append(PromptBatch(tuple(rows), shared))
                rows, longest, least = [], len(tokens), len(tokens) - 1
        rows.append(row)
        shared = least if share else 0
    return [*batches, PromptBatch(tuple(rows), shared)] if rows else []


def best_tokens(logits: Any) -> tuple[Any, Any]:
    """The best token of each row and its log-probability.

    Raises:
        GenerationError: the scores are not numbers.
    """
    import torch

    logits = logits.float()
    top, chosen = logits.max(dim=-1)
    scores = top - torch.logsumexp(logits, dim=-1)
    if not bool(torch.isfinite(scores).all()):
        raise GenerationError(
            "the model's scores are not numbers",
            provider="huggingface",
            hint="load it with dtype='float32', and check that its training did not diverge",
        )
    return chosen, scores
