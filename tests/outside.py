"""The public API as a program of somebody else uses it; type checkers read it (test_typing.py)."""

from __future__ import annotations

from pathlib import Path

import rulerag
from rulerag import (
    Document,
    KnowledgeGraph,
    MonoMiner,
    ProbeEngine,
    Query,
    RuleBank,
    RuleQADataset,
    RuleRAGPipeline,
    Why,
)
from rulerag.assembly import make_pipeline, preset
from rulerag.mining.amie import AmieMiner
from rulerag.retrieval.lexical import BM25Retriever


def answer(question: str, documents: list[str]) -> str:
    """A system."""
    return documents[0] if documents else question


def explained(documents: list[str]) -> list[str]:
    """The texts of the claims."""
    why: Why = rulerag.explain(answer, "What?", documents)
    text: str = why.text
    page: str = why.to_html()
    return [text, page[:9], *(claim.text for claim in why.claims)]


def mined(folder: Path) -> RuleBank:
    """Rules, saved and read again."""
    graph: KnowledgeGraph = KnowledgeGraph.load(folder)
    bank: RuleBank = AmieMiner(max_atoms=3).mine(graph.train)
    bank.save(folder / "rules.jsonl")
    confidences: list[float] = [rule.ranking_confidence for rule in bank]
    best: str = bank.for_head(bank.head_relations[0])[0].text
    again = RuleBank.load(folder / "rules.jsonl")
    return again if max(confidences) and best else bank


def answered(folder: Path) -> str:
    """The answer to the first question."""
    dataset: RuleQADataset = RuleQADataset.load(folder)
    pipeline: RuleRAGPipeline = make_pipeline(preset("mine", rules="guided"), dataset)
    query: Query = dataset.query_set("full")[0]
    (found,) = pipeline.answer([query])
    score: float | None = found.completion.score
    return f"{found.text} {score} {[one.document.id for one in found.documents]}"


def searched(texts: list[str]) -> list[str]:
    """Ids, best first."""
    index = BM25Retriever([Document(str(n), text) for n, text in enumerate(texts)])
    (hits,) = index.retrieve([Query("q", "word")], 3)
    return [hit.document.id for hit in hits]


def lattice() -> list[list[int]]:
    """The smallest sets that hold."""
    engine = ProbeEngine.from_function(
        lambda kept: ["yes" if 0 in sources else "no" for sources in kept], num_sources=3
    )
    found = MonoMiner("retention").mine(engine, lambda output: output == "yes")
    return [sorted(one) for one in found.minimal]


async def streamed(documents: list[str]) -> list[str]:
    """Events of an explanation that goes on."""
    why = rulerag.explain(answer, "What?", documents, budget=2)
    return [event.kind async for event in why.stream(budget=5)]
