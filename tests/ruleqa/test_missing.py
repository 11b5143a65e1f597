"""Questions whose fact is missing: the fact is gone, and its proof is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.cli import main
from rulerag.errors import DataError, EmptyDataError
from rulerag.kg import KnowledgeGraph
from rulerag.kg.grounding import TableIndex
from rulerag.kg.grounding.joins import RulePlans
from rulerag.ruleqa.builder import build_missing, mine
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.missing import complete_facts, inferable_rows
from rulerag.ruleqa.settings import MISSING
from rulerag.synthetic.world import World
from rulerag.types import Query

CHANGES = {"num_queries": 60, "min_head_size": 5}


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return World.generate(1200, kind="static", seed=3).graph


@pytest.fixture(scope="module")
def made(graph: KnowledgeGraph) -> dict[str, RuleQADataset]:
    return build_missing(graph, changes=CHANGES)


def stated(dataset: RuleQADataset, query: Query) -> set[str]:
    facts = (fact for document in dataset.corpus for fact in document.facts)
    asked = query.subject, query.relation, query.timestamp
    return {f.object for f in facts if (f.subject, f.relation, f.timestamp) == asked}


def test_the_fact_is_gone_and_a_rule_still_infers_it(made: dict[str, RuleQADataset]) -> None:
    dataset, complete = made["incomplete"], made["complete"]
    assert len(dataset.queries["test"]) == 12 and not dataset.prediction
    facts = KnowledgeGraph.from_facts([f for d in dataset.corpus for f in d.facts]).train
    plans = RulePlans(list(complete.rules), TableIndex(facts))
    for query in dataset.queries["test"]:
        hard, *easy = query.answers
        assert stated(dataset, query) == set(easy)
        assert stated(complete, query) == {hard, *easy}
        table = plans.ground(query.subject)
        proofs = table.rows[table.answer == facts.entities.id(hard)]
        documents = [{facts.fact(row) for row in proof if row >= 0} for proof in proofs.tolist()]
        judged = {dataset.documents[i].facts[0] for i in dataset.qrels("test")[query.id]}
        assert any(proof <= judged for proof in documents)


def test_variants_ask_the_same_or_others_and_training_shares_none(
    made: dict[str, RuleQADataset],
) -> None:
    one, whole, valid = made.values()
    assert one.queries["test"] == whole.queries["test"]
    assert len(whole.corpus) == len(one.corpus) + 60 and len(valid.corpus) == len(one.corpus)
    asked = [
        {(q.subject, q.relation) for q in dataset.queries[split]}
        for dataset, split in ((one, "test"), (valid, "test"), (one, "f_r"), (one, "f_g"))
    ]
    assert sum(map(len, asked)) == len(set().union(*asked))
    assert one.rules.fingerprint != whole.rules.fingerprint, "mined from what is left"


def test_relations_and_answers_take_turns(graph: KnowledgeGraph) -> None:
    facts = complete_facts(graph)
    rules = mine(facts, MISSING["amie"].model_copy(update=CHANGES))
    rows = inferable_rows(facts, rules, 12, seed=0).tolist()
    assert rows != inferable_rows(facts, rules, 12, seed=1).tolist()
    relations = Counter(facts.fact(row).relation for row in rows)
    assert set(relations.values()) == {3} and len(relations) == 4
    answers = Counter((facts.fact(row).relation, facts.fact(row).object) for row in rows)
    assert set(answers.values()) == {1}


def test_dated_facts_are_inferred_from_earlier_ones() -> None:
    graph = World.generate(1500, kind="temporal", seed=1).graph
    dataset = build_missing(graph, changes={"num_queries": 50})["incomplete"]
    for query in dataset.queries["test"]:
        judged = [dataset.documents[i] for i in dataset.qrels("test")[query.id]]
        assert judged and all(one.timestamp < query.timestamp for one in judged)
        assert query.answers[0] not in stated(dataset, query)


def test_what_is_stated_or_has_no_proof_is_found(made: dict[str, RuleQADataset]) -> None:
    dataset = made["incomplete"]
    query = next(q for q in dataset.queries["test"] if len(q.answers) > 1)
    turned = replace(query, answers=query.answers[::-1])

    def changed(queries: list[Query], qrels: dict[str, dict[str, int]]) -> RuleQADataset:
        parts = {"queries": {"test": queries}, "qrels": {"test": qrels}}
        return RuleQADataset(corpus=dataset.corpus, info=dataset.info, prediction=False, **parts)

    with pytest.raises(DataError, match="the corpus states the answer"):
        check_leakage(changed([turned], {}))
    with pytest.raises(DataError, match="no documents prove the answer"):
        check_leakage(changed([query], {}))
    lonely = KnowledgeGraph.from_facts([(f"a{n}", "r", f"b{n}") for n in range(30)])
    with pytest.raises(EmptyDataError, match="none of 30 facts can be inferred"):
        build_missing(lonely)


def test_the_command_writes_three_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    World.generate(1200, kind="static", seed=3).save(tmp_path / "kg")
    words = ["ruleqa", "build", "--kg", str(tmp_path / "kg"), "--out", str(tmp_path / "out")]
    changes = [f"{key}={value}" for key, value in CHANGES.items()]
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--missing", "--quiet", *changes])
    for name in ("incomplete", "complete", "validation"):
        assert len(RuleQADataset.load(tmp_path / "out" / name).queries["test"]) == 12
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--missing", "--name", "ruleqa-f"])
    assert "goes with neither --name nor --variant" in capsys.readouterr().err
