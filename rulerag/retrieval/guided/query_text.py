"""Query∘rule: how a query and a guiding rule become the text of one search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulerag.composition import check_choice
from rulerag.rules import Rule, readable
from rulerag.types import Query

Compose = Callable[[Query, Rule], str | Sequence[str]]
"""Gives the text of the search for a query and a rule, or several texts, one search each."""

COMPOSITIONS = ("append", "substitute", "both")


def append_rule(query: Query, rule: Rule) -> str:
    """The query, then the rule in words: ``q ∘ r`` of RuleRAG (arXiv:2410.22353, section 3.1)."""
    return f"{query.text} {rule.text}"


def substitute_body(
    query: Query,
    rule: Rule,
    *,
    rule_label: Callable[[str], str] = readable,
    entity_label: Callable[[str], str] = readable,
) -> str:
    """The query asked about the rule's body: the body relation in place of the query's own.

    "what does China consult ?" under ``[Entity 1, visit, Entity 2] leads to [Entity 1, consult,
    Entity 2]`` becomes "what does China visit ?". The inverse body, ``[Entity 2, visit, Entity
    1]``, asks for the other end: "what visit China ?". Several body atoms put their relations one
    after another. Where the query's text does not hold its relation, the body is appended.

    Args:
        query: the query; ``relation`` and ``subject`` are raw names.
        rule: the guiding rule.
        rule_label: the words of a raw relation.
        entity_label: the words of a raw entity.
    """
    body = " ".join(dict.fromkeys(rule_label(atom.relation) for atom in rule.body))
    span = _last(query.text, rule_label(query.relation or rule.head.relation))
    if span is None:
        return f"{query.text} {body}"
    before, after = query.text[: span[0]], query.text[span[1] :]
    subject = entity_label(query.subject)
    start = before.rstrip().removesuffix(subject)
    if rule.is_inverse and subject and len(start) < len(before.rstrip()):
        return f"{start.removesuffix('does ')}{body} {subject}{after}"
    return f"{before}{body}{after}"


def _last(text: str, words: str) -> tuple[int, int] | None:
    """Where the words stand last in a text, on word boundaries; the subject comes before them."""
    if not words:
        return None
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)"
    spans = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
    return spans[-1] if spans else None


@dataclass(frozen=True)
class Composition:
    """How query and rule become the texts of searches.

    Args:
        compose: ``append``, ``substitute``, ``both`` (one search each), or a function of one's own.
        rule_label: the words of a raw relation.
        entity_label: the words of a raw entity.

    Raises:
        ConfigError: an unknown name.
    """

    compose: str | Compose = "append"
    rule_label: Callable[[str], str] = readable
    entity_label: Callable[[str], str] = readable

    def __post_init__(self) -> None:
        if isinstance(self.compose, str):
            check_choice("compose", self.compose, COMPOSITIONS, "composition")

    def texts(self, query: Query, rule: Rule) -> list[str]:
        """The texts of a query and a rule, one search each."""
        if not isinstance(self.compose, str):
            texts = self.compose(query, rule)
            return [texts] if isinstance(texts, str) else list(texts)
        found = []
        if self.compose != "substitute":
            found.append(append_rule(query, rule))
        if self.compose != "append":
            labels = {"rule_label": self.rule_label, "entity_label": self.entity_label}
            found.append(substitute_body(query, rule, **labels))
        return found
