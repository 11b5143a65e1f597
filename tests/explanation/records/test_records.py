"""Records of what was shown: in few words, as JSON objects, and read again key by key."""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import pytest

from rulerag.errors import DataFormatError
from rulerag.explanation.records import (
    Certificate,
    CertifiedRules,
    DocumentSet,
    OfSize,
    Record,
    Spoiler,
    percent,
)
from rulerag.explanation.search import CertifiedMiner, MonoMiner
from rulerag.explanation.wording import condition
from tests.planted import PlantedAnswer

SHOWN = Certificate("certified", 0.95, 0.95, "uniform", 73, 73, 0.95, (OfSize(0, 12, 4, 4),))


def again(record: Record) -> Record:
    return type(record).from_json(json.loads(json.dumps(record.to_json())))


def test_shares_are_never_rounded_up() -> None:
    shares = {0.95: "95 %", 0.9499: "94.9 %", 0.97199: "97.1 %", 1.0: "100 %", 0.29: "29 %"}
    assert [percent(share) for share in shares] == list(shares.values())


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (Certificate.exact(9), "all 512 subsets"),
        (Certificate("untested"), "not tested"),
        (SHOWN, "at least 95 %, held in 73 of 73 random subsets, confidence 95 %"),
        (
            replace(SHOWN, kind="tested", successes=60, bound=0.7),
            "held in 60 of 73 random subsets: 95 % is not shown",
        ),
    ],
)
def test_a_certificate_reads_in_a_few_words_and_travels(
    certificate: Certificate, words: str
) -> None:
    assert str(certificate) == words and again(certificate) == certificate
    assert certificate.always == (certificate.kind == "exact")


def test_a_set_of_documents_travels_with_its_certificate() -> None:
    one = DocumentSet([4, 1], SHOWN, "Paris")
    read = DocumentSet.from_json(json.loads(json.dumps(one.to_json())))
    for made in (read, pickle.loads(pickle.dumps(one))):
        assert made == {1, 4} == one and (made.certificate, made.output) == (SHOWN, "Paris")
    assert again(Spoiler((2,), (0, 1), "No.")) == Spoiler((2,), (0, 1), "No.")


class Pair(NamedTuple):
    name: str
    share: float


@dataclass(frozen=True)
class Everything(Record):
    """A record with a field of every kind that records have."""

    count: int
    flag: bool = False
    kind: Literal["one", "two"] = "one"
    pairs: tuple[Pair, ...] = ()
    span: tuple[int, int] = (0, 0)
    inner: Certificate | None = None
    sizes: tuple[OfSize, ...] = ()


EVERYTHING = Everything(3, True, "two", (Pair("a", 0.5),), (1, 2), SHOWN, (OfSize(0, 1, 2, 1),))


def test_every_kind_of_field_is_read_as_it_was_written() -> None:
    for one in (EVERYTHING, Everything(0)):
        assert again(one) == one
        assert Everything.from_json({**one.to_json(), "more": 1}) == one


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("count", "three", "count"),
        ("count", True, "count"),
        ("count", 1.5, "count"),
        ("count", None, "count"),
        ("flag", 1, "flag"),
        ("kind", "three", "kind"),
        ("pairs", {"a": 1}, "pairs"),
        ("pairs", [["a"]], "pairs"),
        ("pairs", [["a", "half"]], "pairs"),
        ("span", [1, 2, 3], "span"),
        ("inner", 3, "inner"),
        ("sizes", [{"least": 0, "most": 1, "samples": 2}], "successes"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_key(key: str, value: object, named: str) -> None:
    row = EVERYTHING.to_json()
    with pytest.raises(DataFormatError, match=f"key '{named}'"):
        Everything.from_json({**row, key: value})
    with pytest.raises(DataFormatError, match=f"key '{key}': .*missing"):
        Everything.from_json({name: row[name] for name in row if name != key})


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({}, "documents"),
        ({"documents": "12"}, "documents"),
        ({"documents": [1.5]}, "documents"),
        ({"documents": [True]}, "documents"),
        ({"documents": [1]}, "certificate"),
        ({"documents": [1], "certificate": {**SHOWN.to_json(), "kind": "sure"}}, "kind"),
        ({"documents": [1], "certificate": SHOWN.to_json(), "output": 3}, "output"),
    ],
)
def test_a_set_that_cannot_be_read_is_named(row: dict[str, object], key: str) -> None:
    with pytest.raises(DataFormatError, match=f"key '{key}'"):
        DocumentSet.from_json(row)


# --- rules in words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clauses", "kind", "lines"),
    [
        (
            [{0, 1}, {2}],
            "retention",
            [
                "holds whenever source 2 is kept",
                "holds whenever source 0 and source 1 are kept together",
            ],
        ),
        (
            [{0, 1}, {2}],
            "omission",
            [
                "holds whenever source 0 and source 2 are both removed",
                "holds whenever source 1 and source 2 are both removed",
            ],
        ),
        ([set()], "retention", ["holds whatever is kept or removed"]),
        ([], "retention", []),
    ],
)
def test_exact_rules_read_as_sentences(
    clauses: list[set[int]], kind: str, lines: list[str]
) -> None:
    wanted = "yes" if kind == "retention" else "no"
    engine = PlantedAnswer(3, clauses).engine()
    head, *told = str(MonoMiner(kind).mine(engine, lambda out: out == wanted)).splitlines()
    assert [line.strip() for line in told] == lines
    assert head.startswith(f"{len(lines)} minimal {kind} rule{'' if len(lines) == 1 else 's'} (")


def test_a_long_list_of_rules_is_cut() -> None:
    planted = PlantedAnswer(8, [set(four) for four in itertools.combinations(range(8), 4)])
    lines = str(MonoMiner("retention").mine(planted.engine(), planted.predicate)).splitlines()
    assert lines[0].startswith("70 minimal") and lines[-1] == "  … and 50 more"


def test_tested_rules_say_no_more_than_was_shown() -> None:
    planted = PlantedAnswer(40, [{1}, {2, 3}])
    rules = CertifiedMiner("retention").mine(planted.engine(), planted.predicate)
    head, first, second, last = str(rules).splitlines()
    assert head.startswith("2 retention rules, all shown to hold for at least 95 % of the subsets")
    assert first.startswith("  when source 1 is kept (at least 95 %, held in ")
    assert second.startswith("  when source 2 and source 3 are kept together (at least 95 %")
    assert last == "  Every other subset lies inside one that fails: no other set always holds."
    assert "whenever" not in str(rules)
    untested = {1: replace(SHOWN, kind="untested", samples=0, successes=0)}
    ended = CertifiedRules("retention", ("a", "b"), (1,), 1, False, "the time is up", untested)
    assert str(ended).splitlines() == [
        "1 retention rule, none shown to hold for at least 95 % of the subsets (uniform over the "
        "subsets of the other sources) with 95 % confidence (1 probe)",
        "  when a is kept (not tested)",
        "  The search ended early (the time is up): there may be more.",
    ]


@pytest.mark.parametrize(
    ("names", "done", "words"),
    [
        (("D1",), "kept", "D1 is kept"),
        (("D1", "D3"), "removed", "D1 and D3 are both removed"),
        (("D1", "D3", "D4", "D5"), "kept", "D1 and D3 to D5 are kept together"),
        (("D1", "D2", "D3"), "removed", "D1 to D3 are all removed"),
    ],
)
def test_a_condition_names_its_sources(names: tuple[str, ...], done: str, words: str) -> None:
    assert condition(names, done) == words
