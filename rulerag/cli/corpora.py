"""Commands about corpora: ``index`` and ``retrieve``, and questions to texts of one's own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from rulerag.assembly import make_pipeline, open_dataset
from rulerag.cli.common import (
    CORPUS,
    Output,
    PipelineOptions,
    QueryRun,
    RayOptions,
    RetrievalOptions,
    check_outputs,
    choose_queries,
    open_corpus,
    over_index,
    percent,
    refuse_prose,
    say,
    show_progress,
    spread,
)
from rulerag.composition import retriever_name
from rulerag.errors import ConfigError, OutputError
from rulerag.io import check_folder, read_json, read_records, write_jsonl
from rulerag.kg import KnowledgeGraph
from rulerag.linking import link_mentions
from rulerag.ruleqa import DatasetInfo, RuleQADataset, is_benchmark, read_benchmark
from rulerag.texts import ChunkSettings, read_texts
from rulerag.types import Document, Query, ScoredDocument, entities_of

# How a language model is asked about texts of one's own.
_PROSE = {"template": "open", "dtype": "fast", "max_new_tokens": 64}
MILVUS = "http://localhost:19530"
"""The address of a Milvus of this machine."""
# Retrievers that keep an index on disk, and the options that each takes.
_OPTIONS = {
    "bm25": ("dates",),
    "lucene": ("dates",),
    "dense": ("encoder", "kind", "vectors", "ray"),
    "milvus": ("encoder", "kind", "vectors", "ray"),
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts become documents.

    Args:
        words: of texts: a longer paragraph is cut into chunks of so many words.
        overlap: of texts: words that chunks have in common.
        kg: a graph whose entities are looked for in documents without facts.
    """

    words: int = 200
    overlap: int = 40
    kg: Path | None = None

    @property
    def chunks(self) -> ChunkSettings:
        """How long documents may be."""
        return ChunkSettings(self.words, self.overlap)


