"""Pairs of question and document made from any table of facts, without judgements.

A fact ``(s, r, o)`` is the document. Its plain question asks for ``r`` of ``s``, or from the other
end, as a query asked about an inverse body reads. Its rule-guided question asks for another
relation ``h``, and names a made-up rule with ``r`` in the body: what is learned is to follow the
rule that stands in the text, whichever it is. Half of these ``h`` are relations of the same
subject in the same batch, so that the document of the asked relation stands among the negatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rulerag.kg import FactTable, Verbalizer
from rulerag.retrieval.guided import substitute_body
from rulerag.rules import Atom, Rule, rule_text
from rulerag.types import Query

_CLUSTER = 6
CLUSTERS = f"clusters of {_CLUSTER} facts of one entity, as subject or object"
"""How batches are drawn, for model cards."""


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
        self._step = max(1, words.graph.calendar.step)
        self._used = np.unique(self._relation)
        both = self._ends.reshape(-1)  # every subject, then every object
        self._order = np.argsort(both, kind="stable")
        self._sorted = both[self._order]

    def __len__(self) -> int:
        return len(self.texts)

    def batch(
        self, size: int, random: np.random.Generator, *, guided: float = 0.5, chained: float = 0.15
    ) -> PairBatch:
        """Draw facts, some at a time of one entity, and ask about them.

        A question's time is drawn near its document's, mostly after it, or anywhere.

        Args:
            size: pairs.
            random: what draws.
            guided: share of the questions with a made-up rule; some of the others are asked from
                the other end.
            chained: share of these rules with a second body atom, which the document is not about.
        """
        rows, at_object = self._rows(size, random)
        body = self._relation[rows]
        ruled = random.random(size) < guided
        # The entity of the cluster is the one asked about, more often than not.
        other_end = np.where(random.random(size) < 0.7, at_object, random.random(size) < 0.5)
        inverse = other_end & (ruled | (random.random(size) < 0.3 * min(1.0, 2 * guided)))
        second = np.where(
            ruled & (random.random(size) < chained), random.choice(self._used, size), -1
        )
        heads = np.where(ruled, self._heads(body, random), body)
        asked = np.where(inverse, self._ends[1][rows], self._ends[0][rows])
        times = self._times(rows, random)
        queries = []
        for n in range(size):
            head, relation = self._relations[heads[n]], self._relations[body[n]]
            subject = self._entities[asked[n]]
            text = self._words.query(subject, head, None if times is None else int(times[n]))
            if ruled[n] or inverse[n]:
                more = self._relations[second[n]] if second[n] >= 0 else None
                rule = _rule(relation, head, more, inverse=bool(inverse[n]))
                text = self._guided(text, subject, rule, appended=bool(ruled[n]))
            queries.append(text)
        same = body[:, None] == body[None, :]
        ends = np.where(inverse[:, None], self._ends[1][rows], self._ends[0][rows])
        excluded = same & (asked[:, None] == ends)
        np.fill_diagonal(excluded, False)
        return PairBatch(queries, [self.texts[row] for row in rows.tolist()], excluded)

    def _heads(
        self, body: npt.NDArray[np.int64], random: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Relations to ask for: of another fact of the cluster, or any."""
        near = np.roll(body, -(-len(body) // _CLUSTER))
        chosen: npt.NDArray[np.int64] = np.where(
            random.random(len(body)) < 0.5, near, random.choice(self._used, len(body))
        )
        return chosen

    def _times(
        self, rows: npt.NDArray[np.int64], random: np.random.Generator
    ) -> npt.NDArray[np.int64] | None:
        if self._time is None:
            return None
        span = float(self._time.max() - self._time.min())
        step = self._step
        later = self._time[rows] + step * (
            1 + (random.exponential(span / 10, len(rows)) // step).astype(np.int64)
        )
        anywhere = self._time[random.integers(0, len(self), len(rows))]
        times: npt.NDArray[np.int64] = np.where(random.random(len(rows)) < 0.7, later, anywhere)
        return times

    def _guided(self, text: str, subject: str, rule: Rule, *, appended: bool) -> str:
        relations, entities = self._words.graph.relations, self._words.graph.entities
        if appended:
            return f"{text} {rule_text(rule, relations.label)}"
        query = Query("q", text, subject=subject, relation=rule.head.relation)
        return substitute_body(query, rule, rule_label=relations.label, entity_label=entities.label)

    def _rows(
        self, size: int, random: np.random.Generator
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Facts in clusters of one entity, and whether it is their object."""
        number = -(-size // _CLUSTER)
        first = random.integers(0, 2 * len(self), number)
        entity = self._ends.reshape(-1)[first]
        low = np.searchsorted(self._sorted, entity, "left")
        high = np.searchsorted(self._sorted, entity, "right")
        near = [first]
        for _ in range(_CLUSTER - 1):
            near.append(self._order[low + (random.random(number) * (high - low)).astype(int)])
        places = np.concatenate(near)[:size]
        return places % len(self), places >= len(self)


def _rule(body: str, head: str, more: str | None, *, inverse: bool) -> Rule:
    """A rule whose first body atom is about the asked entity."""
    last = "?y" if more is None else "?z"
    first = Atom(body, last, "?x") if inverse else Atom(body, "?x", last)
    atoms = (first,) if more is None else (first, Atom(more, "?z", "?y"))
    return Rule(Atom(head, "?x", "?y"), atoms)
