"""Candidates by the rules of a bank, executed on the facts of a corpus."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.candidates.base import FactScorer
from rulerag.candidates.facts import CorpusFacts
from rulerag.composition import check_choice, register
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import MAX_ROWS, RulePlans, noisy_or_exponents
from rulerag.mining.inference import StaticInference, TemporalInference
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Support

if TYPE_CHECKING:
    from rulerag.kg.grounding.joins import GroundingTable
    from rulerag.mining.inference import Candidates

_AGGREGATES = ("noisy-or", "max")
# Rules of a relation, the most confident first, that an explanation looks through; and names.
_TRIED, _NAMED = 64, 3
_MAX_ROWS = 20_000


@register("scorer", "rules")
class Rules(FactScorer):
    """What the rules of a bank lead to, as link prediction applies them.

    Static facts are completed by :class:`~rulerag.mining.inference.StaticInference`, dated ones
    forecast by :class:`~rulerag.mining.inference.TemporalInference`. Where a static rule has three
    body atoms or more, rules are grounded from each subject instead, with the same scores.

    Args:
        facts: the facts.
        bank: the rules.
        aggregate: how rules are joined: ``noisy-or``; ``max``, by the most confident one (static
            facts alone).

    Raises:
        ConfigError: another way to join rules, or one that does not go with the facts.
        MiningError: dated rules and undated facts, or undated rules and dated facts.
    """

    kind = "rules"
    bank: RuleBank
    aggregate: str

    def __init__(self, facts: CorpusFacts, bank: RuleBank, *, aggregate: str = "noisy-or") -> None:
        check_choice("aggregate", aggregate, _AGGREGATES)
        if aggregate == "max" and facts.is_dated:
            raise ConfigError(
                "'max' does not go with dated facts", key="aggregate", hint="noisy-or"
            )
        super().__init__(facts, aggregate=aggregate)
        self.bank = bank

    @cached_property
    def fingerprint(self) -> str:
        """Names the facts, the rules and every setting that changes scores."""
        return fingerprint_object([self.title, self.facts.fingerprint, self.bank.fingerprint])

    def over(self, facts: CorpusFacts) -> Rules:
        """The same scorer over other facts."""
        return type(self)(facts, self.bank, aggregate=self.aggregate)

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        known = np.flatnonzero(subject >= 0)
        # Of facts with swapped ends, rules are asked for the subjects of the facts as stated.
        inverse = len(self.facts.table.relations) if self.facts.forward is not None else 0
        asked = np.full(len(known), relation + inverse, np.int64)
        columns: tuple[Longs, ...] = subject[known], asked
        if self.facts.is_dated:
            columns = *columns, np.full(len(known), self.facts.now(time), np.int64)
        if self._is_long:
            each: list[Any] = [self._joined(relation, one) for one in subject[known].tolist()]
        else:
            found: Candidates = self._inference.candidates(*columns)
            each = [found.of(number) for number in range(len(known))]
        entity = np.unique(np.concatenate([np.zeros(0, np.int64), *(one for one, _ in each)]))
        entity = entity.astype(np.int64)
        score = np.zeros((len(subject), len(entity)))
        for line, (candidates, values) in zip(known.tolist(), each, strict=True):
            score[line, np.searchsorted(entity, candidates)] = values
        return entity, score

    @cached_property
    def _is_long(self) -> bool:
        return not self.facts.is_dated and any(len(rule.body) > 2 for rule in self.bank)

    def _joined(self, relation: int, subject: int) -> tuple[Longs, Doubles]:
        """What the rules lead to from one subject, each rule once, and the joined confidences."""
        rules, plans = self._plans(relation, None)
        found = plans.ground(self.facts.names[subject])
        pairs = np.unique(found.answer * max(len(rules), 1) + found.rule)
        answers, rule = np.divmod(pairs, max(len(rules), 1))
        weights = np.array([one.ranking_confidence for one in rules])[rule]
        entity, line = np.unique(answers, return_inverse=True)
        score = np.zeros(len(entity))
        if self.aggregate == "max":
            np.maximum.at(score, line, weights)
            return entity, score
        np.add.at(score, line, noisy_or_exponents(weights))
        return entity, -np.expm1(-score)

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The most confident rules that lead to the candidate, each with a grounding."""
        if subject < 0:
            return ()
        rules, _ = self._plans(relation, _TRIED)
        found = self.last(self._grounded, relation, time, subject)
        fits = np.flatnonzero(found.answer == entity)
        if found.latest is not None:  # of one rule the latest grounding is told
            fits = fits[np.argsort(-found.latest[fits], kind="stable")]
        _, first = np.unique(found.rule[fits], return_index=True)
        reasons = []
        for number in fits[first][:_NAMED].tolist():
            rows = [row for row in found.rows[number].tolist() if row >= 0]
            # The fact that names the candidate comes first.
            ends = self.facts.table.subject, self.facts.table.object
            rows.sort(key=lambda row: entity not in (ends[0][row], ends[1][row]))
            reasons.append(self.reason(rules[int(found.rule[number])].text, rows))
        return tuple(reasons)

    def _grounded(self, relation: int, time: int, subject: int) -> GroundingTable:
        before = self.facts.now(time) if self.facts.is_dated else None
        return self._plans(relation, _TRIED)[1].ground(self.facts.names[subject], before)

    def _plans(self, relation: int, most: int | None) -> tuple[list[Rule], RulePlans]:
        if (relation, most) not in self._planned:
            rules = self.bank.for_head(self.facts.table.relations.names[relation])
            best = sorted(rules, key=lambda rule: -rule.ranking_confidence)[:most]
            asked = best
            if self.facts.forward is not None:  # what is known is the object of the head
                heads = [Atom(one.head.relation, one.head.object, one.head.subject) for one in best]
                asked = [replace(r, head=head) for r, head in zip(best, heads, strict=True)]
            index = (self.facts.forward or self.facts).index
            rows = _MAX_ROWS if most else 10 * MAX_ROWS
            self._planned[relation, most] = best, RulePlans(asked, index, max_rows=rows)
        return self._planned[relation, most]

    @cached_property
    def _planned(self) -> dict[tuple[int, int | None], tuple[list[Rule], RulePlans]]:
        return {}

    @cached_property
    def _inference(self) -> Any:
        table = (self.facts.forward or self.facts).table
        known = set(table.relations.names)
        bank = [
            rule
            for rule in self.bank
            if rule.head.relation in known and all(atom.relation in known for atom in rule.body)
        ]
        if not self.facts.is_dated:
            return StaticInference(bank, [table], aggregate=self.aggregate)
        return TemporalInference(bank, [table])
