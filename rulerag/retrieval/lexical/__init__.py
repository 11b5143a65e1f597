"""Retrieval by words: BM25 in this process, and Lucene."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.lexical.bm25 import BM25Retriever as BM25Retriever
    from rulerag.retrieval.lexical.lucene import LuceneRetriever as LuceneRetriever
else:
    __getattr__ = lazy_names(__name__)
