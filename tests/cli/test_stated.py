"""A corpus of one's own with mined rules: what a document states is never overruled in silence."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

FIRMS = {"Bosch": "Stuttgart", "Zeiss": "Jena", "Galp": "Lisbon", "Audi": "Ingolstadt"}
LIVES, WORKS = "what does Anna Meyer lives in ?", "what does Anna Meyer works for ?"
WAYS = {
    "guided": (),
    "fusion": ("--fusion", "rrf"),
    "symbolic": ("--retriever", "symbolic"),
    "no rules": ("--rules", "none"),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everybody lives where the employer is based and most studied there; Anna moved away."""
    chance = random.Random(0)
    facts = [Fact(firm, "is based in", city) for firm, city in FIRMS.items()]
    facts += [
        Fact("Anna Meyer", "works for", "Bosch"),
        Fact("Anna Meyer", "lives in", "Lisbon"),
        Fact("Anna Meyer", "studied in", "Stuttgart"),
    ]
    for number in range(80):
        person, firm = f"Person {number}", chance.choice(list(FIRMS))
        facts += [Fact(person, "works for", firm), Fact(person, "lives in", FIRMS[firm])]
        if number % 5:
            facts.append(Fact(person, "studied in", FIRMS[firm]))
    chance.shuffle(facts)
    graph = KnowledgeGraph.from_facts([fact[:3] for fact in facts], name="people")
    folder = tmp_path_factory.mktemp("corpus") / "people"
    RuleQADataset(
        corpus=[Document(f"d{n}", f"{' '.join(f[:3])}.", (f,)) for n, f in enumerate(facts)],
        queries={
            "test": [
                Query("lives", LIVES, "Anna Meyer", "lives in"),
                Query("works", WORKS, "Anna Meyer", "works for"),
            ]
        },
        rules=AmieMiner(max_atoms=3, min_head_size=1).mine(graph.train),
        info=DatasetInfo("people"),
    ).save(folder)
    return folder


def answer_of(rulerag: Any, out: Path, *command: object) -> tuple[dict[str, Any], str]:
    result = rulerag("answer", *command, "--out", out, "--quiet")
    assert (result.code, result.err) == (0, "")
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    return row, result.out


@pytest.mark.parametrize("way", list(WAYS))
def test_the_stated_answer_is_given_and_the_rules_against_it_are_shown(
    people: Path, rulerag: Any, tmp_path: Path, way: str
) -> None:
    options = (*WAYS[way], "--generator", "candidate" if way == "fusion" else "symbolic")
    row, text = answer_of(rulerag, tmp_path / "a.jsonl", LIVES, "--dataset", people, *options)
    assert row["answer"] == "Lisbon"
    assert row["documents"][0]["text"] == "Anna Meyer lives in Lisbon."
    first = row["documents"][0]["id"]
    assert row["stated"]["answers"] == [{"answer": "Lisbon", "documents": [first], "time": None}]
    assert "\n  Lisbon is stated in [1]\n" in text
    if way != "no rules":
        (against,) = [r for r in row["stated"]["rules"] if r["verdict"] == "contradicts"]
        assert against["answer"] == "Stuttgart" and row["stated"]["conflict"]
        assert re.search(r"contradicts? what is stated: Stuttgart \(by \[", text)


def test_of_a_benchmark_one_may_ask_what_its_documents_state(
    people: Path, rulerag: Any, tmp_path: Path
) -> None:
    known = RuleQADataset.load(people)
    parts = {"corpus": known.corpus, "queries": known.queries, "rules": known.rules}
    folder, out = tmp_path / "benchmark", tmp_path / "a.jsonl"
    RuleQADataset(**parts, info=DatasetInfo("b"), prediction=True).save(folder)  # type: ignore[arg-type]
    row, _ = answer_of(rulerag, out, LIVES, "--dataset", folder)
    assert row["answer"] == "Stuttgart", "in the form of its questions it is a prediction"
    row, text = answer_of(rulerag, out, "Where does Anna Meyer live?", "--dataset", folder)
    assert row["answer"] == "Lisbon" and "Lisbon is stated in [1]" in text


def test_a_stated_answer_is_explained_by_its_document(
    people: Path, rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "why.jsonl"
    command = ("explain", LIVES, "--dataset", people, "--top-k", 4, "--quiet", "--out", out)
    result = rulerag(*command)
    assert result.code == 0 and "Stated\n  Lisbon is stated in [1]\n" in result.out
    first, *others = json.loads(out.read_text())["statements"]
    assert first == "Lisbon is stated in [1]"
    assert any("contradict what is stated: Stuttgart" in line for line in others)
