"""Facts that may contradict each other: found by what the other facts of their relation are like.

Where nearly every subject has one object (at a time), one that has several is worth a look; so is
a fact with several dates where nearly every other has one. Nothing is dropped: which of them is
right, no text says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rulerag.kg import Calendar
from rulerag.types import Fact

# As `rulerag inspect` asks: of so many, at least this fraction have one alone.
_SOME, _MOST = 10, 0.9


def contradictions(facts: Iterable[Fact], calendar: Calendar) -> list[dict[str, Any]]:
    """Facts that may contradict each other.

    Args:
        facts: all facts.
        calendar: of their times.

    Returns:
        Rows of ``relation``, ``subject``, and either ``objects`` with the ``date`` at which it has
        them (if facts are dated), or ``object`` and ``dates``.
    """
    listed = sorted(set(facts), key=lambda one: (*one[:3], one.timestamp or 0))
    found = []
    for relation in dict.fromkeys(one.relation for one in listed):
        own = [one for one in listed if one.relation == relation]
        dated = [one for one in own if one.timestamp is not None]
        for (subject, time), same in _several(own, lambda one: (one.subject, one.timestamp)):
            row = {"relation": relation, "subject": subject}
            row |= {} if time is None else {"date": calendar.format(time)}
            found.append({**row, "objects": [one.object for one in same]})
        for (subject, name), same in _several(dated, lambda one: (one.subject, one.object)):
            dates = [calendar.format(one.timestamp or 0) for one in same]
            row = {"relation": relation, "subject": subject, "object": name}
            found.append({**row, "dates": dates})
    return found


def _several(facts: list[Fact], key: Any) -> Iterator[tuple[tuple[Any, Any], list[Fact]]]:
    """Groups of several facts, where nearly all groups have one."""
    groups: dict[tuple[Any, Any], list[Fact]] = {}
    for fact in facts:
        groups.setdefault(key(fact), []).append(fact)
    single = sum(len(own) == 1 for own in groups.values())
    if len(groups) >= _SOME and single >= _MOST * len(groups):
        yield from ((name, own) for name, own in groups.items() if len(own) > 1)
