"""Retrieval-augmented generation that follows rules and shows why it answered.

Every public name is resolved on first use, so that ``import rulerag`` loads neither torch nor
Java.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AmieMiner": "rulerag.mining.amie.miner",
    "Answer": "rulerag.types",
    "AnswerCache": "rulerag.explanation.probing.cache",
    "Atom": "rulerag.rules",
    "BM25Retriever": "rulerag.retrieval.lexical.bm25",
    "Calendar": "rulerag.kg.calendar",
    "CachedGenerator": "rulerag.explanation.probing.cache",
    "CertifiedMiner": "rulerag.explanation.source_rules.certified",
    "Completion": "rulerag.types",
    "DenseRetriever": "rulerag.retrieval.dense.retriever",
    "Document": "rulerag.types",
    "DualMiner": "rulerag.explanation.source_rules.exact",
    "EvidenceModel": "rulerag.kg.grounding.evidence",
    "Fact": "rulerag.types",
    "FactTable": "rulerag.kg.graph",
    "HeadRelationSelector": "rulerag.retrieval.guided.selection",
    "FusedRetriever": "rulerag.retrieval.base.fusion",
    "GenerationRequest": "rulerag.types",
    "HuggingFaceGenerator": "rulerag.generation.huggingface.generator",
    "KnowledgeGraph": "rulerag.kg.graph",
    "LuceneRetriever": "rulerag.retrieval.lexical.lucene",
    "MonoMiner": "rulerag.explanation.source_rules.exact",
    "OpenAICompatibleGenerator": "rulerag.generation.openai_compatible",
    "ProbeEngine": "rulerag.explanation.probing.engine",
    "PromptTemplate": "rulerag.generation.prompts.template",
    "Query": "rulerag.types",
    "Rule": "rulerag.rules",
    "RuleBank": "rulerag.rules",
    "RuleGuidedRetriever": "rulerag.retrieval.guided.retriever",
    "RuleQADataset": "rulerag.ruleqa.dataset",
    "RuleRAGError": "rulerag.errors",
    "RuleRAGPipeline": "rulerag.pipeline",
    "ScoredDocument": "rulerag.types",
    "SentenceEncoder": "rulerag.retrieval.dense.encoders.encoder",
    "SymbolicReader": "rulerag.generation.symbolic_reader",
    "SymbolicRetriever": "rulerag.retrieval.symbolic.retriever",
    "TLogicMiner": "rulerag.mining.temporal.miner",
    "TimeAwareRetriever": "rulerag.retrieval.base.time_aware",
    "Verbalizer": "rulerag.kg.verbalization",
    "World": "rulerag.synthetic.world",
    "banzhaf_values": "rulerag.explanation.attribution.values",
    "explain_answer": "rulerag.explanation.report.explain",
    "leave_one_out": "rulerag.explanation.attribution.values",
    "linear_surrogate": "rulerag.explanation.attribution.surrogate",
    "load_encoder": "rulerag.retrieval.dense.encoders.load",
    "queries_from_facts": "rulerag.ruleqa.questions",
    "shapley_values": "rulerag.explanation.attribution.values",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import the module behind a public name."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rulerag' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
