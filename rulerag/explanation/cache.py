"""Answers kept on disk: what was asked once, by any process, is not asked again.

The key of an answer is what the generator reads (query, rules, the kept text of the documents in
their order) with the generator's fingerprint (model, template, decoding), so that another model or
another prompt never meets an answer that is not its own.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerag.errors import ConfigError, DataFormatError, ExplanationError, OutputError
from rulerag.explanation.probe import request_key
from rulerag.io import to_json
from rulerag.types import Candidate, Completion, GenerationRequest, GroundedAtom

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["FORMAT", "AnswerCache", "CacheTotals", "CachedGenerator", "count_words"]

FORMAT = 1
"""The version of the file's layout; a file of another version is refused."""

_APPLICATION = 0x52524147  # "RRAG", in the header of the file
_PATIENCE = 60.0  # seconds to wait for another process that is writing
_KEYS_A_QUERY = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, generator TEXT NOT NULL, completion TEXT NOT NULL,
    tokens INTEGER NOT NULL, seconds REAL NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class CacheTotals:
    """What the answers in a cache took: how many, their tokens, and the model's seconds."""

    answers: int
    tokens: int
    seconds: float


class AnswerCache:
    """Completions in one SQLite file, safe for several processes and threads.

    Every answer is on disk as soon as it is stored: a run that is killed goes on from there.

    Args:
        path: the file; made when missing.

    Raises:
        DataFormatError: the file is no cache of answers, or of another format version.
        OutputError: the file cannot be opened or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with self._open() as connection:
            self._check_format(connection)

    def load(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions among some keys."""
        found: dict[str, Completion] = {}
        with self._open() as connection:
            for start in range(0, len(keys), _KEYS_A_QUERY):
                part = keys[start : start + _KEYS_A_QUERY]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, completion FROM answers WHERE key IN ({marks})", part
                )
                found.update((key, _completion(text)) for key, text in rows)
        return found

    def store(
        self,
        generator: str,
        answers: Sequence[tuple[str, Completion]],
        *,
        tokens: Sequence[int],
        seconds: float,
    ) -> None:
        """Store completions of one batch; one that is there already stays as it is.

        Args:
            generator: the generator's fingerprint, for people who look into the file.
            answers: keys and completions.
            tokens: how many tokens each took.
            seconds: how long the batch took.

        Raises:
            OutputError: the file cannot be written, for example because the disk is full.
        """
        each = seconds / max(1, len(answers))
        rows = [
            (key, generator, to_json(_record(completion)), count, each)
            for (key, completion), count in zip(answers, tokens, strict=True)
        ]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", rows)

    def totals(self) -> CacheTotals:
        """What all stored answers took."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(sum(tokens), 0), coalesce(sum(seconds), 0.0)"
                " FROM answers"
            ).fetchone()
        return CacheTotals(int(row[0]), int(row[1]), float(row[2]))

    def __len__(self) -> int:
        """How many answers are stored."""
        return self.totals().answers

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The connection of this process, with SQLite's errors under our names."""
        with self._lock:
            try:
                if self._connection is None or self._process != os.getpid():
                    self._connection = self._connect()  # a connection does not survive a fork
                    self._process = os.getpid()
                yield self._connection
            except sqlite3.OperationalError as error:
                raise OutputError(
                    f"the cache of answers cannot be used ({error})",
                    path=self.path,
                    hint="free some space, or name a file in a folder that can be written",
                ) from error
            except sqlite3.DatabaseError as error:
                raise DataFormatError(
                    f"this is no cache of answers, or a damaged one ({error})",
                    path=self.path,
                    hint="name another file, or delete this one",
                ) from error

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", path=self.path) from error
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # two processes may make the file at once
            owner = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and owner != _APPLICATION:
                raise DataFormatError(
                    "this SQLite file is no cache of answers",
                    path=self.path,
                    hint="name another file",
                )
            if tables and version != FORMAT:
                raise DataFormatError(
                    f"this cache of answers has format {version}, this version reads {FORMAT}",
                    path=self.path,
                    hint="name another file, or delete this one",
                )
            if not tables:
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("PRAGMA journal_mode = WAL")  # readers never wait for a writer


