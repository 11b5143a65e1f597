"""Guiding rules of a question in one's own words: those of every relation that it may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.linking.linker import QuestionLinker
from rulerag.linking.words import INVERSE
from rulerag.protocols import RuleSelector
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Query

# What defines the inverse of a relation is certain; a count would say less.
_CERTAIN = 1.0


@register("selector", "linked")
class LinkedSelector:
    """Weighs the rules of every relation that a question may ask for.

    ``R_q`` holds the rules that the wrapped selector chooses for each relation r that the question
    may mean, and a rule counts p(r | q) · confidence: its confidences are multiplied by p, its
    body counts divided by it, so that every ratio made of them is weighed alike. A query with one
    meaning gets what the wrapped selector gives it, the very same rules.

    Where one meaning has rules and another has none, what documents state of the latter is its
    rule (:func:`itself`), so that an unlikely meaning does not decide alone.

    A question for the subject of a relation is one for the object of its inverse
    (:data:`~rulerag.linking.direction.INVERSE`), whose rules are those of the relation with the
    ends of the head swapped, and one that defines it: ``r(?x, ?y) => ^r(?y, ?x)``.

    Args:
        selector: chooses the rules of a query with one relation.
        linker: understands queries that come without a relation; what a question was taken to mean
            travels with the others (:attr:`rulerag.Query.relations`).
        encoder: a model for the linker, by folder or name; as the linker is when None.
        max_relations: how many relations of a question are followed.
        min_probability: the least p(r | q) of a relation that is followed, a fraction; the most
            likely one always is.

    Raises:
        ConfigError: an option is out of range.
        RetrievalError: there is no such encoder.
    """

    def __init__(
        self,
        selector: RuleSelector,
        linker: QuestionLinker,
        *,
        encoder: str | None = None,
        max_relations: int = 3,
        min_probability: float = 0.05,
    ) -> None:
        check_range("max_relations", max_relations, 1)
        check_range("min_probability", min_probability, 0, 1)
        self.selector = selector
        self.linker = linker if encoder is None else linker.with_encoder(load_encoder(encoder))
        self.max_relations = max_relations
        self.min_probability = min_probability

    def __repr__(self) -> str:
        return f"LinkedSelector({self.selector!r}, max_relations={self.max_relations})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the rules to choose from, the linker, and how many relations are followed."""
        parts = [getattr(part, "fingerprint", repr(part)) for part in (self.selector, self.linker)]
        return fingerprint_object(["linked", *parts, self.max_relations, self.min_probability])

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        """Return, for each query, its guiding rules, best first; a list may be empty."""
        unknown = [query for query in queries if not query.relation]
        linked = iter(self.linker.link([query.text for query in unknown]))
        chosen = []
        for query in queries:
            meant = query.relations if query.relation else tuple(next(linked).relations().items())
            chosen.append(self._of(query, meant or ((query.relation, 1.0),)))
        return chosen

    def _of(self, query: Query, meant: Sequence[tuple[str, float]]) -> list[Rule]:
        followed = [
            one
            for n, one in enumerate(meant[: self.max_relations])
            if n == 0 or one[1] >= self.min_probability
        ]
        if len(followed) == 1:
            return self._rules(query, followed[0][0])
        found = {r: self._rules(query, r) for r, _ in followed}
        if any(found.values()):
            # Else the rules of a less likely meaning would decide alone what the question means.
            dated = query.timestamp is not None
            found = {r: rules or [itself(r, temporal=dated)] for r, rules in found.items()}
        rules = [weighed(rule, p) for r, p in followed for rule in found[r]]
        return sorted(rules, key=lambda rule: -rule.ranking_confidence)

    def _rules(self, query: Query, relation: str) -> list[Rule]:
        bare = relation.removeprefix(INVERSE)
        (rules,) = self.selector.select([replace(query, relation=bare, relations=())])
        if bare == relation:
            return rules
        return [definition(bare, temporal=query.timestamp is not None), *map(inverted, rules)]


def weighed(rule: Rule, probability: float) -> Rule:
    """A rule that counts less: its confidences times a probability, its bodies divided by it."""
    if probability >= 1.0:
        return rule
    q = rule.quality

    def times(value: float | None) -> float | None:
        return None if value is None else value * probability

    def over(value: int | None) -> int | None:
        return None if value is None else round(value / max(probability, 1e-6))

    quality = replace(
        q,
        standard_confidence=times(q.standard_confidence),
        pca_confidence=times(q.pca_confidence),
        confidence=times(q.confidence),
        body_size=over(q.body_size),
        pca_body_size=over(q.pca_body_size),
    )
    return replace(rule, quality=quality)


def inverted(rule: Rule) -> Rule:
    """The rule for the inverse of its head relation: the same body, the head's ends swapped."""
    head = Atom(INVERSE + rule.head.relation, rule.head.object, rule.head.subject)
    return replace(rule, head=head, text="")


def definition(relation: str, *, temporal: bool) -> Rule:
    """What the inverse of a relation is, as a rule: ``r(?x, ?y) => ^r(?y, ?x)``."""
    quality = RuleQuality(confidence=_CERTAIN, pca_confidence=_CERTAIN, standard_confidence=1.0)
    head, body = Atom(INVERSE + relation, "?y", "?x"), Atom(relation, "?x", "?y")
    return Rule(head, (body,), temporal=temporal, quality=quality, miner="inverse")


def itself(relation: str, *, temporal: bool) -> Rule:
    """What is stated of a relation without rules, as one: ``r(?x, ?y) => r(?x, ?y)``."""
    quality = RuleQuality(confidence=_CERTAIN, pca_confidence=_CERTAIN, standard_confidence=1.0)
    atom = Atom(relation, "?x", "?y")
    return Rule(atom, (atom,), temporal=temporal, quality=quality, miner="stated")
