"""Corpora of any size to vectors in files: each slice of the corpus becomes one shard.

A shard appears whole or not at all, under a name that the slice decides: a run that was ended
goes on with the slices that have none, and what two workers do twice is there once. Ray Data
carries the numbers of slices alone; texts and vectors go from file to file.
"""

from __future__ import annotations

import importlib
import json
import logging
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Floats
from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    MissingDependencyError,
    OutputError,
)
from rulerag.io import fingerprint_object
from rulerag.retrieval.base import indexed_text
from rulerag.retrieval.dense.encoders import EncoderSettings, SentenceEncoder, load_documents_side
from rulerag.types import Document

if TYPE_CHECKING:
    from rulerag.parallel import RayBackend

ROWS, _BYTES = 1024, 1 << 18
"""Of a slice: rows of a Parquet file, or bytes of a JSONL file."""
# Characters of a batch, padding included: some 32,000 tokens, or 1,000, which a CPU's caches hold.
_AT_ONCE, _AT_ONCE_ON_CPU = 64 * 512 * 4, 4096
_ABOUT, _CUT, _TEXTS = "encoding.json", b"truncated", b"texts"
_NO_BAR = tqdm(disable=True)  # who gives one tells of texts that are cut
_SECONDS = 600  # until Ray Data ends a run in which nothing goes on


class Slice(NamedTuple):
    """A part of a corpus file: rows of a Parquet file, or the lines that begin in a byte range."""

    file: str
    start: int
    stop: int


class VectorFiles(NamedTuple):
    """What :func:`encode_files` wrote.

    Args:
        documents: how many.
        shards: files of ``id`` and ``vector``, by whose names they are in the order of the corpus.
        truncated: documents that were longer than the encoder's window.
        encoder: the fingerprint of the encoder.
    """

    documents: int
    shards: int
    truncated: int
    encoder: str


def encode_files(
    corpus: str | Path,
    out: str | Path,
    encoder: str | Path,
    *,
    settings: EncoderSettings | None = None,
    backend: RayBackend | None = None,
    progress: bool = False,
) -> VectorFiles:
    """Encode Parquet or JSONL files to Parquet files of ``id`` and ``vector`` (float32).

    Args:
        corpus: a file, or a folder of .parquet or .jsonl files: a path, or an address that pyarrow
            opens (``s3://…``). Parquet has the columns ``id`` and ``text``, and perhaps ``title``;
            JSONL is BEIR's, as in a dataset folder.
        out: a folder, a path or an address as well, that every worker reaches.
        encoder: a folder or a Hub name, there for every worker.
        settings: how it encodes.
        backend: a Ray cluster whose Ray Data encodes, one model and one device a worker; this
            process when None.
        progress: show a progress bar.

    Raises:
        DataError: there is no such corpus; DataFormatError: it has other columns, or a document
            has no text; names file and row.
        FingerprintError: the folder holds vectors of another corpus or encoder.
        OutputError: the folder cannot be written.
        MissingDependencyError: pyarrow is not installed.
    """
    source, place = _opened(corpus)
    files = _files(source, place, corpus)
    slices = [one for file in files for one in _slices(source, file)]
    if not slices:
        raise EmptyDataError(f"no document is in {corpus}")
    known = load_documents_side(encoder, settings).fingerprint
    system, folder = _opened(out)
    state = fingerprint_object([known, [(one.file[len(place) :], *one[1:]) for one in slices]])
    _check_state(system, folder, state)
    there = _shards(system, folder)
    left = [n for n in range(len(slices)) if _name(n) not in there]
    work = [{"number": n, **slices[n]._asdict()} for n in left]
    with tqdm(total=len(slices), desc="Encode", unit="shard", disable=not progress) as bar:
        bar.update(len(slices) - len(left))
        worker = str(encoder), settings, source, system, folder
        for _ in _encoded(worker, work, backend) if left else ():
            bar.update()
    for name in _inside(system, folder):
        if ".parquet." in name:  # what a killed worker left
            system.delete_file(f"{folder}/{name}")
    read = _pyarrow("parquet").read_metadata
    found = [read(f"{folder}/{_name(n)}", filesystem=system) for n in range(len(slices))]
    cut = sum(int(one.metadata[_CUT]) for one in found)
    written = VectorFiles(sum(one.num_rows for one in found), len(found), cut, known)
    _write(system, f"{folder}/{_ABOUT}", json.dumps({"state": state, **written._asdict()}).encode())
    return written


def open_vectors(
    place: str | Path, encoder: str
) -> tuple[VectorFiles, Iterator[tuple[str, Floats]]]:
    """What :func:`encode_files` wrote; the fingerprint of ids and texts and the vectors of a shard.

    Args:
        place: its folder.
        encoder: the fingerprint that its encoder must have.

    Raises:
        DataError: there is no whole encoding.
        FingerprintError: it is another encoder's.
    """
    system, folder = _opened(place)
    about = _about(system, folder)
    if "documents" not in about:
        raise DataError(f"no whole encoding is in {place}", hint="`rulerag encode` goes on")
    if about["encoder"] != encoder:
        message = f"another encoder gave these vectors ({about['encoder']}, this one is {encoder})"
        raise FingerprintError(message, path=place, hint="name the encoder that they are of")
    del about["state"]
    return VectorFiles(**about), _vectors(system, folder)


