"""Answers kept on disk: what was asked once, by any process, is not asked again.

The key of an answer is what the generator reads of the request
(:mod:`~rulerag.explanation.probing.asking`) with the generator's fingerprint (weights, template,
decoding), so that another model or another prompt never meets an answer that is not its own. Beside
the key stands which build of the model answered, where it is known (``system_fingerprint``).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, DataFormatError, OutputError
from rulerag.explanation.probing.asking import (
    WrappedGenerator,
    arrivals,
    endpoint_changed,
    request_key,
)
from rulerag.io import to_json
from rulerag.protocols import Generator
from rulerag.types import Candidate, Completion, GenerationRequest, GroundedAtom

FORMAT = 2
"""The version of the file's layout; a file of another version is refused.

Format 1 had keys without the rules' counts, and a stale answer among them looks like any other.
"""

_APPLICATION = 0x52524147  # "RRAG", in the header of the file
_PATIENCE = 60.0  # seconds to wait for another process that is writing
# Where builds of a model take turns, so many calls may fall to the wrong one in a row.
_SPARE_CALLS = 8

_HEADER = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
_SCHEMA = (
    "CREATE TABLE answers (key TEXT NOT NULL, system TEXT NOT NULL, generator TEXT NOT NULL,"
    " completion TEXT NOT NULL, tokens INTEGER NOT NULL, seconds REAL NOT NULL,"
    " PRIMARY KEY (key, system)) WITHOUT ROWID",
    "CREATE TABLE systems (generator TEXT PRIMARY KEY, system TEXT NOT NULL) WITHOUT ROWID",
)


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

    def load(self, keys: Sequence[str], system: str = "") -> dict[str, Completion]:
        """The stored completions among some keys, by one build of the model.

        Args:
            keys: what is looked for.
            system: the build, as :meth:`store` got it.
        """
        wanted = "system = ? AND key IN (SELECT value FROM json_each(?))"
        question = f"SELECT key, completion FROM answers WHERE {wanted}"
        with self._open() as connection:
            rows = connection.execute(question, (system, json.dumps(list(keys))))
            return {key: _completion(json.loads(text)) for key, text in rows}

    def store(
        self,
        generator: str,
        answers: Sequence[tuple[str, Completion, int]],
        *,
        seconds: float,
        system: str = "",
    ) -> None:
        """Store completions; one that is there already stays as it is.

        Args:
            generator: the generator's fingerprint, for people who look into the file.
            answers: keys, completions and how many tokens each took.
            seconds: how long they took together.
            system: which build of the model gave them, where an endpoint says it.

        Raises:
            OutputError: the file cannot be written, for example because the disk is full.
        """
        each = seconds / max(1, len(answers))
        rows = [
            (key, system, generator, to_json(_record(completion)), count, each)
            for key, completion, count in answers
        ]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows)
            connection.execute("INSERT OR REPLACE INTO systems VALUES (?, ?)", (generator, system))

    def system(self, generator: str) -> str | None:
        """The build of the model that answered last for a generator; None where none did."""
        question = "SELECT system FROM systems WHERE generator = ?"
        with self._open() as connection:
            row = connection.execute(question, (generator,)).fetchone()
        return None if row is None else str(row[0])

    def __len__(self) -> int:
        """How many answers are stored."""
        with self._open() as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])

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
                what = f"the cache of answers cannot be used ({error})"
                hint = "free some space, or name a file in a folder that can be written"
                raise OutputError(what, path=self.path, hint=hint) from error
            except sqlite3.DatabaseError as error:
                what = f"this is no cache of answers, or a damaged one ({error})"
                hint = "name another file, or delete this one"
                raise DataFormatError(what, path=self.path, hint=hint) from error

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
            owner, version, tables = (connection.execute(q).fetchone()[0] for q in _HEADER)
            what, hint = "", "name another file, or delete this one"
            if tables and owner != _APPLICATION:
                what, hint = "this SQLite file is no cache of answers", "name another file"
            elif tables and version != FORMAT:
                what = f"this cache of answers has format {version}, this version reads {FORMAT}"
            if what:
                raise DataFormatError(what, path=self.path, hint=hint)
            if not tables:
                for table in _SCHEMA:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("PRAGMA journal_mode = WAL")  # readers never wait for a writer


class CachedGenerator(WrappedGenerator):
    """A generator in front of which an ``AnswerCache`` stands; takes any generator's place.

    All answers that one object hands out come from one build of the model. Where an endpoint names
    its build, answers that another one gave are stored under that build's name and asked for again,
    as where two take turns; an endpoint that only answers as another build is an error, and a rerun
    goes on with that one.

    Threads may share it: one of them asks at a time.

    Args:
        generator: what is asked for answers that are not stored; it answers the same for the same
            request.
        cache: where answers are kept.
        batch_size: how many requests the generator gets at once. Each answer is stored as it
            arrives; of a generator that hands out whole batches a killed run loses one at most.

    Attributes:
        num_asked: how many answers the generator gave.
        num_known: how many the cache gave.

    Raises:
        ConfigError: the batch size is below 1.
    """

    def __init__(self, generator: Generator, cache: AnswerCache, *, batch_size: int = 64) -> None:
        if batch_size < 1:
            raise ConfigError(f"expected a number from 1, found {batch_size}", key="batch_size")
        super().__init__(generator)
        self.cache = cache
        self.num_asked = 0
        self.num_known = 0
        self._batch_size = batch_size
        self._system: str | None = None  # of every answer handed out so far
        self._asking = threading.RLock()

    @property
    def fingerprint(self) -> str:
        """That of the generator: the cache changes no answer."""
        return str(self.generator.fingerprint)

    @property
    def system_fingerprint(self) -> str:
        """Which build of the model gave the answers handed out, where an endpoint says it."""
        return self._system or ""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; only new requests are asked.

        Raises:
            OutputError: an answer cannot be stored.
            EndpointChangedError: the endpoint answers as another build of the model now.
            ExplanationError: the generator returned too few or too many completions.
        """
        name = self.fingerprint  # read once: it may look at the weights of a model
        keys = [request_key(name, self.reading(request)) for request in requests]
        wanted: dict[str, GenerationRequest] = {}
        for key, request in zip(keys, requests, strict=True):
            wanted.setdefault(key, request)
        with self._asking:
            known = self._complete(wanted)
        return [known[key] for key in keys]

    def _complete(self, wanted: dict[str, GenerationRequest]) -> dict[str, Completion]:
        """An answer for each key, all by one build of the model."""
        settled = self._system is not None
        system = self._system if settled else self.cache.system(self.fingerprint)
        known = {} if system is None else self.cache.load(list(wanted), system)
        asked: set[str] = set()
        seen, spare = False, _SPARE_CALLS
        while new := {key: r for key, r in wanted.items() if key not in known}:
            arrived = self._ask(new)
            asked |= new.keys()
            fitting = {key: one for key, one, build in arrived if build == system}
            known |= fitting
            if fitting:
                seen, spare = True, _SPARE_CALLS
                continue
            spare -= len(new)
            if seen and spare >= 0:
                continue
            now = Counter(build for _, _, build in arrived).most_common(1)[0][0]
            if settled:
                raise endpoint_changed(system or "", now)
            # Nothing was handed out yet: what another build answered is left, once.
            settled, system = True, now
            known, seen = self.cache.load(list(wanted), now), True
        self._system = system
        self.num_known += len(known.keys() - asked)
        return known

    def _ask(self, new: dict[str, GenerationRequest]) -> list[tuple[str, Completion, str]]:
        """Ask for some keys; every answer is stored as it arrives, with the build that gave it."""
        # Neighbours then begin alike, so that a model that shares equal beginnings shares most.
        waiting = sorted(new.items(), key=lambda item: [d.text for d in item[1].documents])
        answers: list[tuple[str, Completion, str]] = []
        for begin in range(0, len(waiting), self._batch_size):
            batch = waiting[begin : begin + self._batch_size]
            started = time.perf_counter()
            for together in arrivals(self.generator, [request for _, request in batch]):
                seconds = time.perf_counter() - started
                answers += [(batch[place][0], one, system) for place, one, system in together]
                self.cache.store(
                    self.fingerprint,
                    [(batch[n][0], one, _count_words(batch[n][1], one)) for n, one, _ in together],
                    seconds=seconds,
                    system=together[-1].system if together else "",
                )
                self.num_asked += len(together)
                started = time.perf_counter()
        return answers


def _count_words(request: GenerationRequest, completion: Completion) -> int:
    """White-space words of a request's query, rules and documents, and of the completion."""
    texts = [request.query.text, completion.text, *(rule.text for rule in request.rules)]
    return sum(len(text.split()) for text in (*texts, *(d.text for d in request.documents)))


def _record(completion: Completion) -> dict[str, Any]:
    candidates = [astuple(candidate) for candidate in completion.candidates]
    return {"text": completion.text, "score": completion.score, "candidates": candidates}


def _completion(record: dict[str, Any]) -> Completion:
    candidates = tuple(
        Candidate(
            answer, score, tuple(documents), tuple(rules), tuple(GroundedAtom(*g) for g in grounded)
        )
        # Records of earlier versions tell nothing of atoms.
        for answer, score, documents, rules, *rest in record["candidates"]
        for grounded in (rest[0] if rest else (),)
    )
    return Completion(record["text"], record["score"], candidates)
