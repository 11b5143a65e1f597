"""Texts as vectors: encoders, stored embeddings, FAISS."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.retrieval.dense.embeddings import embed_corpus
    from rulerag.retrieval.dense.faiss_index import normalized
    from rulerag.retrieval.dense.retriever import DenseRetriever, open_dense
else:
    __getattr__ = front_door(__name__)
