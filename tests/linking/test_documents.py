"""Texts say whom and which time they speak of by their words alone."""

from __future__ import annotations

from rulerag.kg import Calendar
from rulerag.linking import link_mentions
from rulerag.types import Document, Fact

NAMES = {"Ann": ("Ann",), "Bo": ("Bo",)}
DAYS = Calendar("day", "2020-01-01")


def test_the_latest_date_of_a_text_is_its_time() -> None:
    text = "Ann met Bo on 3 January 2020 and left on January 12, 2020."
    (linked,) = link_mentions([Document("a", text)], NAMES, DAYS)
    assert (linked.entities, linked.timestamp) == (("Ann", "Bo"), 11)
    assert link_mentions([Document("a", text)], NAMES)[0].timestamp is None
    assert Document.from_json(linked.to_json()) == linked


def test_what_is_known_already_is_kept() -> None:
    stated = Document("a", "Ann met Bo on 3 January 2020.", (Fact("Ann", "meets", "Bo", 7),))
    given = Document("b", "Ann met Bo on 3 January 2020.", time=1)
    undated = Document("c", "Ann met Bo in spring.")
    found = link_mentions([stated, given, undated], NAMES, DAYS)
    assert [one.timestamp for one in found] == [7, 1, None]
