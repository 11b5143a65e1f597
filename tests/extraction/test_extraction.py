"""Whole corpora: worlds found again, a model's replies, folders that other commands read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.extraction.study import measured, rules_found, seeds_of
from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.extraction import ModelExtractor, TripleExtractor, read_evidence, write_graph
from rulerag.extraction.language_model import Asked
from rulerag.kg import Calendar, KnowledgeGraph
from rulerag.ruleqa import build
from rulerag.synthetic import World, write_prose
from rulerag.types import Completion, Document, Fact, GenerationRequest


@pytest.fixture(scope="module")
def world() -> World:
    return World.generate(1500, kind="temporal", seed=11, max_body_atoms=1)


@pytest.fixture(scope="module")
def learned(world: World) -> TripleExtractor:
    known = seeds_of(list(world.graph.train), 10, 11)
    extractor = TripleExtractor(known, calendar=world.graph.calendar)
    pages = write_prose(list(world.graph.train), world.graph.calendar, split=11)
    extractor.learn(page.document for page in pages)
    return extractor


@pytest.mark.parametrize(
    ("part", "f1"), [("seen", 0.9), ("new constructions", 0.75), ("unforeseen", 0.75)]
)
def test_facts_and_rules_of_a_world_are_found_again(
    world: World, learned: TripleExtractor, part: str, f1: float
) -> None:
    pages = write_prose(list(world.graph.train), world.graph.calendar, part=part, split=11)
    found = learned.extract([page.document for page in pages], learn=False)
    stated = [one.fact for page in pages for one in page.statements]
    assert measured([t.fact for t in found.triples], stated, learned.facts)["f1"] >= f1
    if part == "seen":
        rules = rules_found(world, [triple.fact for triple in found.triples])
        assert rules["planted"] >= 3
        assert min(rules["precision"], rules["recall"]) >= 0.9
    sentences = {
        (page.document.id, one.span): one.fact for page in pages for one in page.statements
    }
    right = [t for t in found.triples if (t.document_id, t.sentence) in sentences]
    assert len(right) > 0.95 * len(found.triples)
    assert all(t.sentence[0] <= t.span[0] < t.span[1] <= t.sentence[1] for t in right)


def test_facts_and_rules_of_an_undated_world_are_found_again() -> None:
    world = World.generate(5000, kind="static", seed=11, max_body_atoms=1)
    facts, calendar = list(world.graph.train), world.graph.calendar
    extractor = TripleExtractor(seeds_of(facts, 10, 11))
    pages = write_prose(facts, calendar, split=11)
    extractor.learn(page.document for page in pages)
    found = extractor.extract([page.document for page in pages], learn=False)
    read = [triple.fact for triple in found.triples]
    scores = measured(read, facts, extractor.facts)
    assert scores["f1"] >= 0.88
    assert scores["precision"] >= 0.95
    rules = rules_found(world, read)
    assert rules["precision"] == 1
    assert rules["recall"] >= 0.8


def test_measured_leaves_the_seeds_out() -> None:
    a, b, c = (Fact("x", "r", name) for name in "abc")
    assert measured([a, b], [a, c], [a]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert measured([a, b, c], [b, c], [])["f1"] == pytest.approx(0.8)


def test_a_folder_is_a_graph_with_its_sentences(
    world: World, learned: TripleExtractor, tmp_path: Path
) -> None:
    pages = write_prose(list(world.graph.train), world.graph.calendar, split=11)
    found = learned.extract([page.document for page in pages], learn=False)
    report = write_graph(tmp_path, found, learned.calendar, learned.patterns)
    graph = KnowledgeGraph.load(tmp_path)
    assert len(graph.train) == report["facts"] == len({t.fact for t in found.triples})
    said = read_evidence(tmp_path, graph.calendar)
    assert said is not None
    assert {one.facts[0] for one in said} == set(graph.train)
    for one in said:
        for end in one.facts[0][::2]:
            assert str(end) in one.text
    assert any("[" in one.text for one in said)
    dataset = build(None, graph, sources=said)
    texts = {one.text for one in said}
    assert all(document.text in texts for document in dataset.corpus)
    assert dataset.documents[said[0].id].title == said[0].id.partition("@")[0]


def test_a_held_out_fact_does_not_stand_in_the_sentence_of_another(tmp_path: Path) -> None:
    text = "Ann Bo joined Acme on 2020-01-01 and praised Bolt on 2020-01-02. She left Acme."
    seeds = [Fact("Ann Bo", "joins", "Acme", 0), Fact("Ann Bo", "praises", "Bolt", 1)]
    calendar = Calendar("day", "2020-01-01")
    extractor = TripleExtractor(seeds, calendar=calendar)
    write_graph(tmp_path, extractor.extract([Document("d#1", text)]), calendar, extractor.patterns)
    said = read_evidence(tmp_path, calendar)
    assert said is not None
    assert [(one.id, one.text) for one in said] == [
        ("d#1@0-32", "Ann Bo joined Acme on 2020-01-01"),
        ("d#1@37-63", "[Ann Bo] praised Bolt on 2020-01-02"),
    ]
    (tmp_path / "evidence.jsonl").write_text('{"fact": ["a", "b"]}\n')
    with pytest.raises(DataFormatError, match=r"evidence.jsonl, line 1: is no evidence"):
        read_evidence(tmp_path, calendar)
    assert read_evidence(tmp_path / "none", calendar) is None


def test_nothing_found_is_said_with_its_reasons(tmp_path: Path) -> None:
    extractor = TripleExtractor([Fact("Ann Bo", "joins", "Acme", 0)])
    found = extractor.extract([Document("d", "Ann Bo joined Acme.")])
    with pytest.raises(EmptyDataError, match=r"1 × no date is stated"):
        write_graph(tmp_path, found, extractor.calendar, extractor.patterns)
    assert not (tmp_path / "train.csv").exists()
    with pytest.raises(EmptyDataError, match="there is no document"):
        extractor.extract([])


class Replies:
    """A generator that writes what it was given, and says what it read."""

    fingerprint = "replies"

    def __init__(self, *texts: str) -> None:
        self.texts, self.read = list(texts), list[str]()

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.read += [request.query.text for request in requests]
        return [Completion(self.texts.pop(0)) for _ in requests]


def asked(sentence: str) -> Asked:
    choices = {"joins": "Ann joins Acme", "sues": "Ann sues Acme"}
    return Asked("d1", sentence, "Ann", "Acme", choices)


def test_replies_are_kept_and_broken_ones_named(tmp_path: Path) -> None:
    model = Replies(
        'Sure: {"relation": "joins"}', '{"relation": "none"}', "joins", '{"relation": 3}'
    )
    questions = [asked(text) for text in ("Ann entered Acme.", "b", "c", "d")]
    cache = tmp_path / "answers.jsonl"
    extractor = ModelExtractor(model, cache=cache)
    chosen = extractor.choose(questions)
    assert chosen == [{"joins": 1.0}, {}, {}, {}]
    assert extractor.faults == [
        "d1: no JSON: 'joins'",
        "d1: no relation that was asked for: '{\"relation\": 3}'",
    ]
    assert "- joins: Ann joins Acme\n" in model.read[0]
    # A run that was killed in the middle of a line goes on behind it.
    lines = cache.read_text().splitlines(keepends=True)
    cache.write_text("".join(lines[:-1]) + lines[-1][:20])
    again = ModelExtractor(Replies('{"relation": "sues"}'), cache=cache)
    assert again.choose(questions)[:3] == chosen[:3]
    assert again.choose(questions)[3] == {"sues": 1.0}
    assert again.num_asked == 1


def test_a_model_says_what_no_pattern_knows() -> None:
    seeds = [Fact("Ann Bo", "joins", "Acme", 0), Fact("Ann Bo", "joins", "Bolt", 1)]
    text = "Ann Bo joined Acme on 1970-01-01. Ann Bo joined Bolt on 1970-01-02. "
    text += "Ann Bo enrolled in Acme on 1970-01-03."
    extractor = TripleExtractor(seeds)
    model = ModelExtractor(Replies(json.dumps({"relation": "joins"})))
    found = extractor.extract([Document("d", text)], model=model)
    assert [(t.fact.timestamp, t.by) for t in found.triples][-1] == (2, "model: enrol in")
    assert len(extractor.extract([Document("d", text)]).triples) == 2