def _vectors(system: Any, folder: str) -> Iterator[tuple[str, Floats]]:
    for name in sorted(_shards(system, folder)):
        table = _pyarrow("parquet").read_table(f"{folder}/{name}", filesystem=system)
        flat = table["vector"].combine_chunks().flatten().to_numpy()
        yield table.schema.metadata[_TEXTS].decode(), flat.reshape(table.num_rows, -1)


# --- the work -----


def _encoded(
    worker: tuple[Any, ...], work: Sequence[dict[str, Any]], backend: RayBackend | None
) -> Iterator[Any]:
    """Encode slices; yields as they are done."""
    if backend is None:
        yield from map(_Worker(*worker), work)
        return
    data: Any = importlib.import_module("ray.data")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # A stall is an error: Ray Data waits for half an hour by itself.
    context.execution_no_progress_timeout_s = _SECONDS
    chosen = backend.with_gpus()
    # All of them at once: a pool that may grow stays at one worker where slices are few, and a
    # second slice that waits at one worker is one that another could have.
    pool = data.ActorPoolStrategy(
        size=min(chosen.workers, len(work)), max_tasks_in_flight_per_actor=1
    )
    # A block for each: Ray Data would melt them into one, which one actor works on.
    rows = data.from_items(work, override_num_blocks=len(work))
    device = {"num_cpus": 1, "num_gpus": chosen.gpus}

    done = rows.map(_Worker, fn_constructor_args=worker, compute=pool, **device)
    try:
        yield from done.iter_rows()
    except importlib.import_module("ray").exceptions.RayTaskError as error:
        raise error.cause from error


class _Worker:
    """Encodes slices, with one model on one device."""

    def __init__(
        self, encoder: str, settings: EncoderSettings | None, source: Any, system: Any, folder: str
    ) -> None:
        self._encoder = load_documents_side(encoder, settings)
        self._source, self._system, self._folder = source, system, folder

    def __call__(self, work: dict[str, Any]) -> dict[str, Any]:
        """Write the shard of a slice."""
        arrow, parquet = _pyarrow(), _pyarrow("parquet")
        ids, texts = _read(self._source, Slice(work["file"], work["start"], work["stop"]))
        vectors, cut = _by_tokens(self._encoder, texts)
        flat = arrow.array(vectors.reshape(-1))
        columns = [arrow.array(ids, arrow.string())]
        columns.append(arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]))
        sink = arrow.BufferOutputStream()
        about = {_CUT: str(cut), _TEXTS: fingerprint_object([ids, texts])}
        table = arrow.table(columns, ["id", "vector"]).replace_schema_metadata(about)
        parquet.write_table(table, sink, compression="none")
        _write(self._system, f"{self._folder}/{_name(work['number'])}", sink.getvalue())
        return {"number": work["number"]}


