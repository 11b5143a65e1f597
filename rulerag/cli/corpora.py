"""Commands about corpora: ``index`` and ``retrieve``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import (
    IndexOption,
    LimitOption,
    QuerySetOption,
    QuietOption,
    RetrieverOption,
    RulesOption,
    TopKOption,
    choose_queries,
    open_pipeline,
    percent,
    say,
    show_progress,
)
from rulerag.errors import ConfigError, DataError
from rulerag.types import Document

__all__ = ["index", "retrieve"]


def index(
    corpus: Annotated[Path, typer.Argument(help="a dataset folder, or a corpus.jsonl")],
    out: Annotated[Path, typer.Option(help="the index folder to write")],
    retriever: Annotated[str, typer.Option(help="bm25 or lucene")] = "bm25",
    quiet: QuietOption = False,
) -> None:
    """Build an index that `rulerag retrieve --index` opens."""
    documents = _documents(corpus)
    started = time.perf_counter()
    if retriever == "bm25":
        from rulerag.retrieval.bm25 import BM25Retriever

        BM25Retriever(documents, progress=show_progress(quiet)).save(out)
    elif retriever == "lucene":
        from rulerag.retrieval.lucene import LuceneRetriever

        LuceneRetriever.build(documents, out, progress=show_progress(quiet)).close()
    else:
        raise ConfigError(
            f"{retriever!r} keeps no index on disk", key="retriever", hint="bm25 or lucene"
        )
    seconds = time.perf_counter() - started
    say(f"{len(documents):,} documents indexed in {seconds:.1f} s → {out}")


def _documents(corpus: Path) -> list[Document]:
    from rulerag.io import read_records

    file = corpus / "corpus.jsonl" if corpus.is_dir() else corpus
    if not file.exists():
        raise DataError(
            "no such corpus", path=file, hint="give a dataset folder or a corpus.jsonl file"
        )
    return read_records(file, Document.from_json)


def retrieve(
    dataset: Annotated[str, typer.Argument(help="a dataset folder, or an experiment file")],
    out: Annotated[Path, typer.Option(help="the TREC run to write")],
    retriever: RetrieverOption = "bm25",
    rules: RulesOption = "none",
    top_k: TopKOption = 10,
    query_set: QuerySetOption = "full",
    union: Annotated[bool, typer.Option("--union", help="write the untrimmed union")] = False,
    index: IndexOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run retrieval for the queries of a dataset."""
    from rulerag.evaluation.metrics import AnswerMatcher
    from rulerag.pipeline import UnionRetriever
    from rulerag.retrieval.runs import write_run

    rules = "guided" if retriever == "symbolic" else rules
    opened = open_pipeline(
        dataset,
        retriever=retriever,
        rules=rules,
        query_set=query_set,
        top_k=top_k,
        index=index,
        progress=show_progress(quiet),
    )
    queries = choose_queries(opened.dataset, query_set=query_set, limit=limit)
    engine = opened.pipeline.retriever
    started = time.perf_counter()
    if union and isinstance(engine, UnionRetriever):
        found = engine.retrieve_union(queries, top_k)
    else:
        found = engine.retrieve(queries, top_k)
    seconds = time.perf_counter() - started
    write_run(out, {q.id: docs for q, docs in zip(queries, found, strict=True)}, tag=retriever)
    matcher = AnswerMatcher()
    ranks = [
        matcher.first_rank([s.document for s in docs], q.answers)
        for q, docs in zip(queries, found, strict=True)
    ]
    recall = sum(rank is not None for rank in ranks) / len(queries)
    mean = sum(len(docs) for docs in found) / len(queries)
    say(
        f"{len(queries):,} queries in {seconds:.1f} s, {mean:.1f} documents each, "
        f"answer recall {percent(recall)} % → {out}"
    )
