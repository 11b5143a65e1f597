"""What was extracted as a folder: a graph, the words behind it, what may contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.extraction import TripleExtractor, read_evidence, write_graph
from rulerag.extraction.folder import contradictions
from rulerag.kg import Calendar, KnowledgeGraph
from rulerag.types import Document, Fact

CALENDAR = Calendar("day", "2020-01-01")


def extracted(folder: Path, texts: list[str], seeds: list[Fact]) -> list[Document]:
    """The documents of a graph folder made of texts."""
    documents = [Document(f"d#{n}", text) for n, text in enumerate(texts, start=1)]
    extractor = TripleExtractor(seeds, calendar=CALENDAR)
    found = extractor.extract(documents)
    write_graph(folder, found, extractor.calendar, extractor.patterns)
    said = read_evidence(folder, CALENDAR)
    assert said is not None
    return said


def test_a_folder_is_a_graph_with_its_sentences(tmp_path: Path) -> None:
    texts = [f"P{n}x Qu joined Acme{n % 7}z on 2020-01-{n % 28 + 1:02}." for n in range(60)]
    said = extracted(tmp_path, texts, [Fact(f"P{n}x Qu", "joins", f"Acme{n}z", n) for n in (0, 1)])
    graph = KnowledgeGraph.load(tmp_path)
    assert len(graph.train) == 60
    assert {one.facts[0] for one in said} == set(graph.train)
    assert {one.text for one in said} == set(texts)
    assert {one.title for one in said} == {f"d#{n}" for n in range(1, 61)}


def test_a_held_out_fact_does_not_stand_in_the_sentence_of_another(tmp_path: Path) -> None:
    seeds = [Fact("Ann Bo", "joins", "Acme", 0), Fact("Cid Fo", "praises", "Bolt", 1)]
    text = "Ann Bo joined Acme on 2020-01-01 and Cid Fo praised Bolt on 2020-01-02."
    said = extracted(tmp_path, [text, "Dan Bo slept. On 2020-01-05 Dan joined Acme."], seeds)
    assert [(one.id, one.text) for one in said] == [
        ("d#1@0-32", "Ann Bo joined Acme on 2020-01-01"),
        ("d#1@37-70", "Cid Fo praised Bolt on 2020-01-02"),
        ("d#2@28-43", "[Dan Bo] On 2020-01-05 Dan joined Acme."),
    ]
    (tmp_path / "evidence.jsonl").write_text('{"fact": ["a", "b"]}\n')
    with pytest.raises(DataFormatError, match=r"evidence.jsonl, line 1: is no evidence"):
        read_evidence(tmp_path, CALENDAR)
    assert read_evidence(tmp_path / "none", CALENDAR) is None


def test_nothing_found_is_said_with_its_reasons(tmp_path: Path) -> None:
    with pytest.raises(EmptyDataError, match=r"1 × no date is stated"):
        extracted(tmp_path, ["Ann Bo joined Acme."], [Fact("Ann Bo", "joins", "Acme", 0)])
    assert not (tmp_path / "train.csv").exists()


def test_two_objects_at_one_time_and_two_dates_of_one_fact_may_contradict() -> None:
    facts = [Fact(f"p{n}", "works for", f"firm {n % 3}", n) for n in range(12)]
    assert contradictions(facts, CALENDAR) == []
    facts += [Fact("p1", "works for", "firm 2", 1), Fact("p2", "works for", "firm 2", 9)]
    same = {"relation": "works for"}
    assert contradictions([*facts, facts[0]], CALENDAR) == [
        same | {"subject": "p1", "date": "2020-01-02", "objects": ["firm 1", "firm 2"]},
        same | {"subject": "p2", "object": "firm 2", "dates": ["2020-01-03", "2020-01-10"]},
    ]
    # Where many have several, nothing contradicts; of two facts nothing is known.
    facts = [Fact(f"p{n % 6}", "meets", f"q{n}") for n in range(60)]
    assert contradictions(facts, CALENDAR) == []
    assert contradictions([Fact("a", "lives in", "b"), Fact("a", "lives in", "c")], CALENDAR) == []
