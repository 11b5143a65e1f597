"""What holds for the chains of every framework, theirs and ours, with the real packages."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rulerag
from rulerag import Query
from rulerag.errors import ConfigError, ExplanationError
from rulerag.integrations import System
from tests.integrations.systems import CONTEXTS, QUESTION, Case

CASES = {
    "langchain": ["chain", "graph", "state"],
    "llama_index": ["compact", "refine", "simple_summarize"],
    "haystack": ["retriever", "ranker"],
    "openinference": ["flat", "nested"],
}
OURS = ["langchain", "llama_index", "haystack"]


def of(framework: str) -> Any:
    """The test module of a framework; skips where that is not installed."""
    return importlib.import_module(f"tests.integrations.test_{framework}")


@pytest.fixture(params=[f"{one}-{kind}" for one, kinds in CASES.items() for kind in kinds])
def case(request: pytest.FixtureRequest) -> Case:
    framework, kind = request.param.split("-")
    return of(framework).case(kind)


def sources(why: Any) -> list[list[str]]:
    return [[why.documents[n].text for n in claim.sources] for claim in why.claims]


def test_a_chain_is_explained_and_left_as_it_was(case: Case) -> None:
    why = rulerag.explain(case.chain, case.question)
    assert (why.text, why.explanation.question) == ("It is Paris.", QUESTION)
    assert sources(why) == [[CONTEXTS[1]]] and case.sentence in str(why).splitlines()[-1]
    found = {one.title: one.text for one in why.documents}
    assert found == {f"T{n}": text for n, text in enumerate(CONTEXTS)}
    searches = len(case.searches)
    assert searches <= 1, "retrieved once"
    assert case.run() == "It is Paris." and len(case.searches) == 2 * searches


@pytest.mark.parametrize("removal", ["delete", "replace"])
def test_documents_with_another_text_stand_in_their_place(case: Case, removal: str) -> None:
    why = rulerag.explain(case.chain, case.question, level="span", removal=removal)
    assert sources(why) == [["Paris is the capital of"]] and len(case.searches) <= 1
    assert ("is neutral text" in str(why).splitlines()[-1]) == (removal == "replace")


def test_explanations_at_once_see_neither_each_other_nor_other_runs(case: Case) -> None:
    with ThreadPoolExecutor(3) as pool:
        both = [pool.submit(rulerag.explain, case.chain, case.question) for _ in range(2)]
        while not all(one.done() for one in both):
            assert case.run() == "It is Paris."
    assert [sources(one.result()) for one in both] == [[[CONTEXTS[1]]]] * 2


@pytest.mark.parametrize("framework", CASES)
def test_a_chain_that_fails_is_named(framework: str) -> None:
    failing = of(framework).case("failing")
    with pytest.raises(ExplanationError, match=r"(failed with|raised) \w+: (?s:.*)no key"):
        rulerag.explain(failing.chain, failing.question)


@pytest.mark.parametrize("framework", OURS)
def test_a_chain_without_a_retriever_is_named(framework: str) -> None:
    unknown = (lambda question: "x"), "function is no chain that is known"
    for chain, message in [unknown, *of(framework).without_documents()]:
        with pytest.raises(ConfigError, match=rf"{message}.*pass them: rulerag\.explain\(lambda"):
            rulerag.explain(chain, QUESTION)


# --- ours ----


@pytest.mark.parametrize("framework", OURS)
def test_ours_are_explained_as_our_pipeline_is(
    framework: str, system: System, query: Query
) -> None:
    wanted = rulerag.explain(system.pipeline, query)
    why = rulerag.explain(of(framework).ours(system), query.text)
    assert why.text == wanted.text and why.claims[0].sources
    assert [one.text for one in why.documents] == [one.text for one in wanted.documents]
    assert all(one.rules for one in why.documents), "rules travel with the documents"
    for one, other in zip(why.claims, wanted.claims, strict=True):
        assert set(one.retention) == set(other.retention)
        assert set(one.omission) == set(other.omission)
    assert "calls of the model" not in str(why), "the reader is no model that they count"


@pytest.mark.parametrize("framework", OURS)
def test_a_question_that_names_nothing(framework: str, system: System) -> None:
    assert of(framework).search(system, "Who is it?") in ([], {"documents": []})
    assert system.answer("Who is it?", []).text.startswith("cannot be answered: nobody known")
