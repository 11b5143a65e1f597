"""Rule selection: which rules of a bank guide a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from rulerag.composition import check_choice, check_range, register
from rulerag.io import fingerprint_object
from rulerag.kg import Phrases
from rulerag.protocols import RuleSelector
from rulerag.rules import Rule, RuleBank
from rulerag.types import Query

RANKINGS: dict[str, Callable[[Rule], float]] = {
    "confidence": lambda rule: rule.ranking_confidence,
    "support": lambda rule: float(rule.quality.support or 0),
    "product": lambda rule: rule.ranking_confidence * (rule.quality.support or 0),
}
"""What ranks the rules of one head relation, larger first."""


@register("selector", "head")
class HeadRelationSelector:
    """Guides a query by the rules whose head is the relation that it asks for.

    ``R_q = {r in R : head relation of r = relation of q}``, most confident first; ties by larger
    support, then by text. A query whose relation no rule predicts, or whose relation is unknown,
    gets none.

    Args:
        bank: the rule bank R.
        max_rules: how many rules guide one query at most; all when None.
        rank_by: which rules come first: ``confidence`` (the paper's), ``support``, or ``product``
            (confidence times support: rules that hold often and apply often).
        min_confidence: least confidence of a guiding rule, a fraction.
        min_support: least support of a guiding rule, in facts.

    Raises:
        ConfigError: an option is out of range.

    References:
        RuleRAG (arXiv:2410.22353), section 3.1.
    """

    def __init__(
        self,
        bank: RuleBank,
        *,
        max_rules: int | None = None,
        rank_by: str = "confidence",
        min_confidence: float = 0.0,
        min_support: int = 0,
    ) -> None:
        check_range("max_rules", max_rules or 0, 0)
        check_choice("rank_by", rank_by, RANKINGS, "ranking")
        check_range("min_confidence", min_confidence, 0, 1)
        check_range("min_support", min_support, 0)
        self.bank = bank.filter(min_confidence=min_confidence, min_support=min_support)
        self.max_rules = max_rules
        self.rank_by = rank_by
        self._chosen: dict[str, list[Rule]] = {}

    def __repr__(self) -> str:
        return f"HeadRelationSelector({self.bank!r}, max_rules={self.max_rules})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the rules to choose from and how many are taken."""
        return fingerprint_object(
            ["head-relation", self.bank.fingerprint, self.max_rules, self.rank_by]
        )

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        """Return, for each query, its guiding rules, best first; a list may be empty."""
        return [list(self._for(query.relation)) for query in queries]

    def _for(self, relation: str) -> list[Rule]:
        if relation not in self._chosen:
            rules = self.bank.for_head(relation)
            # A stable sort: rules that the ranking cannot tell apart stay most confident first.
            rules.sort(key=RANKINGS[self.rank_by], reverse=True)
            self._chosen[relation] = rules[: self.max_rules]
        return self._chosen[relation]


class WordedSelector:
    """Gives the rules of another selector with texts in plain words.

    Query∘rule, prompts, explanations and the studio show the text of a rule: they say it by the
    templates of a dataset's own, where it has some. Ids, counts and order stay.

    Args:
        selector: chooses the rules.
        phrases: says them.
    """

    def __init__(self, selector: RuleSelector, phrases: Phrases) -> None:
        self.selector = selector
        self.phrases = phrases

    def __repr__(self) -> str:
        return f"WordedSelector({self.selector!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the rules and the templates of one's own."""
        wrapped = getattr(self.selector, "fingerprint", repr(self.selector))
        return fingerprint_object(["worded", wrapped, self.phrases.own])

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        """Return, for each query, its guiding rules, best first; a list may be empty."""
        return [[self._in_words(rule) for rule in rules] for rules in self.selector.select(queries)]

    def _in_words(self, rule: Rule) -> Rule:
        return replace(rule, text=self.phrases.rule(rule))
