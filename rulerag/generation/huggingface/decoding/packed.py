"""Greedy decoding and scoring over a tree of shared beginnings, for known models on a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rulerag.generation.huggingface.decoding.batches import (
    BatchLimits,
    Continuation,
    Ending,
    Tokens,
    best_tokens,
    no_gradients,
)
from rulerag.generation.huggingface.decoding.packed_model import (
    PackedModel,
    PieceAttention,
    RowAttention,
)
from rulerag.generation.huggingface.decoding.prefix_tree import Trie, TrieNode, path

# The most tokens of one pass: more would leave the processor's cache.
_CHUNK = 2048


class PackedDecoder:
    """Does what :class:`~rulerag.generation.huggingface.decoding.Decoder` does, with less work.

    Every shared beginning of any length is computed once, in whichever prompts it stands, and
    read once a step for all rows behind it; nothing is padded while prompts are read.

    Args:
        model: a causal language model that :meth:`PackedModel.fits`.
        ending: when an answer ends.
    """

    def __init__(self, model: Any, ending: Ending) -> None:
        self.model, self.ending = PackedModel(model), ending

    def generate(
        self, prompts: Sequence[Tokens], limits: BatchLimits, done: Callable[[int], object]
    ) -> list[Continuation]:
        """Continue prompts greedily.

        Args:
            prompts: token ids, at least one each.
            limits: how much is computed at once.
            done: called with the number of prompts that were finished.

        Raises:
            GenerationError: the model's scores are not numbers.
        """
        trie = Trie(prompts)
        results = [Continuation() for _ in prompts]
        with no_gradients(), self.model.ready():
            for leaves in trie.groups(limits.rows, limits.tokens, limits.new_tokens):
                wanted = [results[trie.order[leaf.first]] for leaf in leaves]
                self._group(leaves, wanted, limits.new_tokens)
                _forget(leaves)
                done(len(leaves))
        return results

    def score(
        self, sequences: Sequence[Tokens], starts: Sequence[int], limits: BatchLimits
    ) -> list[float]:
        """The log-probability of the end of each sequence given its beginning.

        Args:
            sequences: token ids.
            starts: where the part begins that is scored; at least 1.
            limits: how much is computed at once.
        """
        import torch

        trie = Trie([tokens[:-1] for tokens in sequences])
        found = np.zeros(len(sequences))
        with no_gradients(), self.model.ready():
            for leaves in trie.groups(limits.rows, limits.tokens, 0):
                for nodes in _chunks(_needed(leaves)):
                    step = PieceAttention(nodes)
                    scored = [
                        (row, begin + place - node.begin, sequences[row][place + 1])
                        for node, (begin, _) in zip(nodes, step.bounds, strict=True)
                        for row in trie.order[node.first : node.last + 1]
                        for place in range(max(node.begin, starts[row] - 1), node.end)
                    ]
                    rows, places, targets = np.array(scored, dtype=np.int64).reshape(-1, 3).T
                    kept, inverse = np.unique(places, return_inverse=True)
                    logits = self._pass(step, kept.tolist()).float()
                    values = logits[inverse, targets] - torch.logsumexp(logits, dim=-1)[inverse]
                    np.add.at(found, rows, values.double().numpy())
                _forget(leaves)
        return list(map(float, found))

    def _pass(self, step: PieceAttention, keep: Sequence[int]) -> Any:
        """Compute pieces; those with others behind them keep their context."""
        nodes = step.nodes
        ids = np.concatenate([node.tokens for node in nodes])
        positions = np.concatenate([np.arange(node.begin, node.end) for node in nodes])
        logits = self.model(ids, positions, step, keep)
        for place, node in enumerate(nodes):
            if node.last > node.first:
                step.keep(place)
        return logits

    def _group(
        self, leaves: Sequence[TrieNode], results: list[Continuation], new_tokens: int
    ) -> None:
        """Read some prompts and write their answers."""
        import torch

        own: dict[int, Any] = {}
        logits: dict[int, Any] = {}
        for nodes in _chunks(_needed(leaves)):
            step = PieceAttention(nodes)
            ends = [place for place, node in enumerate(nodes) if node.first == node.last]
            found = self._pass(step, [step.bounds[place][1] - 1 for place in ends])
            for row, place in enumerate(ends):
                own[nodes[place].first] = step.states(place)
                logits[nodes[place].first] = found[row]
        contexts = [leaf.parent.context if leaf.parent is not None else () for leaf in leaves]
        chosen, scores = best_tokens(torch.stack([logits[leaf.first] for leaf in leaves]))
        positions = np.array([leaf.end for leaf in leaves])
        rows: RowAttention | None = None
        going = list(range(len(leaves)))  # rows that are computed
        open_rows = set(going)
        for count in range(1, new_tokens + 1):
            values = zip(going, chosen.tolist(), scores.tolist(), strict=True)
            for row, token, score in values:
                if row in open_rows and not self.ending.take(results[row], token, score):
                    open_rows.discard(row)
            if not open_rows or count == new_tokens:
                return
            if rows is None:
                pieces = [own[leaf.first] for leaf in leaves]
                rows = RowAttention(pieces, contexts, new_tokens)
                del own, logits
            if 4 * len(open_rows) <= 3 * len(going):
                keep = [place for place, row in enumerate(going) if row in open_rows]
                rows.select(keep)
                going = [going[place] for place in keep]
                chosen, positions = chosen[keep], positions[keep]
            found = self.model(chosen.numpy(), positions, rows, range(len(going)))
            rows.step()
            positions = positions + 1
            chosen, scores = best_tokens(found)


def _needed(leaves: Sequence[TrieNode]) -> list[list[TrieNode]]:
    """The pieces to compute for some leaves, by level, in the trie's order."""
    levels: dict[int, dict[int, TrieNode]] = {}
    for leaf in leaves:
        for node in path(leaf):
            if node.context is None:
                levels.setdefault(node.level, {})[id(node)] = node
    return [list(levels[level].values()) for level in sorted(levels)]


def _chunks(levels: Sequence[Sequence[TrieNode]]) -> Iterator[list[TrieNode]]:
    """Pieces of one level that are computed together."""
    for nodes in levels:
        chunk: list[TrieNode] = []
        size = 0
        for node in nodes:
            if chunk and size + len(node.tokens) > _CHUNK:
                yield chunk
                chunk, size = [], 0
            chunk.append(node)
            size += len(node.tokens)
        yield chunk


def _forget(leaves: Sequence[TrieNode]) -> None:
    """Free the contexts behind which no leaf is left."""
    last = leaves[-1]
    for leaf in leaves:
        for node in path(leaf):
            if node.last <= last.first:
                node.context = None
