"""A large folder that was checked once: opened again, it gives the same and reads less."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.assembly import make_pipeline, preset
from rulerag.cache import SETTLED_SECONDS, WORTH_KEEPING, cached_kinds
from rulerag.errors import FingerprintError
from rulerag.io import StoredRecords
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.questions import parse_question
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, StoredRuleBank
from rulerag.types import Document, Fact, Query

DOCUMENTS = 2000
RULE = Rule(Atom("visit", "?x", "?y"), (Atom("call", "?x", "?y"),), True, RuleQuality(support=9))
QUESTION = "Time 2014-06-01 what does town 3 visit ?"


def document(number: int) -> Document:
    fact = Fact(f"town_{number % 50}", ("visit", "call")[number % 2], f"city_{number % 7}", number)
    words = f"{fact.subject} {fact.relation} {fact.object}".replace("_", " ")
    return Document(f"d{number:05}", f"{words}. {'So it was said. ' * 6}", (fact,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A dataset folder that was opened before, with a cache folder of its own."""
    home = tmp_path_factory.mktemp("again")
    queries = [
        Query(f"q{n}", f"what does town {n} visit ?", f"town_{n}", "visit", 9000, prediction=True)
        for n in range(9)
    ]
    RuleQADataset(
        corpus=[document(number) for number in range(DOCUMENTS)],
        queries={"test": queries},
        qrels={"test": {"q1": {"d00001": 1}}},
        rules=RuleBank([replace(RULE, head=RULE.body[0], text=""), RULE]),
        query_sets={"some": ["q1", "q2"]},
        labels={"entities": {f"town_{n}": f"town {n}" for n in range(50)}},
        info=DatasetInfo(calendar={"unit": "day", "origin": "2014-01-01", "step": 1}),
    ).save(home / "data")
    assert (home / "data" / "corpus.jsonl").stat().st_size > WORTH_KEEPING
    time.sleep(SETTLED_SECONDS + 0.1)  # files that were just written are never remembered
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(home / "cache"))
        answers(RuleQADataset.load(home / "data"))
        yield home / "data"


def answers(dataset: RuleQADataset) -> list[object]:
    pipeline = make_pipeline(preset("unused", retriever="bm25"), dataset)
    asked = [*dataset.query_set("full"), parse_question(QUESTION, dataset)]
    return [answer.to_json() for answer in pipeline.answer(asked)]


def test_it_gives_the_same_and_reads_less(folder: Path) -> None:
    again, whole = RuleQADataset.load(folder), RuleQADataset.load(folder, verify=False)
    assert again.rules.for_head("visit") == whole.rules.for_head("visit")
    assert "queries" not in vars(again) and isinstance(again.rules, StoredRuleBank)
    assert list(again.rules._rules._made) == [1]
    assert again.rules.head_relations == whole.rules.head_relations and len(again.rules) == 2
    assert again.queries == whole.queries and again.query_sets == whole.query_sets
    assert list(again.rules) == list(whole.rules) and again.rules.get(RULE.id) == RULE
    assert isinstance(again.corpus, StoredRecords) and isinstance(whole.corpus, list)
    assert answers(again) == answers(whole)
    assert 0 < len(again.corpus._made) < DOCUMENTS / 5
    assert list(again.corpus) == whole.corpus and again.corpus[-2:] == whole.corpus[-2:]
    assert again.fingerprint == whole.fingerprint and again.manifest == whole.manifest
    assert again.rules.fingerprint == whole.rules.fingerprint
    assert dict(again.qrels()) == whole.qrels()
    assert again.qrels_for(again.query_set("full")) == {"q1": {"d00001": 1}}


def test_nothing_is_worked_out_a_second_time(folder: Path) -> None:
    before = {one.kind: one.files for one in cached_kinds()}
    assert before["bm25"] == 1 and before["datasets"] > 1
    answers(RuleQADataset.load(folder))
    assert {one.kind: one.files for one in cached_kinds()} == before


def test_one_changed_byte_is_seen(folder: Path) -> None:
    path = folder / "corpus.jsonl"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"said", b"Said", 1))
    with pytest.raises(FingerprintError, match=r"corpus\.jsonl"):
        RuleQADataset.load(folder)
