"""Pairs of question and document made from any table of facts, without judgements.

A fact ``(s, r, o)`` is the document. Its plain question asks for ``r`` of ``s``. Its rule-guided
question asks for another relation ``h``, and names a made-up rule with ``r`` in the body: what is
learned is to follow the rule that stands in the text, whichever it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rulerag.kg.graph import FactTable
from rulerag.kg.verbalization import Verbalizer

__all__ = ["PairBatch", "PairSource"]

_CLUSTER = 4


@dataclass(frozen=True)
class PairBatch:
    """Questions and documents; pair i is row i of both.

    Args:
        queries: n texts.
        documents: n texts.
        excluded: bool array of shape (n, n), True where a document answers a question that it was
            not made for.
    """

    queries: list[str]
    documents: list[str]
    excluded: npt.NDArray[np.bool_]


class PairSource:
    """Draws batches from one table of facts.

    Args:
        facts: the facts.
        words: puts them into words.
        limit: facts kept at most, drawn by seed.
        seed: of that draw.
    """

    def __init__(
        self, facts: FactTable, words: Verbalizer, *, limit: int = 80_000, seed: int = 0
    ) -> None:
        if len(facts) > limit:
            kept = np.random.default_rng([seed, 11]).permutation(len(facts))[:limit]
            facts = facts.select(np.sort(kept))
        self.texts = [document.text for document in words.corpus(facts)]
        self._words = words
        self._entities = facts.entities.names
        self._relations = facts.relations.names
        self._ends = np.stack([facts.subject, facts.object]).astype(np.int64)
        self._relation = facts.relation.astype(np.int64)
        self._time = None if facts.timestamp is None else facts.timestamp.astype(np.int64)
        self._used = np.unique(self._relation)
        self._order = np.argsort(self._ends[0], kind="stable")
        self._sorted = self._ends[0][self._order]

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, size: int, random: np.random.Generator, *, guided: float = 0.5) -> PairBatch:
        """Draw facts, four at a time of one subject, and ask about them.

        Args:
            size: pairs.
            random: what draws.
            guided: share of the questions with a made-up rule.
        """
        rows = self._rows(size, random)
        inverse = random.random(size) < 0.5 * guided
        ruled = inverse | (random.random(size) < 0.5 * guided / (1 - 0.5 * guided))
        heads = np.where(ruled, random.choice(self._used, size), self._relation[rows])
        asked = np.where(inverse, self._ends[1][rows], self._ends[0][rows])
        body = self._relation[rows]
        times = None if self._time is None else self._time[random.integers(0, len(self), size)]
        queries = []
        for n in range(size):
            head, relation = self._relations[heads[n]], self._relations[body[n]]
            time = None if times is None else int(times[n])
            text = self._words.query(self._entities[asked[n]], head, time)
            if ruled[n]:
                text = f"{text} {self._rule(relation, head, inverse=bool(inverse[n]))}"
            queries.append(text)
        same = body[:, None] == body[None, :]
        ends = np.where(inverse[:, None], self._ends[1][rows], self._ends[0][rows])
        excluded = same & (asked[:, None] == ends)
        np.fill_diagonal(excluded, False)
        return PairBatch(queries, [self.texts[row] for row in rows.tolist()], excluded)

    def _rows(self, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        first = random.integers(0, len(self), -(-size // _CLUSTER))
        subject = self._ends[0][first]
        low = np.searchsorted(self._sorted, subject, "left")
        high = np.searchsorted(self._sorted, subject, "right")
        near = [first]
        for _ in range(_CLUSTER - 1):
            near.append(self._order[low + (random.random(len(first)) * (high - low)).astype(int)])
        return np.concatenate(near)[:size]

    def _rule(self, body: str, head: str, *, inverse: bool) -> str:
        label = self._words.graph.relations.label
        ends = "Entity 2", "Entity 1"
        one, two = ends if inverse else ends[::-1]
        return f"[{one}, {label(body)}, {two}] leads to [Entity 1, {label(head)}, Entity 2]"
