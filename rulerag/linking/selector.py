"""Guiding rules of a question in one's own words: those of the relation that it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from rulerag.composition import register
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
    """Chooses the rules of what a question in one's own words asks.

    A question for the subject of a relation is one for the object of its inverse
    (:data:`~rulerag.linking.words.classes.INVERSE`), whose rules are those of the relation with the
    ends of the head swapped, and one that defines it: ``r(?x, ?y) => ^r(?y, ?x)``. A question that
    is not understood has no rules.

    Args:
        selector: chooses the rules of a query with a relation.
        linker: understands queries that come without one.
        encoder: a model for the linker, by folder or name; as the linker is when None.

    Raises:
        RetrievalError: there is no such encoder.
    """

    def __init__(
        self, selector: RuleSelector, linker: QuestionLinker, *, encoder: str | None = None
    ) -> None:
        self.selector = selector
        self.linker = linker if encoder is None else linker.with_encoder(load_encoder(encoder))

    def __repr__(self) -> str:
        return f"LinkedSelector({self.selector!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the rules to choose from, and the linker."""
        parts = [getattr(part, "fingerprint", repr(part)) for part in (self.selector, self.linker)]
        return fingerprint_object(["linked", *parts])

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        """Return, for each query, its guiding rules, best first; a list may be empty."""
        return [self._rules(query) for query in self.linker.link_queries(queries)]

    def _rules(self, query: Query) -> list[Rule]:
        bare = query.relation.removeprefix(INVERSE)
        (rules,) = self.selector.select([replace(query, relation=bare)])
        if bare == query.relation:
            return rules
        return [definition(bare, temporal=query.timestamp is not None), *map(inverted, rules)]


def inverted(rule: Rule) -> Rule:
    """The rule for the inverse of its head relation: the same body, the head's ends swapped."""
    head = Atom(INVERSE + rule.head.relation, rule.head.object, rule.head.subject)
    return replace(rule, head=head, text="")


def definition(relation: str, *, temporal: bool) -> Rule:
    """What the inverse of a relation is, as a rule: ``r(?x, ?y) => ^r(?y, ?x)``."""
    quality = RuleQuality(confidence=_CERTAIN, pca_confidence=_CERTAIN, standard_confidence=1.0)
    head, body = Atom(INVERSE + relation, "?y", "?x"), Atom(relation, "?x", "?y")
    return Rule(head, (body,), temporal=temporal, quality=quality, miner="inverse")