def index(
    corpus: Path,
    /,
    *,
    out: Output,
    retriever: str = "bm25",
    dates: str | None = None,
    encoder: str | None = None,
    kind: str | None = None,
    vectors: str | None = None,
    how: TextOptions = TextOptions(),
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Build an index that `--index` opens; of texts of your own, it keeps the texts too.

    Args:
        corpus: a dataset folder, a benchmark (BEIR, FlashRAG, HotpotQA …), or a file or folder of
            texts: Markdown, HTML, PDF, text, .jsonl.
        out: the index folder to write.
        retriever: bm25, lucene, dense, or milvus (dense, in a Milvus).
        dates: token, split or drop (default bm25: token, lucene: split).
        encoder: of dense retrieval: a folder or Hub name (default: the one installed).
        kind: of a dense index, FAISS's: Flat (default), HNSW32, IVF1024,SQ8 …; of milvus its
            address or file: http://host:19530 (default: of this machine), x.db, x.db#HNSW,M=16.
        vectors: of a dense index: where `rulerag encode` wrote the vectors.
        how: how texts become documents.
        cluster: where a corpus is encoded (dense).
        quiet: no progress bars.

    Example:
        rulerag index runs/ruleqa-i --retriever lucene --out index
    """
    settings = {"dates": dates, "encoder": encoder, "kind": kind, "vectors": vectors}
    _check_index(retriever, ray=cluster.ray, **settings)
    if out.is_file():
        raise OutputError("is a file", path=out, hint="name a new or empty folder")
    check_folder(out)
    stored = (corpus / "manifest.json").is_file()
    own = not (stored or is_benchmark(corpus))
    documents = open_corpus(corpus) if stored and not how.kg else read_documents(corpus, how)
    if retriever == "milvus":
        retriever, settings["kind"] = "dense", kind or MILVUS
    names = {"kind": "index"}
    options: dict[str, Any] = {
        names.get(key, key): value for key, value in settings.items() if value is not None
    }
    started = time.perf_counter()
    if retriever == "dense" and (backend := cluster.backend()):
        options["backend"] = backend.with_gpus()
    _build(retriever, documents, out, progress=show_progress(quiet), **options)
    seconds = time.perf_counter() - started
    if own:
        write_jsonl(out / CORPUS, (document.to_json() for document in documents))
    say(f"{len(documents):,} documents indexed in {seconds:.1f} s → {out}")


def encode(
    corpus: str,
    /,
    *,
    out: str,
    encoder: str | None = None,
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Write the vectors of a corpus of any size, for `index --vectors` or an engine of your own.

    A file of ids and vectors for each slice of the corpus; a rerun goes on where one was ended.

    Args:
        corpus: a .parquet or .jsonl file, or a folder of them, of `id` and `text`; or a dataset
            folder. A path, or an address such as s3://bucket/corpus.
        out: the folder to write, a path or an address.
        encoder: a folder or Hub name (default: the one installed).
        cluster: where it is encoded.
        quiet: no progress bars.

    Example:
        rulerag encode corpus.parquet --out s3://bucket/vectors --ray 10.0.0.7:6379
    """
    from rulerag.retrieval.dense import encode_files
    from rulerag.retrieval.dense.encoders import NANO_ENCODER

    started = time.perf_counter()
    backend, progress = cluster.backend(), show_progress(quiet)
    made = encode_files(corpus, out, encoder or NANO_ENCODER, backend=backend, progress=progress)
    seconds = time.perf_counter() - started
    say(f"{made.documents:,} documents encoded to {made.shards:,} files in {seconds:.1f} s → {out}")


def _check_index(retriever: str, **options: str | None) -> None:
    """Raise a ConfigError for a retriever without an index, or an option that it does not take."""
    if retriever not in _OPTIONS:
        hint = "bm25, lucene, dense or milvus"
        raise ConfigError(f"{retriever!r} keeps no index on disk", key="retriever", hint=hint)
    for key, value in options.items():
        if value is not None and key not in _OPTIONS[retriever]:
            hint = f"--retriever {' or '.join(one for one in _OPTIONS if key in _OPTIONS[one])}"
            raise ConfigError(f"means nothing to {retriever}", key=key, hint=hint)


def _build(retriever: str, documents: Sequence[Document], out: Path, **options: Any) -> None:
    """Build an index; loads only what this one needs."""
    if retriever == "bm25":
        from rulerag.retrieval.lexical import BM25Retriever

        BM25Retriever(documents, **options).save(out)
    elif retriever == "lucene":
        from rulerag.retrieval.lexical import LuceneRetriever

        LuceneRetriever.build(documents, out, **options).close()
    else:
        from rulerag.retrieval.dense import open_dense

        open_dense(documents, **options).save(out)


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


def open_texts(question: str, options: PipelineOptions) -> QueryRun:
    """A question, and the pipeline over an index of texts of one's own.

    Args:
        question: the question, searched for as it is.
        options: how documents are found and read; with the index.

    Raises:
        ConfigError: an index that keeps no texts, rules, or a reader that cannot read prose.
    """
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
    config = chosen.config(folder, rules="none", model_settings=_PROSE)
    queries = [Query("question", question)]
    info = DatasetInfo(name=folder.name)
    dataset = RuleQADataset(corpus=open_corpus(folder), queries={"test": queries}, info=info)
    pipeline = make_pipeline(config, dataset, index=folder, keep_union=False)
    return QueryRun(config, dataset, queries, pipeline)


def retrieve(
    dataset: Path,
    /,
    *,
    out: Output,
    options: RetrievalOptions = RetrievalOptions(),
    union: bool = False,
    limit: int | None = None,
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Run retrieval for the queries of a dataset.

    Args:
        dataset: a dataset folder, or an experiment file.
        out: the TREC run to write.
        options: how documents are found.
        union: write the untrimmed union of every rule's top k.
        limit: only the first N queries.
        cluster: where queries are searched.
        quiet: no progress bars.

    Example:
        rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec
    """
    from rulerag.retrieval.base import write_run

    check_outputs(out)
    config = options.config(dataset, rules="none")
    data = open_dataset(config)
    queries = choose_queries(data, config, limit=limit)
    data = over_index(data, options.index, config)
    progress, depth = show_progress(quiet), config.read("top_k", int, 10)
    backend = cluster.backend()
    pipeline: Any = (
        make_pipeline(config, data, index=options.index, progress=progress)
        if backend is None
        else spread(config, data, backend, index=options.index, progress=progress)
    )
    started = time.perf_counter()
    found = pipeline.retrieve(queries, union=union)
    seconds = time.perf_counter() - started
    tag = retriever_name(config.section("retriever"))
    write_run(out, {q.id: docs for q, docs in zip(queries, found, strict=True)}, tag=tag)
    mean = sum(map(len, found)) / len(queries)
    say(
        f"{len(queries):,} queries in {seconds:.1f} s, {mean:.1f} documents each"
        f"{_recall(queries, found) or _judged(data, queries, found, depth)} → {out}"
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
