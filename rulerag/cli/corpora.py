"""Commands about corpora: ``index`` and ``retrieve``, and questions to texts of one's own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.assembly import Options, make_pipeline
from rulerag.cli.common import (
    CORPUS,
    EncoderOption,
    LimitOption,
    Opened,
    PipelineOptions,
    QuietOption,
    RetrievalOptions,
    by_flags,
    check_outputs,
    choose_queries,
    open_corpus,
    open_pipeline,
    percent,
    refuse_prose,
    say,
    show_progress,
)
from rulerag.composition import Config, retriever_name
from rulerag.errors import ConfigError, DataFormatError, OutputError
from rulerag.io import (
    StoredRecords,
    check_folder,
    fingerprint_file,
    read_bytes,
    read_json,
    read_records,
    to_json,
    write_jsonl,
)
from rulerag.kg import KnowledgeGraph
from rulerag.linking import link_mentions
from rulerag.ruleqa import DatasetInfo, RuleQADataset, is_benchmark, read_benchmark
from rulerag.texts import ChunkSettings, read_texts
from rulerag.types import Document, Query, ScoredDocument, entities_of


@dataclass(frozen=True)
class TextOptions:
    """How texts become documents."""

    words: Annotated[
        int, typer.Option(help="of texts: a longer paragraph is cut into chunks of so many words")
    ] = 200
    overlap: Annotated[int, typer.Option(help="of texts: words that chunks have in common")] = 40
    kg: Annotated[
        Path | None,
        typer.Option(help="a graph whose entities are looked for in documents without facts"),
    ] = None

    @property
    def chunks(self) -> ChunkSettings:
        """How long documents may be."""
        return ChunkSettings(self.words, self.overlap)


@by_flags()
def index(
    *,
    corpus: Annotated[
        Path,
        typer.Argument(
            help="a dataset folder, a benchmark (BEIR, FlashRAG, HotpotQA …), or a file or folder "
            "of texts: Markdown, HTML, PDF, text, .jsonl"
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
    add: Annotated[
        bool, typer.Option("--add", help="to the index that is there: what is new in the corpus")
    ] = False,
    how: TextOptions,
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
    if add:
        kind = str(_manifest(out).get("kind", retriever))
        _add(corpus, out, kind, options, how, progress=show_progress(quiet))
        return
    if out.is_file():
        raise OutputError("is a file", path=out, hint="name a new or empty folder")
    check_folder(out)
    stored = (corpus / "manifest.json").is_file()
    own = not (stored or is_benchmark(corpus))
    documents = open_corpus(corpus) if stored and not how.kg else read_documents(corpus, how)
    started = time.perf_counter()
    _BUILDERS[retriever](documents, out, progress=show_progress(quiet), **options)
    seconds = time.perf_counter() - started
    if own:
        write_jsonl(out / CORPUS, (document.to_json() for document in documents))
    say(f"{len(documents):,} documents indexed in {seconds:.1f} s → {out}")


def _add(
    corpus: Path, out: Path, kind: str, options: dict[str, Any], how: TextOptions, *, progress: bool
) -> None:
    """Add what is new to an index: of a dataset that has grown, or further texts of one's own.

    Raises:
        ConfigError: the kind of index cannot grow, or an option was decided when it was built.
        DataFormatError: a new document has the id of another text; names it.
    """
    if kind not in _GROWING:
        raise ConfigError(
            f"an index of {kind} cannot grow", key="add", hint="bm25 or dense, or build it anew"
        )
    decided = options.keys() - {"encoder"}
    if decided:
        raise ConfigError(
            "was decided when the index was built", key=sorted(decided)[0], hint="leave it out"
        )
    started = time.perf_counter()
    if (corpus / "manifest.json").is_file():
        # Read and hashed once, up to what is indexed and as a whole.
        indexed = _manifest(out).get("corpus_file") or {}
        known = int(indexed.get("bytes", 0))
        documents = StoredRecords.hashed(corpus / CORPUS, Document.from_json, known)
        added = _GROWING[kind](out, documents, progress=progress, **options)
    else:
        with tempfile.TemporaryDirectory() as place:
            joined = Path(place) / CORPUS
            known = _join_texts(out / CORPUS, read_documents(corpus, how), joined)
            documents = StoredRecords(joined, Document.from_json, fingerprint_file(joined))
            options |= {"beside": {CORPUS: joined}, "progress": progress}
            added = _GROWING[kind](out, documents, **options)
        if known:
            say(f"{known:,} documents were there already")
    seconds = time.perf_counter() - started
    say(f"{added:,} documents added to {len(documents) - added:,} in {seconds:.1f} s → {out}")


def _manifest(index: Path) -> dict[str, Any]:
    """What an index says of itself; nothing where there is none."""
    made = index / "manifest.json"
    stated = read_json(made) if made.is_file() else {}
    return stated if isinstance(stated, dict) else {}


def _join_texts(file: Path, documents: Sequence[Document], joined: Path) -> int:
    """Write the texts of an index and new ones behind them; how many were there already."""
    if not file.is_file():
        raise ConfigError(
            "keeps no texts that others could join",
            path=file.parent,
            key="out",
            hint="an index of a dataset grows with it: name the dataset",
        )
    old = read_bytes(file)
    texts = {one.id: (one.title, one.text) for one in read_records(file, Document.from_json)}
    fresh = [one for one in documents if one.id not in texts]
    for one in documents:
        if texts.get(one.id, (one.title, one.text)) != (one.title, one.text):
            raise DataFormatError(
                f"the document {one.id!r} has another text in the index",
                path=file,
                hint="texts that changed need a new index: leave --add out",
            )
    with open(joined, "wb") as target:
        target.write(old if old.endswith(b"\n") else old + b"\n")
        target.writelines(to_json(one.to_json()).encode() + b"\n" for one in fresh)
    return len(documents) - len(fresh)


def _grow_bm25(out: Path, documents: Sequence[Document], **options: Any) -> int:
    from rulerag.retrieval.lexical import BM25Retriever

    return BM25Retriever.extend(out, documents, **options)


def _grow_dense(out: Path, documents: Sequence[Document], **options: Any) -> int:
    from rulerag.retrieval.dense import extend_dense

    return extend_dense(out, documents, **options)


def _bm25(documents: Sequence[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.lexical import BM25Retriever

    BM25Retriever(documents, **options).save(out)


def _lucene(documents: Sequence[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.lexical import LuceneRetriever

    LuceneRetriever.build(documents, out, **options).close()


def _dense(documents: Sequence[Document], out: Path, **options: Any) -> None:
    from rulerag.retrieval.dense import open_dense

    open_dense(documents, **options).save(out)


_PROSE = {"template": "open", "dtype": "fast", "max_new_tokens": 64}
_GROWING: dict[str, Callable[..., int]] = {"bm25": _grow_bm25, "dense": _grow_dense}
_BUILDERS: dict[str, Callable[..., None]] = {"bm25": _bm25, "lucene": _lucene, "dense": _dense}


def read_documents(corpus: Path, how: TextOptions) -> list[Document]:
    """The documents of a dataset, of a file of records, or the paragraphs of texts.

    Says what was not read, and how many texts mention somebody of the graph.
    """
    own = corpus / CORPUS if corpus.is_dir() else corpus
    foreign = is_benchmark(corpus) and not (corpus / "manifest.json").is_file()
    if foreign:
        documents = list(read_benchmark(corpus).corpus)
    elif corpus.is_dir() and own.is_file():
        documents = read_records(own, Document.from_json)
    else:
        read = read_texts(corpus, how.chunks)
        documents = read.documents
        for line in read.notes():
            say(line)
    if how.kg is None:
        return documents
    graph = KnowledgeGraph.load(how.kg)
    linked = link_mentions(documents, graph_names(graph))
    known = sum(bool(entities_of(document)) for document in linked)
    say(f"{known:,} of {len(linked):,} documents mention somebody of {graph.name!r}")
    return linked


def graph_names(graph: KnowledgeGraph) -> dict[str, tuple[str, ...]]:
    """The label, the raw name and the aliases of each entity of a graph."""
    entities = graph.entities
    return {
        name: tuple(dict.fromkeys((label, name, *entities.aliases.get(name, ()))))
        for name, label in zip(entities.names, entities.labels, strict=True)
    }


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
            "is no index of texts" if folder.exists() else "no such folder",
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
    refuse_prose(options.generator)
    kind = str(read_json(folder / "manifest.json").get("kind"))
    chosen = replace(options, retriever=options.retriever or kind, rules="none")
    config = chosen.config(folder, rules="none")
    generator = config.section("generator").to_dict()
    if generator.keys() == {"type", "model"}:  # a model by its name: prompts for any question
        config = Config({**config.to_dict(), "generator": {**generator, **_PROSE}})
    corpus = open_corpus(folder)
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
        f"{_recall(queries, found) or _judged(opened.dataset, queries, found, depth)} → {out}"
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


def _judged(
    dataset: RuleQADataset,
    queries: Sequence[Query],
    found: Sequence[Sequence[ScoredDocument]],
    depth: int,
) -> str:
    """The measures against the judgements of documents, in words; nothing where there are none."""
    from rulerag.evaluation import qrels_metrics

    rankings = {
        query.id: [scored.document.id for scored in documents]
        for query, documents in zip(queries, found, strict=True)
    }
    measured = qrels_metrics(dataset.qrels_for(queries), rankings, top_k=depth)
    names = {"recall": "recall", "ndcg": "nDCG"}
    return "".join(
        f", {names[name]}@{depth} {percent(measured[f'{name}@{depth}'])} %"
        for name in names
        if measured
    )
