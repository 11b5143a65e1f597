"""Token sequences as a tree of shared beginnings, so that each is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rulerag.generation.huggingface.decoding.batches import Tokens, shared_length

# A node of its own costs about as much as computing this many tokens.
_LEAST_SAVING = 48


@dataclass(slots=True, eq=False)
class TrieNode:
    """A piece of one or more sequences.

    Args:
        begin: the place of its first token in the sequences.
        tokens: its tokens, at least one.
        parent: what comes before; None at the beginning.
        level: how many nodes come before.
        first: the first of the sequences that go through it, in the trie's order.
        last: the last of them; a leaf has one.
        context: keys and values up to its end, once computed (see
            :mod:`~rulerag.generation.huggingface.decoding.packed_model`).
    """

    begin: int
    tokens: Tokens
    parent: TrieNode | None
    level: int
    first: int
    last: int
    context: Any = None

    @property
    def end(self) -> int:
        """The place behind its last token."""
        return self.begin + len(self.tokens)


class Trie:
    """Sequences in the order of their tokens, as leaves of a tree.

    The last token of a sequence always stands in a leaf of its own. Beginnings that save little
    are left with the sequences that share them.

    Args:
        sequences: at least one token each.
    """

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        keys = [tokens.astype(">i8").tobytes() for tokens in sequences]
        self.order = sorted(range(len(sequences)), key=keys.__getitem__)
        ordered = [sequences[i] for i in self.order]
        # What each sequence has in common with the one before it.
        common = np.zeros(len(ordered), dtype=np.int64)
        for i, (one, other) in enumerate(pairwise(ordered), start=1):
            common[i] = min(shared_length(one, other), len(one) - 1, len(other) - 1)
        self.leaves: list[TrieNode] = []
        todo: list[tuple[int, int, int, TrieNode | None]] = [(0, len(ordered), 0, None)]
        while todo:
            low, high, begin, parent = todo.pop()
            level = 0 if parent is None else parent.level + 1
            if high - low <= 1:
                if high > low:
                    piece = ordered[low][begin:]
                    self.leaves.append(TrieNode(begin, piece, parent, level, low, low))
                continue
            inside = common[low + 1 : high]
            shared = int(inside.min())
            if (shared - begin) * (high - low - 1) >= _LEAST_SAVING:
                piece = ordered[low][begin:shared]
                parent = TrieNode(begin, piece, parent, level, low, high - 1)
                begin = shared
            cuts = [low, *(low + 1 + np.flatnonzero(inside == shared)).tolist(), high]
            # The last part first: a stack gives the first part back first.
            todo += [(a, b, begin, parent) for a, b in pairwise(cuts)][::-1]

    def groups(self, rows: int, tokens: int, new_tokens: int) -> list[list[TrieNode]]:
        """The leaves cut into runs that are decoded together.

        Args:
            rows: the most leaves of a run.
            tokens: the most tokens of their own, answers included; one leaf is always allowed.
            new_tokens: how many tokens each answer may have.
        """
        runs: list[list[TrieNode]] = []
        longest = 0
        for leaf in self.leaves:
            longest = max(longest, len(leaf.tokens) + new_tokens)
            full = runs and (len(runs[-1]) >= rows or (len(runs[-1]) + 1) * longest > tokens)
            if not runs or full:
                runs.append([])
                longest = len(leaf.tokens) + new_tokens
            runs[-1].append(leaf)
        return runs


def path(node: TrieNode) -> list[TrieNode]:
    """The nodes from the beginning to this one."""
    nodes = [node]
    while (parent := nodes[-1].parent) is not None:
        nodes.append(parent)
    return nodes[::-1]