class CachedGenerator:
    """A generator in front of which an ``AnswerCache`` stands; takes any generator's place.

    Args:
        generator: what is asked for answers that are not stored; it answers the same for the same
            request.
        cache: where answers are kept.
        batch_size: how many requests the generator gets at once; after each batch its answers are
            stored, so that a killed run loses one batch at most.
        count_tokens: how many tokens a request and its completion are; white-space words by
            default.

    Raises:
        ConfigError: the batch size is below 1.
    """

    def __init__(
        self,
        generator: Generator,
        cache: AnswerCache,
        *,
        batch_size: int = 64,
        count_tokens: Callable[[GenerationRequest, Completion], int] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"expected a number from 1, found {batch_size}", key="batch_size")
        self.generator = generator
        self.cache = cache
        self.num_asked = 0
        self.num_known = 0
        self.tokens = 0
        self.seconds = 0.0
        self._batch_size = batch_size
        self._count_tokens = count_tokens or count_words

    @property
    def fingerprint(self) -> str:
        """That of the generator: the cache changes no answer."""
        return self.generator.fingerprint

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; only new requests are asked.

        ``num_asked``, ``num_known``, ``tokens`` and ``seconds`` count this generator's work.

        Raises:
            OutputError: an answer cannot be stored.
            ExplanationError: the generator returned too few or too many completions.
        """
        fingerprint = self.generator.fingerprint
        keys = [request_key(fingerprint, request) for request in requests]
        known = self.cache.load(list(dict.fromkeys(keys)))
        new = {key: r for key, r in zip(keys, requests, strict=True) if key not in known}
        self.num_known += len(set(keys)) - len(new)
        # Neighbours then begin alike, so that a model that shares equal beginnings shares most.
        waiting = sorted(new.items(), key=lambda item: [d.text for d in item[1].documents])
        for start in range(0, len(waiting), self._batch_size):
            known.update(self._ask(fingerprint, waiting[start : start + self._batch_size]))
        return [known[key] for key in keys]

    def _ask(
        self, fingerprint: str, waiting: Sequence[tuple[str, GenerationRequest]]
    ) -> list[tuple[str, Completion]]:
        start = time.perf_counter()
        completions = self.generator.generate([request for _, request in waiting])
        seconds = time.perf_counter() - start
        if len(completions) != len(waiting):
            raise ExplanationError(
                f"the generator returned {len(completions)} completions for {len(waiting)} requests"
            )
        tokens = [self._count_tokens(r, c) for (_, r), c in zip(waiting, completions, strict=True)]
        answers = [(key, c) for (key, _), c in zip(waiting, completions, strict=True)]
        self.cache.store(fingerprint, answers, tokens=tokens, seconds=seconds)
        self.num_asked += len(waiting)
        self.tokens += sum(tokens)
        self.seconds += seconds
        return answers


def count_words(request: GenerationRequest, completion: Completion) -> int:
    """White-space words of a request's query, rules and documents, and of the completion."""
    texts = [request.query.text, completion.text]
    texts += [rule.text for rule in request.rules]
    texts += [document.text for document in request.documents]
    return sum(len(text.split()) for text in texts)


def _record(completion: Completion) -> dict[str, Any]:
    return {
        "text": completion.text,
        "score": completion.score,
        "candidates": [
            [c.text, c.score, list(c.document_ids), list(c.rule_ids), list(map(list, c.grounded))]
            for c in completion.candidates
        ],
    }


def _completion(text: str) -> Completion:
    record = json.loads(text)
    candidates = tuple(
        Candidate(
            answer, score, tuple(documents), tuple(rules), tuple(GroundedAtom(*g) for g in grounded)
        )
        # Records of earlier versions tell nothing of atoms.
        for answer, score, documents, rules, *rest in record["candidates"]
        for grounded in [rest[0] if rest else ()]
    )
    return Completion(record["text"], record["score"], candidates)
