"""What a careful script would do in place of the library: the other ways of the speed table.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Algorithm 1 (Mono Rule Miner).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from benchmarks.mining.amie_agreement import pairs_by_relation
from rulerag.kg import FactTable

Subset = frozenset[int]


def count_amie_rules(facts: FactTable, *, min_head_size: int = 100) -> int:
    """How many rules of up to three atoms AMIE has without skyline, by sets.

    Bodies are composed one by one and intersected with every head, at AMIE's default thresholds;
    body sizes are those of the sets.
    """
    pairs = pairs_by_relation(facts)
    directed: dict[tuple[str, bool], set[tuple[str, str]]] = {}
    reach: dict[tuple[str, bool], dict[str, set[str]]] = {}
    for relation, forward in pairs.items():
        for inverse in (False, True):
            both = {(o, s) for s, o in forward} if inverse else forward
            directed[relation, inverse] = both
            targets = reach.setdefault((relation, inverse), {})
            for s, o in both:
                targets.setdefault(s, set()).add(o)
    heads = {r: p for r, p in pairs.items() if len(p) >= min_head_size}
    names = list(directed)

    def passing(body: set[tuple[str, str]], atoms: set[tuple[str, bool]]) -> int:
        found = 0
        for relation, head in heads.items():
            support = len(body & head)
            if (relation, False) in atoms or support < 0.01 * len(head) or not support:
                continue
            ends = [set(reach[relation, inverse]) for inverse in (False, True)]
            side = int(len(ends[1]) > len(ends[0]))
            found += support >= 0.1 * sum(pair[side] in ends[side] for pair in body)
        return found

    rules = sum(passing(directed[d], {d}) for d in names)
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            step = reach[second]
            path = {(x, y) for x, z in directed[first] for y in step.get(z, ())}
            rules += passing(path, set())
            if i < j:
                rules += passing(directed[first] & directed[second], {first, second})
    return rules


def count_temporal_rules(facts: FactTable) -> int:
    """How many rules of one body atom have a support, by loops over facts."""
    last: dict[tuple[str, str], dict[str, int]] = {}
    for fact in facts:
        times = last.setdefault((fact.subject, fact.object), {})
        times[fact.relation] = max(times.get(fact.relation, -1), fact.timestamp or 0)
    support: dict[tuple[str, bool, str], int] = {}
    for fact in facts:
        ways = ((False, (fact.subject, fact.object)), (True, (fact.object, fact.subject)))
        for inverse, ends in ways:
            for head, time in last.get(ends, {}).items():
                if time > (fact.timestamp or 0):
                    key = (fact.relation, inverse, head)
                    support[key] = support.get(key, 0) + 1
    return len(support)


def algorithm_1(sources: Sequence[int], holds: Callable[[Subset], bool]) -> set[Subset]:
    """Algorithm 1 of the paper, line by line: every valid retention rule."""
    valid: set[Subset] = set()  # R, line 1
    invalid: set[Subset] = set()  # Z, line 2
    for removed in range(len(sources) + 1):
        size = len(sources) - removed
        level = {frozenset(s) for s in itertools.combinations(sources, size)}
        invalid = {z - {s} for z in invalid for s in z if len(z) == size + 1}
        for subset in level - invalid:
            if holds(subset):
                valid.add(subset)
            else:
                invalid.add(subset)
    return valid
