"""Texts as vectors: encoders, stored embeddings, FAISS."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.dense.embeddings import embed_corpus as embed_corpus
    from rulerag.retrieval.dense.encoding import encode_files as encode_files
    from rulerag.retrieval.dense.faiss_index import normalized as normalized
    from rulerag.retrieval.dense.retriever import (
        DenseRetriever as DenseRetriever,
        open_dense as open_dense,
    )
else:
    __getattr__ = lazy_names(__name__)
