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
        said = bench.answer(session.id).text
        if said in query.answers and _rules(session.state.sources):
            break
    view = explained(bench, session.id)
    assert view.claims[0].retention and "found by rule" in " ".join(view.sentences)
    assert "rules" in bench.picture(view.id, "flow").svg
    every = tuple(row["id"] for row in bench.rules_for("world", query.text))
    bench.change(session.id, Configure(rules_off=every))
    assert bench.answer(session.id).text != said
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


def test_two_ways_beside_each_other(bench: Studio) -> None:
    plain, guided = Way("plain"), Way("guided")
    found = bench.differences("world", plain, guided, most=60)
    assert set(found.means()) >= {"answer_recall@10", "mrr", "exact_match"}
    one, two = found.better[0]
    both = bench.beside("world", one.question, plain, guided)
    assert both.answers == (one.answer or NOTHING, two.answer or NOTHING)
    assert both.accepted == one.answers
    second = {row.second: row for row in both.found if row.second}
    held = [rank for rank, row in sorted(second.items()) if row.holds]
    assert (held or [None])[0] == two.rank
    assert all(row.first or row.second for row in both.found)
    assert any(row.source.found_by for row in second.values())
    off = [rule["id"] for rule in bench.rules_for("world", one.question)]
    without = bench.beside("world", one.question, guided, guided, rules_off=off)
    assert off and not [row for row in without.found if row.source.found_by]
    assert "full" in bench.bench("world").query_sets()
    bank = bench.search_rules("world")
    assert bench.bench("world").examples_of(bank[0]["id"]).looked_at > 0
    read = bench.bench("world").understood(one.question)
    assert (read.exact, read.words, read.refusal) == (True, one.question, "")
    with pytest.raises(UnknownNameError, match="did you mean 'guided'"):
        bench.beside("world", one.question, Way("guidde"), guided)
    with pytest.raises(ConfigError, match="no mined rules"):
        bench.differences("finance", plain, guided)
    with served(create_app(bench)) as url, httpx.Client(base_url=url, timeout=60) as web:
        place, asked = "/api/systems/world", {"question": one.question}
        assert [rule["id"] for rule in web.get(f"{place}/rules", params=asked).json()] == off
        assert web.get(f"{place}/bank").json()[0]["id"] == bank[0]["id"]
        assert web.get("/api/runs").json() == ["one", "two"]


def test_a_question_in_ones_own_words(bench: Studio) -> None:
    opened = bench.bench("world")
    query = opened.dataset.query_set("full")[0]
    asked = f"Can you tell me, for {query.subject_words}: {query.relation_words} what?"
    found = opened.understood(asked)
    assert not found.exact and query.subject_words in found.words and not found.refusal
    session = bench.retrieve(bench.new_session("world", question=asked).id)
    assert session.state.sources and bench.answer(session.id).text
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
    assert run.outcomes == dict.fromkeys(run.outcomes, 1) | {"refused": 0}
    assert set(run.found_by) == {f"r{n}" for n in (1, 2, 3, 4)}
    for wanted, number in (({"outcome": "misled"}, 4), ({"rule": "r2"}, 2), ({"words": "n 3"}, 3)):
        assert [one.query_id for one in run.filtered(**wanted)] == [str(number)]
    with pytest.raises(ConfigError, match="misleading"):
        run.filtered(outcome="misleading")
    assert [one.holds for one in run.documents["4"]] == [True, False]
    pair = run.beside(bench.run("two"))
    assert [one.query_id for one, _ in pair.changed] == ["1"]
    assert pair.moves["right", "ignored"] == 1
    file = tmp_path / "one" / "predictions.jsonl"
    first = file.read_text().splitlines()[0]
    file.write_text(file.read_text() + first.replace('"1"', '"5"', 1) + "\n")
    assert len(bench.run("one").rows) == 5  # a run that grows is read again
    with pytest.raises(DataError):
        read_run(tmp_path)
