"""The rule bench: a world that knows its own truth, one rule off; and runs by how they ended."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.assembly import make_pipeline, preset
from rulerag.errors import ConfigError, DataError, UnknownNameError
from rulerag.evaluation import answer_metrics
from rulerag.studio.benchmarks import Way, gain, read_run
from rulerag.studio.service import Configure, Studio
from rulerag.studio.systems import benchmark_system
from rulerag.studio.systems.generators import NOTHING
from rulerag.studio.web import create_app
from tests.studio.conftest import explained, served


def _rules(sources: Any) -> list[str]:
    return [rule for source in sources for rule in source.found_by]


def test_a_rule_that_is_off_changes_retrieval_answer_and_explanation(bench: Studio) -> None:
    for query in bench.bench("world").dataset.query_set("full"):
        session = bench.retrieve(bench.new_session("world", question=query.text).id)
        said = bench.answer(session.id)["text"]
        if said in query.answers and _rules(session.state.sources):
            break
    view = explained(bench, session.id)
    assert view.claims[0].retention and "found by rule" in " ".join(view.sentences)
    assert "rules" in bench.picture(view.id, "flow").svg
    every = tuple(row["id"] for row in bench.rules_for("world", query.text))
    bench.change(session.id, Configure(rules_off=every))
    assert bench.answer(session.id)["text"] != said
    off = bench.retrieve(session.id)
    assert not _rules(off.state.sources) and off.state.sources != session.state.sources
    other = explained(bench, session.id, retriever="plain")
    assert other.state.retriever == "plain" and not _rules(other.state.sources)
    assert "follows no rules" in bench.system("world").about(other.state)
    assert bench.session(session.id).state == off.state, "the session stays as it is"


def test_the_bank_is_searched_and_a_rule_has_examples(bench: Studio) -> None:
    rows, opened = bench.search_rules("world"), bench.bench("world")
    bank = {one.id: one for one in opened.dataset.rules}
    order = [bank[row["id"]].ranking_confidence for row in rows]
    assert order == sorted(order, reverse=True)
    word = rows[0]["head"]["relation"]
    assert all(word in row["text"] for row in bench.search_rules("world", word))
    assert bench.search_rules("world", "no such words") == []
    found = [opened.examples_of(row["id"]) for row in rows[:5]]
    texts = " ".join(one.text for one in opened.dataset.corpus)
    assert any(one.holds for one in found)
    assert all(line.split(" – ")[1] in texts for one in found for line in one.holds)
    with pytest.raises(ConfigError, match="no rule"):
        opened.examples_of("nothing")
    with pytest.raises(ConfigError, match="no mined rules"):
        bench.search_rules("finance")


def test_rules_are_shown_by_the_templates_of_the_folder(tmp_path: Path, folder: Path) -> None:
    own = tmp_path / "world"
    shutil.copytree(folder, own)
    (own / "phrases.yaml").write_text("has_lived_in: '{x} knows every street of {y}'\n")
    opened = Studio(tmp_path / "data", systems=[benchmark_system(own)]).bench("world")
    rules = opened.search("knows every street")
    assert rules and all(rule.text.endswith("then X knows every street of Y") for rule in rules)
    asked = next(q for q in opened.dataset.query_set("full") if q.relation == "has_lived_in")
    assert {rule.text for rule in opened.rules(asked)} <= {rule.text for rule in rules}


def test_where_rules_help_and_hurt_is_what_evaluation_measures(bench: Studio) -> None:
    plain, guided, opened = Way("plain"), Way("guided"), bench.bench("world")
    found = bench.differences("world", plain, guided, most=60)
    queries = opened.dataset.query_set("full")
    assert found.of == len(queries) and len(found.rows) == min(60, found.of)
    assert found.better, "rules help in a world that is made of them"
    gains = [gain(row) for row in found.better]
    assert gains == sorted(gains, reverse=True) and gains[-1] > (0, 0)
    assert not {one.query_id for one, _ in found.better} & {one.query_id for one, _ in found.worse}
    # The same figures as a pipeline of `rulerag evaluate` reaches, each way.
    by_id = {query.id: query for query in queries}
    asked = [by_id[one.query_id] for one, _ in found.rows]
    for side, rules in enumerate(("none", "guided")):
        config = preset(opened.folder, rules=rules, top_k=10)
        answers = make_pipeline(config, opened.dataset, keep_union=False).answer(asked)
        for name in ("answer_recall@1", "answer_recall@10", "exact_match"):
            values = [answer_metrics(one)[name] for one in answers]
            assert found.means()[name][side] == pytest.approx(sum(values) / len(values))
    swapped = bench.differences("world", guided, plain, most=60)
    assert {one.query_id for one, _ in swapped.worse} == {one.query_id for one, _ in found.better}
    assert not bench.differences("world", plain, guided, stopped=lambda: True).rows
    with pytest.raises(UnknownNameError, match="no retriever"):
        bench.differences("world", Way("dense"), guided)


def test_comparing_over_rest(bench: Studio) -> None:
    ways = {"first": {"retriever": "plain"}, "second": {"retriever": "guided"}}
    place = "/api/systems/world"
    with served(create_app(bench)) as url, httpx.Client(base_url=url, timeout=60) as web:
        found = web.post(f"{place}/differences", json={**ways, "most": 60}).json()
        assert set(found["means"]) >= {"answer_recall@10", "mrr", "exact_match"}
        row = found["better"][0]
        asked = {"question": row["question"], **ways}
        both = web.post(f"{place}/beside", json=asked).json()
        assert both["answers"] == [row[side]["answer"] or NOTHING for side in ("first", "second")]
        assert both["accepted"] == row["answers"]
        second = {one["second"]: one for one in both["found"] if one["second"]}
        held = [rank for rank, one in sorted(second.items()) if one["holds"]]
        assert (held or [None])[0] == row["second"]["rank"]
        assert all(one["first"] or one["second"] for one in both["found"])
        assert any(one["source"]["found_by"] for one in second.values())
        rules = web.get(f"{place}/rules", params={"question": row["question"]}).json()
        off = {**asked, "first": ways["second"], "rules_off": [one["id"] for one in rules]}
        without = web.post(f"{place}/beside", json=off).json()
        assert not [one for one in without["found"] if one["source"]["found_by"]]
        assert "full" in web.get(f"{place}/query-sets").json()
        bank = web.get(f"{place}/bank").json()
        assert web.get(f"{place}/bank/{bank[0]['id']}").json()["looked_at"] > 0
        read = web.get(f"{place}/understood", params={"question": row["question"]}).json()
        assert read == {"exact": True, "words": row["question"], "refusal": ""}
        told = web.post(f"{place}/beside", json={**asked, "first": {"retriever": "guidde"}})
        assert told.status_code == 404 and "did you mean 'guided'" in told.json()["message"]
        missing = web.post("/api/systems/finance/differences", json={})
        assert missing.status_code == 422 and "no mined rules" in missing.json()["message"]


def test_a_question_in_ones_own_words(bench: Studio) -> None:
    opened = bench.bench("world")
    query = opened.dataset.query_set("full")[0]
    asked = f"Can you tell me, for {query.subject_words}: {query.relation_words} what?"
    found = opened.understood(asked)
    assert not found.exact and query.subject_words in found.words and not found.refusal
    session = bench.retrieve(bench.new_session("world", question=asked).id)
    assert session.state.sources and bench.answer(session.id)["text"]
    assert opened.understood("Is it?").refusal and bench.rules_for("world", "Is it?") == []


@pytest.mark.skipif(find_spec("faiss") is None or find_spec("torch") is None, reason="extra dense")
def test_two_checkpoints_beside_each_other(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    encoders, readers = ["rulerag-nano-encoder"], ["rulerag-nano-llama"]
    own = benchmark_system(folder, encoders=encoders, readers=readers)
    studio = Studio(tmp_path / "data", systems=[own])
    ways = Way("plain", ""), Way("dense-rulerag-nano-encoder", "")
    found = studio.differences("world", *ways, most=10)
    assert len(found.rows) == 10 and not any(one.answer for one, _ in found.rows)
    guided = Way("dense-rulerag-nano-encoder-guided", "rulerag-nano-llama")
    both = studio.beside("world", found.rows[0][0].question, Way("guided"), guided)
    assert both.answers[1] and "Symbolic" in both.first and "nano-llama" in both.second
    assert {one.second for one in both.found if one.second} == set(range(1, 11))
    studio.close()


def test_a_run_is_read_by_how_its_queries_ended(bench: Studio, tmp_path: Path) -> None:
    run = bench.run("one")
    assert [one.outcome for one in run.rows] == ["right", "not retrieved", "ignored", "misled"]
    assert [one.rank for one in run.rows] == [1, None, 1, 1]
    with served(create_app(bench)) as url, httpx.Client(base_url=url) as web:

        def ids(**wanted: Any) -> list[str]:
            rows = web.get("/api/runs/one", params=wanted).json()["rows"]
            return [row["query_id"] for row in rows]

        assert web.get("/api/runs").json() == ["one", "two"]
        made = web.get("/api/runs/one").json()
        assert made["outcomes"] == dict.fromkeys(run.outcomes, 1) | {"refused": 0}
        assert set(made["rules"]) == {f"r{n}" for n in (1, 2, 3, 4)}
        assert ids(outcome="misled") == ["4"] and ids(rule="r2") == ["2"]
        assert ids(recall="found", k=1) == ["1", "3", "4"] and ids(recall="not found") == ["2"]
        assert ids(match="exact") == ["1"] and ids(words="question 3") == ["3"]
        assert ids(match="not exact", recall="found") == ["3", "4"]
        for wrong in ("outcome=misleading", "recall=maybe", "k=0"):
            assert web.get(f"/api/runs/one?{wrong}").status_code == 422
        documents = web.get("/api/runs/one/queries/4").json()["documents"]
        assert [one["holds"] for one in documents] == [True, False]
        assert web.get("/api/runs/one/queries/9").status_code == 404
        pair = web.get("/api/runs/one/against/two").json()
        assert [row["query_id"] for row in pair["changed"]] == ["1"]
        assert {"from": "right", "to": "ignored", "queries": 1} in pair["moves"]
    file = tmp_path / "one" / "predictions.jsonl"
    first = file.read_text().splitlines()[0]
    file.write_text(file.read_text() + first.replace('"1"', '"5"', 1) + "\n")
    assert len(bench.run("one").rows) == 5  # a run that grows is read again
    with pytest.raises(DataError):
        read_run(tmp_path)
