"""Commands about corpora: ``index`` and ``retrieve``, and questions to texts of one's own."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.assembly import Options, make_pipeline
from rulerag.cli.common import (
    EncoderOption,
    LimitOption,
    Opened,
    PipelineOptions,
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
from rulerag.composition import Config, retriever_name
from rulerag.errors import ConfigError, DataError, EmptyDataError, OutputError
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.io import check_folder, read_json, read_records, read_text, write_jsonl
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.types import Document, Query, ScoredDocument


def index(
    corpus: Annotated[
        Path,
        typer.Argument(
            help="a dataset folder, a .jsonl file of documents, a text file or a folder of these"
        ),
    ],
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
    """Build an index that `--index` opens; of texts of your own, it keeps the texts too."""
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
    own = not (corpus / "manifest.json").is_file()
    documents = _documents(corpus)
    started = time.perf_counter()
    _BUILDERS[retriever](documents, out, progress=show_progress(quiet), **options)
    seconds = time.perf_counter() - started
    if own:
        write_jsonl(out / CORPUS, (document.to_json() for document in documents))
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


CORPUS = "corpus.jsonl"
"""The documents, in a dataset and in an index of texts of one's own."""

_PROSE = {"template": "open", "dtype": "fast", "max_new_tokens": 64}
_TEXTS = (".txt", ".md", ".rst")
_BUILDERS: dict[str, Callable[..., None]] = {"bm25": _bm25, "lucene": _lucene, "dense": _dense}


def _documents(corpus: Path) -> list[Document]:
    """The documents of a dataset, of a file of records, or the paragraphs of texts."""
    if not corpus.exists():
        raise DataError(
            "no such corpus", path=corpus, hint="give a dataset folder, a file or a folder of texts"
        )
    file = corpus / CORPUS if corpus.is_dir() else corpus
    if file.is_file() and ".jsonl" in file.suffixes:
        numbers = count(1)
        return read_records(file, lambda row: Document.from_json(_numbered(row, next(numbers))))
    files = sorted(corpus.rglob("*")) if corpus.is_dir() else [corpus]
    texts = [file for file in files if file.suffix.lower() in _TEXTS]
    if not texts:
        raise EmptyDataError(
            "no document is there",
            path=corpus,
            hint=f"texts end in {', '.join(_TEXTS)}; save PDF and HTML as text first",
        )
    others = Counter(file.suffix or "no ending" for file in files if file.is_file())
    others.subtract(file.suffix for file in texts)
    if left := ", ".join(f"{number} {ending}" for ending, number in others.items() if number):
        say(f"not read, as texts end in {', '.join(_TEXTS)}: {left}")
    documents = [
        document
        for file in texts
        for document in _paragraphs(file, file.relative_to(corpus) if corpus.is_dir() else None)
    ]
    if not documents:
        raise EmptyDataError("holds no text", path=corpus, hint="every text file is empty")
    return documents


def _numbered(row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """A record with an id, as records of one's own often have none."""
    return row if "_id" in row else {**row, "_id": f"d{number:06d}"}


def _paragraphs(file: Path, place: Path | None) -> Iterator[Document]:
    """The paragraphs of a file; a heading goes with the paragraph below it."""
    name = str(place or file.name)
    heading = ""
    blocks = re.split(r"\n\s*\n", read_text(file).removeprefix("\ufeff").replace("\r\n", "\n"))
    for number, block in enumerate(filter(None, map(str.strip, blocks)), start=1):
        if block.startswith("#") and "\n" not in block:
            heading = block.lstrip("# ")
            continue
        text = " ".join(block.split())
        title = f"{name}: {heading}" if heading else name
        yield Document(f"{'_'.join(name.split())}#{number}", text, title=title)


def open_own(question: str, options: PipelineOptions) -> Opened:
    """A question, and the pipeline over an index of texts of one's own.

    Args:
        question: the question, searched for as it is.
        options: how it is opened; with the index.

    Raises:
        ConfigError: no question, an index that keeps no texts, rules, or a reader that cannot read
            prose.
    """
    started = time.perf_counter()
    folder = options.index
    assert folder is not None  # noqa: S101 - its callers ask
    if not (folder / CORPUS).is_file() or (folder / "queries.jsonl").is_file():
        raise ConfigError(
            "is no index of texts",
            path=folder,
            key="index",
            hint="for an index of a dataset, name that too: --dataset FOLDER; texts are indexed by "
            "`rulerag index TEXTS --out FOLDER`",
        )
    if options.rules not in (None, "none"):
        raise ConfigError(
            "texts state no facts that rules could follow",
            key="rules",
            hint="leave it out, or ask a dataset of a graph: `rulerag ruleqa build`",
        )
    if str(options.generator) == NANO_LLAMA:
        raise ConfigError(
            f"{NANO_LLAMA} reads statements of facts, not prose",
            key="generator",
            hint="name a language model, such as smollm2-135m-instruct (`rulerag models list`)",
        )
    kind = str(read_json(folder / "manifest.json").get("kind"))
    chosen = replace(options, retriever=options.retriever or kind, rules="none")
    config = chosen.config(folder, rules="none")
    generator = config.section("generator").to_dict()
    if generator.keys() == {"type", "model"}:  # a model by its name: prompts for any question
        config = Config({**config.to_dict(), "generator": {**generator, **_PROSE}})
    corpus = read_records(folder / CORPUS, Document.from_json)
    query = Query("question", question)
    dataset = RuleQADataset(
        corpus=corpus, queries={"test": [query]}, info=DatasetInfo(name=folder.name)
    )
    pipeline = make_pipeline(config, dataset, Options(index=folder, keep_union=False))
    return Opened(config, dataset, [query], pipeline, time.perf_counter() - started)


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
