"""The public API: sorted, light, and true."""

from __future__ import annotations

import importlib
import inspect

import pytest

import rulerag

# The names that others rely on. What is still to come stands in LATER and moves out of it with the
# work that brings it; a name can neither vanish nor arrive unnoticed.
CONTRACT = {
    "AmieMiner",
    "BM25Retriever",
    "CertifiedMiner",
    "DenseRetriever",
    "DualMiner",
    "HuggingFaceGenerator",
    "KnowledgeGraph",
    "LuceneRetriever",
    "MonoMiner",
    "OpenAICompatibleGenerator",
    "ProbeEngine",
    "Rule",
    "RuleBank",
    "RuleGuidedRetriever",
    "RuleQADataset",
    "RuleRAGPipeline",
    "SymbolicReader",
    "SymbolicRetriever",
    "TLogicMiner",
}
LATER: set[str] = set()


def test_the_public_list_is_sorted_and_without_repeats() -> None:
    assert rulerag.__all__ == sorted(set(rulerag.__all__))


def test_the_contract_is_kept() -> None:
    assert CONTRACT - set(rulerag.__all__) == LATER


@pytest.mark.parametrize("name", rulerag.__all__)
def test_a_public_name_is_what_its_module_defines(name: str) -> None:
    value = getattr(rulerag, name)
    assert inspect.isclass(value) or inspect.isfunction(value)
    assert value.__name__ == name
    assert value.__module__.startswith("rulerag.")
    assert inspect.getdoc(value), "a public name says what it is"
    home = importlib.import_module(value.__module__)
    assert getattr(home, name) is value
    exported = getattr(home, "__all__", None)
    assert exported is None or name in exported


def test_the_names_are_listed_and_imported_by_a_star() -> None:
    assert set(rulerag.__all__) <= set(dir(rulerag))
    namespace: dict[str, object] = {}
    exec("from rulerag import *", namespace)
    assert set(rulerag.__all__) <= set(namespace)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rulerag' has no attribute 'Retreiver'"):
        _ = rulerag.Retreiver
    assert not hasattr(rulerag, "numpy")