def _by_tokens(encoder: SentenceEncoder, texts: Sequence[str]) -> tuple[Floats, int]:
    """Vectors of texts, in batches of about as many tokens each, and how many were cut."""
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    cut = 0
    room = _AT_ONCE_ON_CPU if encoder.model.device.type == "cpu" else _AT_ONCE
    order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
    while order:
        size = min(len(order), 1024, max(1, room // len(texts[order[0]])))
        encoder.batch_size, rows, order = size, order[:size], order[size:]
        vectors[rows] = encoder.encode([texts[row] for row in rows], bar=_NO_BAR)
        cut += encoder.truncated
    return vectors, cut


# --- files -----


def _pyarrow(module: str = "") -> Any:
    try:
        return importlib.import_module(f"pyarrow.{module}".rstrip("."))
    except ImportError as error:
        raise MissingDependencyError("pyarrow", extra="ray") from error


def _opened(place: str | Path) -> tuple[Any, str]:
    """The file system of a path or an address, and the path there."""
    text = str(place)
    try:
        if "://" in text:
            system, path = _pyarrow("fs").FileSystem.from_uri(text)
            return system, path
        return _pyarrow("fs").LocalFileSystem(), str(Path(text).absolute())
    except (OSError, ValueError) as error:
        raise DataError(f"{place} cannot be opened: {error}") from error


def _files(system: Any, path: str, corpus: str | Path) -> list[str]:
    fs = _pyarrow("fs")
    try:
        info = system.get_file_info(path)
    except OSError as error:
        message = f"{corpus} cannot be read: {error}"
        raise DataError(message, hint="check address and credentials") from error
    if info.type == fs.FileType.NotFound:
        raise DataError(f"no such file or folder: {corpus}")
    if info.type == fs.FileType.File:
        return [path]
    inside = system.get_file_info(fs.FileSelector(path, recursive=False))
    names = sorted(one.path for one in inside if one.is_file)
    own = [name for name in names if name.endswith("/corpus.jsonl")]  # a dataset
    chosen = own or [name for name in names if name.endswith((".parquet", ".jsonl"))]
    if not chosen:
        raise DataError(f"no .parquet or .jsonl file is in {corpus}")
    return chosen


def _slices(system: Any, file: str) -> list[Slice]:
    if file.endswith(".jsonl"):
        size, step = system.get_file_info(file).size, _BYTES
    else:
        try:
            metadata = _pyarrow("parquet").read_metadata(file, filesystem=system)
        except (OSError, ValueError) as error:
            raise DataFormatError(f"is no Parquet file ({error})", path=file) from error
        size, step = metadata.num_rows, ROWS
    return [Slice(file, start, min(start + step, size)) for start in range(0, size, step)]


def _read(system: Any, part: Slice) -> tuple[list[str], list[str]]:
    """The ids and the texts of a slice."""
    documents = _lines(system, part) if part.file.endswith(".jsonl") else _rows(system, part)
    texts = [indexed_text(document) for document in documents]
    for document, text in zip(documents, texts, strict=True):
        if not text.strip():
            raise DataFormatError(f"the document {document.id!r} has no text", path=part.file)
    return [document.id for document in documents], texts


def _lines(system: Any, part: Slice) -> list[Document]:
    documents: list[Document] = []
    with system.open_input_file(part.file) as raw:
        # A line belongs to the slice that it begins in.
        start = max(part.start - 1, 0)
        raw.seek(start)
        data = raw.read(part.stop - start)
        while data and not data.endswith(b"\n") and (more := raw.read(1 << 16)):
            line, end, _ = more.partition(b"\n")
            data += line + end
    begin = data.find(b"\n") + 1 if part.start else 0
    if part.start and not begin:
        return []
    for line in data[begin:].splitlines():
        if line.strip():
            try:
                documents.append(Document.from_json(json.loads(line)))
            except (ValueError, DataFormatError) as error:
                where = f"near byte {part.start:,}"
                raise DataFormatError(f"{where}: {error}", path=part.file) from error
    return documents


def _rows(system: Any, part: Slice) -> list[Document]:
    parquet = _pyarrow("parquet").ParquetFile(part.file, filesystem=system)
    names = [one for one in ("id", "text", "title") if one in parquet.schema_arrow.names]
    if names[:2] != ["id", "text"]:
        message = f"has the columns {', '.join(parquet.schema_arrow.names)}"
        raise DataFormatError(message, path=part.file, hint="`id` and `text` are needed")
    documents: list[Document] = []
    first = 0
    for group in range(parquet.num_row_groups):
        size = parquet.metadata.row_group(group).num_rows
        start, stop = max(part.start - first, 0), min(part.stop - first, size)
        if start < stop:
            table = parquet.read_row_group(group, columns=names).slice(start, stop - start)
            for row in table.to_pylist():
                title = str(row.get("title") or "")
                documents.append(Document(str(row["id"]), str(row["text"] or ""), title=title))
        first += size
    return documents


def _name(number: int) -> str:
    return f"part-{number:07d}.parquet"


def _inside(system: Any, folder: str) -> list[str]:
    selector = _pyarrow("fs").FileSelector(folder, allow_not_found=True)
    return [one.base_name for one in system.get_file_info(selector)]


def _shards(system: Any, folder: str) -> set[str]:
    return {name for name in _inside(system, folder) if name.endswith(".parquet")}


def _about(system: Any, folder: str) -> dict[str, Any]:
    try:
        with system.open_input_file(f"{folder}/{_ABOUT}") as file:
            about: dict[str, Any] = json.loads(file.read())
            return about
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise DataFormatError(f"is no JSON ({error})", path=f"{folder}/{_ABOUT}") from error


def _check_state(system: Any, folder: str, state: str) -> None:
    """Begin an encoding, or see that it is this one that was begun."""
    known = _about(system, folder)
    if not known:
        try:
            system.create_dir(folder, recursive=True)
        except OSError as error:
            raise OutputError(f"cannot be written ({error})", path=folder) from error
        _write(system, f"{folder}/{_ABOUT}", json.dumps({"state": state}).encode())
    elif known.get("state") != state:
        message = "holds vectors of another corpus or encoder"
        raise FingerprintError(message, path=folder, hint="name another folder")


def _write(system: Any, path: str, data: Any) -> None:
    """A file, whole or not at all."""
    working = f"{path}.{uuid.uuid4().hex}"
    try:
        with system.open_output_stream(working) as sink:
            sink.write(data)
        system.move(working, path)
    except OSError as error:
        if system.get_file_info(working).is_file:
            system.delete_file(working)
        raise OutputError(f"cannot be written ({error})", path=path) from error
