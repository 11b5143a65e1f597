"""The searches behind rule-guided retrieval: plain texts at once, chains hop by hop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from rulerag.kg.statements import Statements
from rulerag.retrieval.grounded import Bound
from rulerag.retrieval.hops import Finder, Texts, Trail, Words, follow
from rulerag.retrieval.stated import leads_elsewhere
from rulerag.rules import Rule
from rulerag.types import Query

__all__ = ["Found", "Pair", "RuleSearches", "Searched"]

Found = TypeVar("Found")


class Pair(NamedTuple):
    """One search that a query needs.

    Args:
        rule: its rule; None for the plain query.
        weight: how much it is trusted, from 0 to 1.
        place: where its result stands among those of all searches.
    """

    rule: Rule | None
    weight: float
    place: int


class Searched(NamedTuple, Generic[Found]):
    """What the searches of several queries found.

    Args:
        plans: for each query its searches, in rule order.
        found: the results of all searches.
        bound: for each query, by rule id, what the variables of a chain stand for.
    """

    plans: list[list[Pair]]
    found: list[Found]
    bound: list[dict[str, Bound]]


@dataclass(frozen=True)
class RuleSearches:
    """Makes and runs the searches of queries under their guiding rules.

    Args:
        texts: how a query and a rule become texts.
        words: the words of a raw entity.
        plain_weight: the confidence of a search for the plain query; None: there is none.
        bridges: how many entities of a hop the next one asks about.
        bridge_weight: how much a search counts whose atom does not name the answer.
        max_hops: the longest body that is followed; longer ones are searched as one text.
        known: what the corpus states, where its answers are to be left out.
    """

    texts: Texts
    words: Words
    plain_weight: float | None
    bridges: int
    bridge_weight: float
    max_hops: int
    known: Statements | None = None

    def run(
        self, queries: Sequence[Query], rules: Sequence[Sequence[Rule]], finder: Finder[Found]
    ) -> Searched[Found]:
        """Search for every pair of a query and one of its rules, equal searches once.

        Args:
            queries: the queries.
            rules: the guiding rules of each.
            finder: searches.
        """
        stated = [self.known.before(query) if self.known else frozenset() for query in queries]
        rules = [
            [rule for rule in guiding if _applies(rule, query, known)]
            for query, guiding, known in zip(queries, rules, stated, strict=True)
        ]
        batch, plans = self._plan(queries, rules)
        found = finder.search(batch) if batch else []
        for query, plan, known in zip(queries, plans, stated, strict=True):
            if known:
                self._leave_out(query, plan, known, finder, found)
        trails = [
            (i, Trail(query, rule, self.bridges, stated[i]))
            for i, (query, guiding) in enumerate(zip(queries, rules, strict=True))
            for rule in guiding
            if self._is_followed(rule)
        ]
        bound_of: list[dict[str, Bound]] = [{} for _ in queries]
        followed = follow(
            [trail for _, trail in trails],
            finder,
            self.texts,
            self.words,
            bridge_weight=self.bridge_weight,
        )
        for (i, trail), searches in zip(trails, followed, strict=True):
            bound_of[i][trail.rule.id] = trail.bound
            for weight, result in searches:
                confidence = trail.rule.ranking_confidence
                plans[i].append(Pair(trail.rule, weight * confidence, len(found)))
                found.append(result)
        for i in {i for i, _ in trails}:
            order = {rule.id: number for number, rule in enumerate(rules[i])}
            plans[i].sort(key=lambda pair: order[pair.rule.id] if pair.rule else -1)
        return Searched(plans, found, bound_of)

    def _leave_out(
        self,
        query: Query,
        plan: list[Pair],
        stated: frozenset[str],
        finder: Finder[Found],
        found: list[Found],
    ) -> None:
        """Give the searches of one-atom rules results without what leads to stated answers."""
        for at, pair in enumerate(plan):
            if pair.rule is not None and len(pair.rule.body) == 1:
                bound = {pair.rule.head.subject: (query.subject,)}
                wanted = partial(
                    leads_elsewhere, rule=pair.rule, number=0, bound=bound, stated=stated
                )
                found.append(finder.keep(found[pair.place], wanted))
                plan[at] = pair._replace(place=len(found) - 1)

    def _plan(
        self, queries: Sequence[Query], rules: Sequence[Sequence[Rule]]
    ) -> tuple[list[Query], list[list[Pair]]]:
        """The distinct searches of all queries, and for each query where its own stand."""
        batch: list[Query] = []
        places: dict[tuple[Any, ...], int] = {}

        def place(pair: Query) -> int:
            # The structure counts too: a wrapped retriever may read the time or the subject.
            key = (pair.text, pair.subject, pair.relation, pair.timestamp)
            if key not in places:
                places[key] = len(batch)
                batch.append(pair)
            return places[key]

        plans = []
        for query, guiding in zip(queries, rules, strict=True):
            plan = []
            if guiding and self.plain_weight is not None:
                plan.append(Pair(None, self.plain_weight, place(query)))
            for rule in guiding:
                for text in self.texts(query, rule) if not self._is_followed(rule) else ():
                    pair = replace(query, id=f"{query.id}|{rule.id}", text=text)
                    plan.append(Pair(rule, rule.ranking_confidence, place(pair)))
            plans.append(plan)
        return batch, plans

    def _is_followed(self, rule: Rule) -> bool:
        return self.bridges > 0 and 1 < len(rule.body) <= self.max_hops


def _applies(rule: Rule, query: Query, stated: frozenset[str]) -> bool:
    """Whether a rule may lead from the query's subject to an answer that is not stated."""
    subject = rule.head.subject
    return (subject.startswith("?") or subject == query.subject) and rule.head.object not in stated
