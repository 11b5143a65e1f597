"""The rule bench: a world that knows its own truth, one rule off; and runs by failure class."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from rulerag.assembly import Options, make_pipeline, preset
from rulerag.errors import ConfigError, DataError, UnknownNameError
from rulerag.evaluation import answer_metrics
from rulerag.studio.benchmarks import Way, compared, read_run
from rulerag.studio.service import Configure, Studio
from rulerag.studio.systems import NOTHING, benchmark_system
from tests.studio.conftest import explained


def test_a_rule_that_is_off_changes_retrieval_answer_and_explanation(bench: Studio) -> None:
    dataset = bench.system("world").benchmark.dataset
    for query in dataset.query_set("full"):
        session = bench.retrieve(bench.new_session("world", question=query.text).id)
        said = bench.answer(session.id)["text"]
        found = {by.rule for source in session.state.sources for by in source.found_by}
        if said in query.answers and len(found) >= 1:
            break
    view = explained(bench, session.id)
    assert view.claims[0].enough
    assert ">rules<" in bench.picture(view.id, "flow").svg
    rules = bench.rules_for("world", query.text)
    every = tuple(row["id"] for row in rules)
    off = bench.change(session.id, Configure(rules_off=every))
    assert bench.answer(session.id)["text"] != said
    off = bench.retrieve(session.id)
    assert not [by for source in off.state.sources for by in source.found_by]
    assert off.state.sources != session.state.sources
    plain = bench.retrieve(session.id, retriever="plain")
    assert not [by for source in plain.state.sources for by in source.found_by]


def test_the_bank_is_searched_and_a_rule_has_examples(bench: Studio) -> None:
    rows = bench.search_rules("world")
    bank = {one.id: one for one in bench.system("world").benchmark.dataset.rules}
    order = [bank[row["id"]].ranking_confidence for row in rows]
    assert order == sorted(order, reverse=True)
    word = rows[0]["head"]["relation"]
    assert all(word in row["text"] for row in bench.search_rules("world", word))
    assert bench.search_rules("world", "no such words") == []
    found = [bench.rule_examples("world", row["id"]) for row in rows[:5]]
    assert any(one["holds"] or one["fails"] for one in found)
    with pytest.raises(ConfigError, match="no rule"):
        bench.rule_examples("world", "nothing")
    with pytest.raises(ConfigError, match="no mined rules"):
        bench.search_rules("finance")


def test_rules_are_shown_by_the_templates_of_the_folder(tmp_path: Path, folder: Path) -> None:
    own = tmp_path / "world"
    shutil.copytree(folder, own)
    (own / "phrases.yaml").write_text("has_lived_in: '{x} knows every street of {y}'\n")
    opened = Studio(tmp_path / "data", benchmarks=[own]).system("world").benchmark
    rules = opened.search("knows every street")
    assert rules and all(rule.text.endswith("then X knows every street of Y") for rule in rules)
    asked = next(q for q in opened.dataset.query_set("full") if q.relation == "has_lived_in")
    assert {rule.text for rule in opened.rules(asked)} <= {rule.text for rule in rules}


def test_where_rules_help_and_hurt_is_what_evaluation_measures(bench: Studio) -> None:
    plain, guided = Way("plain"), Way("guided")
    found = bench.differences("world", plain, guided, most=60)
    opened = bench.system("world").benchmark
    assert found.of == len(opened.dataset.query_set("full")) and len(found.rows) == min(
        60, found.of
    )
    assert found.better, "rules help in a world that is made of them"
    for row in found.better:
        assert row.gain > (0, 0)
        assert row.first.worth != row.second.worth
    gains = [row.gain for row in found.rows]
    assert gains == sorted(gains, reverse=True)
    assert not {row.query_id for row in found.better} & {row.query_id for row in found.worse}
    # The same figures as a pipeline of `rulerag evaluate` reaches, each way.
    by_id = {query.id: query for query in opened.dataset.query_set("full")}
    queries = [by_id[row.query_id] for row in found.rows]
    for side, rules in enumerate(("none", "guided")):
        config = preset(opened.folder, rules=rules, top_k=10)
        answers = make_pipeline(config, opened.dataset, Options(keep_union=False)).answer(queries)
        for name, cutoff in (("answer_recall@1", 1), ("answer_recall@10", 10)):
            ranks = [answer_metrics(one)[name] for one in answers]
            assert found.means((cutoff,))[name][side] == pytest.approx(sum(ranks) / len(ranks))
        exact = [answer_metrics(one)["exact_match"] for one in answers]
        assert found.means()["exact_match"][side] == pytest.approx(sum(exact) / len(exact))
    swapped = bench.differences("world", guided, plain, most=60)
    assert {row.query_id for row in swapped.worse} == {row.query_id for row in found.better}
    assert not bench.differences("world", plain, guided, stopped=lambda: True).rows
    with pytest.raises(UnknownNameError, match="no retriever"):
        bench.differences("world", Way("dense"), guided)
    with pytest.raises(ConfigError, match="no mined rules"):
        bench.differences("finance", plain, guided)


def test_one_question_two_ways(bench: Studio) -> None:
    row = bench.differences("world", Way("plain"), Way("guided"), most=60).better[0]
    both = bench.beside("world", row.question, Way("plain"), Way("guided"))
    assert both.answers == (row.first.answer or NOTHING, row.second.answer or NOTHING)
    assert both.accepted == row.answers
    second = {one.second: one for one in both.found if one.second}
    held = [rank for rank, one in sorted(second.items()) if one.holds]
    assert (held or [None])[0] == row.second.rank
    assert all(one.first or one.second for one in both.found)
    assert any(one.source.found_by for one in second.values())
    off = tuple(one["id"] for one in bench.rules_for("world", row.question))
    without = bench.beside("world", row.question, Way("guided"), Way("guided"), rules_off=off)
    assert not [one for one in without.found if one.source.found_by]


def test_a_question_in_ones_own_words(bench: Studio) -> None:
    opened = bench.system("world").benchmark
    query = opened.dataset.query_set("full")[0]
    asked = f"Can you tell me, for {query.subject_words}: {query.relation_words} what?"
    found = bench.understood("world", asked)
    assert not found.exact
    assert (
        query.relation_words in found.readings[0][0] and query.subject_words in found.readings[0][0]
    )
    session = bench.retrieve(bench.new_session("world", question=asked).id)
    assert session.state.sources and bench.answer(session.id)["text"]
    assert bench.understood("world", query.text).exact
    nobody = bench.understood("world", "Is it?")
    assert nobody.readings == () and bench.rules_for("world", "Is it?") == []


@pytest.mark.skipif(find_spec("faiss") is None or find_spec("torch") is None, reason="extra dense")
def test_two_checkpoints_beside_each_other(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    own = benchmark_system(
        folder, encoders=["rulerag-nano-encoder"], readers=["rulerag-nano-llama"]
    )
    with_models = Studio(tmp_path / "data", systems=[own])
    ways = Way("plain", ""), Way("dense-rulerag-nano-encoder", "")
    found = with_models.differences("world", *ways, most=10)
    assert len(found.rows) == 10 and not any(one.first.answer for one in found.rows)
    question = found.rows[0].question
    guided = Way("dense-rulerag-nano-encoder-guided", "rulerag-nano-llama")
    both = with_models.beside("world", question, Way("guided"), guided)
    assert both.answers[1] and "Symbolic" in both.first and "nano-llama" in both.second
    assert {one.second for one in both.found if one.second} == set(range(1, 11))
    with_models.close()


def test_a_run_is_read_by_failure_class(studio_with_runs: Studio, tmp_path: Path) -> None:
    run, other = studio_with_runs.run("one"), studio_with_runs.run("two")
    assert [one.outcome for one in run.rows] == ["right", "not retrieved", "ignored", "misled"]
    assert run.outcomes == dict.fromkeys(run.outcomes, 1)
    assert [one.query_id for one in run.filtered(outcome="misled")] == ["4"]
    assert [one.query_id for one in run.filtered(rule="r2")] == ["2"]
    assert [one.rank for one in run.rows] == [1, None, 1, 1]
    ids = lambda **wanted: [one.query_id for one in run.filtered(**wanted)]  # noqa: E731
    assert ids(recall="found", k=1) == ["1", "3", "4"] and ids(recall="not found") == ["2"]
    assert ids(match="exact") == ["1"] and ids(match="not exact", recall="found") == ["3", "4"]
    with pytest.raises(ConfigError, match="outcome"):
        run.filtered(outcome="misleading")
    assert run.found_by == {f"r{n}": 1 for n in (1, 2, 3, 4)}
    assert [one.holds for one in run.documents["4"]] == [True, False]
    pair = compared(run, other)
    ((one, two),) = pair.changed()
    assert (one.outcome, two.outcome) == ("right", "ignored")
    assert pair.moves[("right", "ignored")] == 1 and sum(pair.moves.values()) == 4
    with pytest.raises(DataError):
        read_run(tmp_path)
