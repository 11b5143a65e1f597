"""Prompts without rules on the five benchmarks' graphs: the mark and the asked relation show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rulerag.generation.prompts.template import PromptTemplate
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.ruleqa.questions import queries_from_facts
from rulerag.ruleqa.settings import GRAPHS
from rulerag.types import GenerationRequest

QUERIES = 200


LARGE = {"fb15k237", "nell995"}
"""Graphs that take seconds to read; the others show the law."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else []) for n in GRAPHS.values()],
)
def test_without_rules_the_pattern_is_the_mark_and_the_relation(
    name: str, graph_folder: Callable[[str], Path]
) -> None:
    graph = KnowledgeGraph.load(graph_folder(name))
    words = Verbalizer(graph)
    rows = np.random.default_rng(0).permutation(len(graph.test))[:QUERIES]
    asked = graph.test.select(np.sort(rows))
    stated = {document.facts[0].subject: document for document in words.corpus(asked)}
    for query in queries_from_facts(asked, words, "q"):
        assert query.text.endswith(f"what does {query.subject_words} {query.relation_words} ?")
        request = GenerationRequest(query, (stated[query.subject],))
        for template in (
            PromptTemplate.of("compact"),
            PromptTemplate.of("compact").without_rules(),
        ):
            _, pattern, document, _ = template.render(request).text.splitlines()
            assert pattern == f"> @ {query.relation_words}"
            assert query.subject_words not in pattern
            assert document.startswith("= @ ")
