"""Which facts may contradict each other."""

from __future__ import annotations

from rulerag.extraction.folder import contradictions
from rulerag.kg import Calendar
from rulerag.types import Fact

CALENDAR = Calendar("day", "2020-01-01")


def test_two_objects_at_one_time_and_two_dates_of_one_fact() -> None:
    facts = [Fact(f"p{n}", "works for", f"firm {n % 3}", n) for n in range(12)]
    assert contradictions(facts, CALENDAR) == []
    facts += [Fact("p1", "works for", "firm 2", 1), Fact("p2", "works for", "firm 2", 9)]
    assert contradictions([*facts, facts[0]], CALENDAR) == [
        {
            "relation": "works for",
            "subject": "p1",
            "date": "2020-01-02",
            "objects": ["firm 1", "firm 2"],
        },
        {
            "relation": "works for",
            "subject": "p2",
            "object": "firm 2",
            "dates": ["2020-01-03", "2020-01-10"],
        },
    ]


def test_where_many_have_several_nothing_contradicts() -> None:
    facts = [Fact(f"p{n % 6}", "meets", f"q{n}") for n in range(60)]
    assert contradictions(facts, CALENDAR) == []
    assert contradictions([Fact("a", "lives in", "b"), Fact("a", "lives in", "c")], CALENDAR) == []
