"""The smallest changes of the evidence that change the answer.

Removals that make a predicate fail, subsets that are enough for it, and orders of the documents.
Up to 20 sources every set is looked at, the smallest first; with more the sets come from the rules
(:mod:`~rulerag.explanation.hitting`), and each one named was tried.

References:
    Rorseth et al. 2024 (RAGE, ICDE, doi 10.1109/ICDE60146.2024.00430): combination and
    permutation counterfactuals; orders are tried by their Kendall tau distance.
    Wachter, Mittelstadt, Russell 2017 (Harvard J. Law and Technology 31): counterfactuals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.hitting import RuleChanges
from rulerag.explanation.judging import Predicate
from rulerag.explanation.lattice import indices_of, level
from rulerag.explanation.miners import MAX_EXACT_SOURCES
from rulerag.explanation.oracle import RuleOracle
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.trace import expect
from rulerag.explanation.wording import listing
from rulerag.types import GenerationRequest

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = [
    "Counterfactuals",
    "OrderCounterfactuals",
    "order_counterfactuals",
    "smallest_removals",
    "smallest_subsets",
]

_BATCH = 256
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """The smallest sets of sources that change something.

    Args:
        change: ``removed`` (the predicate fails without these sources) or ``kept`` (it holds with
            these alone).
        names: what the sources are called, in order.
        sets: every set of the smallest size for which it does; empty when there is none.
        searched: the largest size that was looked at whole.
        num_probes: how many distinct subsets were needed.
        complete: false when a limit of size or a probe budget ended the search before every such
            set was found.
        from_rules: whether the sets come from rules. Each was tried all the same; that no smaller
            one does it rests on the rules, as smaller ones were not all tried.
    """

    change: str
    names: tuple[str, ...]
    sets: frozenset[frozenset[int]]
    searched: int
    num_probes: int
    complete: bool
    from_rules: bool = False

    def __str__(self) -> str:
        """The sets in words, one a line."""
        effects = {"removed": ("changes", "change"), "kept": ("is", "are")}[self.change]
        effect = effects[len(self.sets) > 1]
        effect += " the answer" if self.change == "removed" else " enough"
        if not self.sets:
            size = f" of at most {self.searched} sources" if not self.complete else ""
            return f"no set{size} {effect} when {self.change} ({self._found_by})"
        lines = [
            f"  {listing([self.names[index] for index in sorted(one)]) or 'no source at all'}"
            for one in sorted(self.sets, key=sorted)[:_MOST_LINES]
        ]
        count = len(self.sets)
        if count > _MOST_LINES:
            lines.append(f"  … and {count - _MOST_LINES} more")
        head = f"{count} smallest set{'' if count == 1 else 's'} that, when {self.change}, {effect}"
        if not self.complete:
            lines.append("  The search was cut short: there may be others.")
        return "\n".join([f"{head} ({self._found_by})", *lines])

    @property
    def _found_by(self) -> str:
        probes = f"{self.num_probes:,} probes"
        if not self.from_rules:
            return probes
        if not self.sets:
            return f"{probes}, as far as the mined rules lead"
        return f"{probes}; from the mined rules: each was tried, smaller ones were not all"

    def to_json(self) -> dict[str, Any]:
        """The sets as a JSON object."""
        return {
            "change": self.change,
            "sets": sorted(sorted(one) for one in self.sets),
            "names": list(self.names),
            "searched": self.searched,
            "num_probes": self.num_probes,
            "complete": self.complete,
            "from_rules": self.from_rules,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Counterfactuals:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return cls(
            change=expect(row, "change", str),
            names=tuple(expect(row, "names", list)),
            sets=frozenset(frozenset(one) for one in expect(row, "sets", list)),
            searched=expect(row, "searched", int),
            num_probes=expect(row, "num_probes", int),
            complete=expect(row, "complete", bool),
            from_rules=row.get("from_rules") is True,
        )


def smallest_removals(
    engine: ProbeEngine, predicate: Predicate, *, max_size: int | None = None
) -> Counterfactuals:
    """The smallest sets of sources whose removal makes the predicate fail.

    Args:
        engine: answers for subsets of the sources; with every source the predicate holds.
        predicate: whether an output meets the condition.
        max_size: give up beyond so many sources. Up to 20 sources every size is looked at whole,
            so that ``k`` of ``n`` sources take ``n choose k`` probes.

    Raises:
        ExplanationError: the predicate fails with every source kept.
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the budget ran out; ``partial`` says which sizes were looked at.
    """
    if engine.num_sources > MAX_EXACT_SOURCES:
        return _from_rules(engine, predicate, "removed", max_size)
    oracle = RuleOracle("omission", engine, predicate)
    if not oracle.holds(0):
        raise _nothing_to_change()
    return _smallest(oracle, "removed", False, engine.names, max_size)


def smallest_subsets(
    engine: ProbeEngine, predicate: Predicate, *, max_size: int | None = None
) -> Counterfactuals:
    """The smallest sets of sources that alone are enough for the predicate.

    Args:
        engine: answers for subsets of the sources.
        predicate: whether an output meets the condition.
        max_size: give up beyond so many sources.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the budget ran out; ``partial`` says which sizes were looked at.
    """
    if engine.num_sources > MAX_EXACT_SOURCES:
        return _from_rules(engine, predicate, "kept", max_size)
    oracle = RuleOracle("retention", engine, predicate)
    return _smallest(oracle, "kept", True, engine.names, max_size)


def _smallest(
    oracle: RuleOracle, change: str, wanted: bool, names: tuple[str, ...], max_size: int | None
) -> Counterfactuals:
    """Level by level from the empty set until some set gives the wanted verdict."""
    last = oracle.num_sources if max_size is None else min(max_size, oracle.num_sources)

    def result(found: Sequence[int], searched: int, *, complete: bool) -> Counterfactuals:
        sets = frozenset(frozenset(indices_of(mask)) for mask in found)
        return Counterfactuals(change, names, sets, searched, oracle.num_probes, complete)

    for size in range(last + 1):
        found: list[int] = []
        for batch in _batches(level(oracle.num_sources, size)):
            try:
                verdicts = oracle.hold(batch)
            except ProbeBudgetError as error:
                raise ProbeBudgetError(
                    f"{error.message}; every set of fewer than {size} sources was looked at",
                    partial=result(found, size - 1, complete=False),
                    hint=error.hint,
                ) from None
            found += [m for m, verdict in zip(batch, verdicts, strict=True) if verdict == wanted]
        if found:
            return result(found, size, complete=True)
    return result([], last, complete=last == oracle.num_sources)


def _from_rules(
    engine: ProbeEngine, predicate: Predicate, change: str, max_size: int | None
) -> Counterfactuals:
    """The sets that the rules lead to, for more sources than can be looked at whole."""
    oracle = RuleOracle("retention", engine, predicate)
    if change == "removed" and not oracle.holds(oracle.full):
        raise _nothing_to_change()
    most = engine.num_sources if max_size is None else max_size
    changes = RuleChanges(oracle, most)

    def result() -> Counterfactuals:
        sets = frozenset(frozenset(indices_of(mask)) for mask in changes.found)
        searched = 0 if sets or change == "kept" else min(1, most)
        probes = oracle.num_probes
        done = changes.complete
        return Counterfactuals(change, engine.names, sets, searched, probes, done, True)

    try:
        changes.removals() if change == "removed" else changes.subsets()
    except ProbeBudgetError as error:
        raise ProbeBudgetError(
            f"{error.message}; {len(changes.found)} sets found until then",
            partial=result(),
            hint=error.hint,
        ) from None
    return result()


def _nothing_to_change() -> ExplanationError:
    return ExplanationError(
        "the predicate fails with every source kept: there is nothing to change",
        hint="give the predicate of the answer at hand, or its opposite",
    )


def _batches(masks: Iterator[int]) -> Iterator[list[int]]:
    while batch := list(itertools.islice(masks, _BATCH)):
        yield batch


@dataclass(frozen=True, slots=True)
class OrderCounterfactuals:
    """The orders of the documents nearest to the given one that make a predicate fail.

    Args:
        orders: places of the documents in their given order, from 0, as the generator would see
            them; every order at the smallest distance.
        distance: how many pairs of documents these orders turn round; None without an order.
        searched: the largest distance that was looked at whole.
        num_orders: how many orders were asked.
        complete: whether an order was found, or every order was looked at.
    """

    orders: tuple[tuple[int, ...], ...]
    distance: int | None
    searched: int
    num_orders: int
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """The orders as a JSON object."""
        return {
            "orders": [list(order) for order in self.orders],
            "distance": self.distance,
            "searched": self.searched,
            "num_orders": self.num_orders,
            "complete": self.complete,
        }


def order_counterfactuals(
    generator: Generator,
    request: GenerationRequest,
    predicate: Predicate,
    *,
    max_orders: int = 1000,
) -> OrderCounterfactuals:
    """The smallest change of the documents' order that makes the predicate fail.

    Orders are asked by their Kendall tau distance to the given one, a distance at a time.

    Args:
        generator: what answers.
        request: the whole request; in its own order the predicate holds.
        predicate: whether an output meets the condition.
        max_orders: stop before a distance with which more orders would be asked in all.

    Raises:
        ConfigError: ``max_orders`` is below 1.
        ExplanationError: the predicate fails in the given order.
        PredicateError: the predicate raised or did not return a Boolean.
    """
    if max_orders < 1:
        raise ConfigError(f"expected a number from 1, found {max_orders}", key="max_orders")
    count, asked = len(request.documents), 0
    for distance in range(count * (count - 1) // 2 + 1):
        orders = list(itertools.islice(_at_distance(tuple(range(count)), distance), max_orders + 1))
        if asked + len(orders) > max_orders:
            return OrderCounterfactuals((), None, distance - 1, asked, False)
        failing = _failing_orders(generator, request, predicate, orders)
        asked += len(orders)
        if failing and distance == 0:
            raise ExplanationError(
                "the predicate fails in the given order: there is nothing to change",
                hint="give the predicate of the answer at hand, or its opposite",
            )
        if failing:
            return OrderCounterfactuals(tuple(failing), distance, distance, asked, True)
    return OrderCounterfactuals((), None, math.comb(count, 2), asked, True)


def _failing_orders(
    generator: Generator,
    request: GenerationRequest,
    predicate: Predicate,
    orders: Sequence[tuple[int, ...]],
) -> list[tuple[int, ...]]:
    requests = [
        replace(request, documents=tuple(request.documents[place] for place in order))
        for order in orders
    ]

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        chosen = [requests[max(subset)] for subset in kept]
        return [completion.text for completion in generator.generate(chosen)]

    # The orders stand in as sources, one at a time, so that engine and judge check everything.
    engine = ProbeEngine.from_function(answer, num_sources=len(orders))
    verdicts = RuleOracle("retention", engine, predicate).hold([1 << i for i in range(len(orders))])
    return [order for order, holds in zip(orders, verdicts, strict=True) if not holds]


def _at_distance(items: tuple[int, ...], distance: int) -> Iterator[tuple[int, ...]]:
    """Every order of ``items`` that turns exactly ``distance`` pairs round."""
    if not items:
        if distance == 0:
            yield ()
        return
    rest = (len(items) - 1) * (len(items) - 2) // 2
    for place in range(min(distance, len(items) - 1) + 1):
        if distance - place <= rest:
            others = items[:place] + items[place + 1 :]
            for tail in _at_distance(others, distance - place):
                yield (items[place], *tail)
