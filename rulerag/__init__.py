"""Retrieval-augmented generation that follows rules and shows why it answered.

Every public name is imported on first use, so that ``import rulerag`` loads neither torch nor Java.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.composition import register
    from rulerag.errors import RuleRAGError
    from rulerag.explanation.attribution import (
        banzhaf_values,
        leave_one_out,
        linear_surrogate,
        shapley_values,
    )
    from rulerag.explanation.explaining import (
        ExplainSettings,
        Why,
        estimate,
        explain,
        explain_answer,
    )
    from rulerag.explanation.probing import AnswerCache, CachedGenerator, ProbeEngine
    from rulerag.explanation.search import CertifiedMiner, DualMiner, MonoMiner
    from rulerag.explanation.similarity import similarity_attribution
    from rulerag.generation import OpenAICompatibleGenerator, SymbolicReader
    from rulerag.generation.huggingface import HuggingFaceGenerator
    from rulerag.generation.prompts import PromptTemplate
    from rulerag.kg import Calendar, FactTable, KnowledgeGraph, Verbalizer
    from rulerag.kg.grounding import EvidenceModel
    from rulerag.mining.amie import AmieMiner
    from rulerag.mining.temporal import TLogicMiner
    from rulerag.pipeline import RuleRAGPipeline
    from rulerag.retrieval.base import FusedRetriever, TimeAwareRetriever
    from rulerag.retrieval.dense import DenseRetriever
    from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder
    from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
    from rulerag.retrieval.lexical import BM25Retriever, LuceneRetriever
    from rulerag.retrieval.symbolic import SymbolicRetriever
    from rulerag.ruleqa import RuleQADataset, queries_from_facts
    from rulerag.rules import Atom, Rule, RuleBank
    from rulerag.synthetic import World
    from rulerag.types import (
        Answer,
        Completion,
        Document,
        Fact,
        GenerationRequest,
        Query,
        ScoredDocument,
        entities_of,
    )

__version__ = "0.1.0"

__all__ = [
    "AmieMiner",
    "Answer",
    "AnswerCache",
    "Atom",
    "BM25Retriever",
    "CachedGenerator",
    "Calendar",
    "CertifiedMiner",
    "Completion",
    "DenseRetriever",
    "Document",
    "DualMiner",
    "EvidenceModel",
    "ExplainSettings",
    "Fact",
    "FactTable",
    "FusedRetriever",
    "GenerationRequest",
    "HeadRelationSelector",
    "HuggingFaceGenerator",
    "KnowledgeGraph",
    "LuceneRetriever",
    "MonoMiner",
    "OpenAICompatibleGenerator",
    "ProbeEngine",
    "PromptTemplate",
    "Query",
    "Rule",
    "RuleBank",
    "RuleGuidedRetriever",
    "RuleQADataset",
    "RuleRAGError",
    "RuleRAGPipeline",
    "ScoredDocument",
    "SentenceEncoder",
    "SymbolicReader",
    "SymbolicRetriever",
    "TLogicMiner",
    "TimeAwareRetriever",
    "Verbalizer",
    "Why",
    "World",
    "banzhaf_values",
    "entities_of",
    "estimate",
    "explain",
    "explain_answer",
    "leave_one_out",
    "linear_surrogate",
    "load_encoder",
    "queries_from_facts",
    "register",
    "shapley_values",
    "similarity_attribution",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
