"""Commands about corpora: ``index`` and ``retrieve``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.cli.common import (
    EncoderOption,
    LimitOption,
    QuietOption,
    RetrievalOptions,
    by_flags,
    check_outputs,
    choose_queries,
    open_pipeline,
    percent,
    say,
    show_progress,
)
from rulerag.composition import retriever_name
from rulerag.errors import ConfigError, DataError, OutputError
from rulerag.io import check_folder, read_records
from rulerag.types import Document, Query, ScoredDocument


def index(
    corpus: Annotated[Path, typer.Argument(help="a dataset folder, or a corpus.jsonl")],
    out: Annotated[Path, typer.Option(help="the index folder to write")],
    retriever: Annotated[str, typer.Option(help="bm25, lucene or dense")] = "bm25",
    dates: Annotated[
        str | None,
        typer.Option(help="token, split or drop (default bm25: token, lucene: split)"),
    ] = None,
    encoder: EncoderOption = None,
    kind: Annotated[
        str | None, typer.Option(help="of a dense index, FAISS's: Flat (default), HNSW32, SQ8 …")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(help="of a dense index: float32 (default), int8 or binary")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="of a dense index: numbers kept of each vector")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Build an index that `rulerag retrieve --index` opens."""
    if retriever not in _BUILDERS:
        raise ConfigError(
            f"{retriever!r} keeps no index on disk", key="retriever", hint="bm25, lucene or dense"
        )
    options: dict[str, Any] = {}
    for key, value, takes in (
        ("dates", dates, ("bm25", "lucene")),
        ("encoder", encoder, ("dense",)),
        ("kind", kind, ("dense",)),
        ("vectors", vectors, ("dense",)),
        ("dimensions", dimensions, ("dense",)),
    ):
        if value is not None and retriever not in takes:
            raise ConfigError(
                f"means nothing to {retriever}", key=key, hint=f"--retriever {' or '.join(takes)}"
            )
        if value is not None:
            options["index" if key == "kind" else key] = value
    if out.is_file():
        raise OutputError("is a file", path=out, hint="name a new or empty folder")
    check_folder(out)
    documents = _documents(corpus)
    started = time.perf_counter()
    _BUILDERS[retriever](documents, out, progress=show_progress(quiet), **options)
    seconds = time.perf_counter() - started
    say(f"{len(documents):,} documents indexed in {seconds:.1f} s → {out}")


def _bm25(documents: list[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.lexical import BM25Retriever

    BM25Retriever(documents, **options).save(out)


def _lucene(documents: list[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.lexical import LuceneRetriever

    LuceneRetriever.build(documents, out, **options).close()


def _dense(documents: list[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.dense import open_dense

    open_dense(documents, **options).save(out)


_BUILDERS: dict[str, Callable[..., None]] = {"bm25": _bm25, "lucene": _lucene, "dense": _dense}


def _documents(corpus: Path) -> list[Document]:
    file = corpus / "corpus.jsonl" if corpus.is_dir() else corpus
    if not file.exists():
        raise DataError(
            "no such corpus", path=file, hint="give a dataset folder or a corpus.jsonl file"
        )
    return read_records(file, Document.from_json)


@dataclass(frozen=True)
class PlainOptions(RetrievalOptions):
    """Those of ``retrieve``, which follows no rules by default."""

    rules: Annotated[
        str | None, typer.Option(help="none (default) or guided; symbolic is always guided")
    ] = None


@by_flags()
def retrieve(
    *,
    dataset: Annotated[Path, typer.Argument(help="a dataset folder, or an experiment file")],
    out: Annotated[Path, typer.Option(help="the TREC run to write")],
    options: PlainOptions,
    union: Annotated[
        bool, typer.Option("--union", help="write the untrimmed union of every rule's top k")
    ] = False,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run retrieval for the queries of a dataset."""
    from rulerag.pipeline import UnionRetriever
    from rulerag.retrieval.base import write_run

    check_outputs(out)
    config = options.config(dataset, rules="none")
    opened = open_pipeline(
        config,
        lambda dataset: choose_queries(dataset, config, limit=limit),
        index=options.index,
        progress=show_progress(quiet),
    )
    queries, engine, depth = opened.queries, opened.pipeline.retriever, opened.pipeline.top_k
    started = time.perf_counter()
    if not union:
        found = engine.retrieve(queries, depth)
    elif isinstance(engine, UnionRetriever):
        found = engine.retrieve_union(queries, depth)
    else:
        raise ConfigError("there is no union without rules", key="union", hint="--rules guided")
    seconds = time.perf_counter() - started
    tag = retriever_name(config.section("retriever"))
    write_run(out, {q.id: docs for q, docs in zip(queries, found, strict=True)}, tag=tag)
    mean = sum(map(len, found)) / len(queries)
    say(
        f"{len(queries):,} queries in {seconds:.1f} s, {mean:.1f} documents each"
        f"{_recall(queries, found)} → {out}"
    )


def _recall(queries: Sequence[Query], found: Sequence[Sequence[ScoredDocument]]) -> str:
    """The answer recall of the queries whose answers are known, in words."""
    from rulerag.evaluation import AnswerMatcher

    matcher = AnswerMatcher()
    ranks = [
        matcher.first_rank([scored.document for scored in documents], query.answers)
        for query, documents in zip(queries, found, strict=True)
        if query.answers
    ]
    if not ranks:
        return ""
    return f", answer recall {percent(sum(rank is not None for rank in ranks) / len(ranks))} %"
