"""Answers kept on disk: what was asked once, by any process, is not asked again.

The key of an answer is what the generator reads of the request
(:mod:`~rulerag.explanation.probing.generators`) with the generator's fingerprint (weights,
template, decoding), so that another model or another prompt never meets an answer that is not its
own. Beside the key stands which build of the model answered, where it is known
(``system_fingerprint``).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from rulerag.errors import ConfigError, DataFormatError, OutputError
from rulerag.explanation.probing.answer_function import check_cancelled
from rulerag.explanation.probing.generators import (
    WrappedGenerator,
    arrivals,
    endpoint_changed,
    request_key,
)
from rulerag.io import to_json
from rulerag.protocols import Generator
from rulerag.types import Completion, GenerationRequest

# SQLite itself and not the library diskcache: that one runs what a folder holds (pickles, even with
# JSON alone written), writes into what is no cache, and leaves the connections of threads open.
_PATIENCE = 60.0  # seconds to wait for another process that is writing
# Where builds of a model take turns, so many calls may fall to the wrong one in a row.
_SPARE_CALLS = 8

# A file of other tables is refused, to the letter: count the format up where keys or completions
# change what they mean.
_TABLES = [
    "CREATE TABLE answers (key, system, completion, PRIMARY KEY (key, system)) WITHOUT ROWID",
    "CREATE TABLE systems (generator PRIMARY KEY, system) WITHOUT ROWID -- format 3",
]
_Requests = Mapping[str, GenerationRequest]
_Answers = Sequence[tuple[str, Completion, str]]
_COMPLETION = TypeAdapter(Completion)


class AnswerCache:
    """Completions in one SQLite file, safe for several processes and threads.

    Every answer is on disk as soon as it is stored: a run that is killed goes on from there. It is
    stored as JSON, so that nothing in a file from elsewhere is run; none is ever dropped.

    Args:
        path: the file; made when missing.

    Raises:
        DataFormatError: the file is no cache of answers, damaged, or of another format.
        OutputError: the file cannot be opened or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        # By process, because a connection must not be used after a fork.
        self._connections: dict[int, sqlite3.Connection] = {}
        with self._open():
            pass

    def load(self, keys: Sequence[str], system: str | None = "") -> dict[str, Completion]:
        """The stored completions among some keys, by one build of the model.

        Args:
            keys: what is looked for.
            system: the build, as :meth:`store` got it; of None nothing is stored.
        """
        wanted = "system = ? AND key IN (SELECT value FROM json_each(?))"
        with self._open() as connection:
            question = f"SELECT key, completion FROM answers WHERE {wanted}"
            rows = connection.execute(question, (system, json.dumps(keys)))
            return {key: _COMPLETION.validate_json(text) for key, text in rows}

    def store(self, generator: str, answers: _Answers) -> None:
        """Store completions; one that is there already stays as it is.

        Args:
            generator: the fingerprint of the generator that gave them.
            answers: keys, completions and which build of the model gave each (empty where an
                endpoint does not say it), in order.

        Raises:
            OutputError: the file cannot be written, for example because the disk is full.
        """
        rows = [(key, system, to_json(asdict(one))) for key, one, system in answers]
        last = [(generator, system) for _, system, _ in rows[-1:]]
        with self._open() as connection:
            connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", rows)
            connection.executemany("INSERT OR REPLACE INTO systems VALUES (?, ?)", last)

    def system(self, generator: str) -> str | None:
        """The build of the model that answered last for a generator; None where none did."""
        with self._open() as connection:
            rows = connection.execute("SELECT generator, system FROM systems")
            return dict(rows).get(generator)

    def __len__(self) -> int:
        """How many answers are stored."""
        with self._open() as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if connection := self._connections.pop(os.getpid(), None):
                connection.close()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """This process's connection, in a transaction; SQLite's errors get our names."""
        with self._lock:
            try:
                with self._connections.get(os.getpid()) or self._connect() as connection:
                    yield connection
            except (OSError, sqlite3.OperationalError) as error:
                what = f"the cache of answers cannot be used ({error})"
                hint = "free some space, or name a file in a folder that can be written"
                raise OutputError(what, path=self.path, hint=hint) from error
            except (sqlite3.DatabaseError, ValidationError) as error:
                why = str(error).splitlines()[0]
                what = f"this is no cache of answers of this version, or a damaged one ({why})"
                hint = "name another file, or delete this one if it is an old cache"
                raise DataFormatError(what, path=self.path, hint=hint) from error

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False)
        weakref.finalize(self, connection.close)  # Python 3.13 warns of one that is left open
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # two processes may make the file at once
            tables = connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
            for table in () if tables else _TABLES:
                connection.execute(table)
            if tables and tables != [(table,) for table in _TABLES]:
                raise sqlite3.DatabaseError("it has other tables")
        connection.execute("PRAGMA journal_mode = WAL")  # readers never wait for a writer
        connection.execute("PRAGMA synchronous = NORMAL")
        self._connections[os.getpid()] = connection
        return connection


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
        time: the answers of the first, second … time that the same is asked are kept apart.

    Attributes:
        num_asked: how many answers the generator gave.
        num_known: how many the cache gave.

    Raises:
        ConfigError: the batch size is below 1.
    """

    def __init__(
        self, generator: Generator, cache: AnswerCache, *, batch_size: int = 64, time: int = 1
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"expected a number from 1, found {batch_size}", key="batch_size")
        super().__init__(generator)
        self.cache = cache
        self.num_asked = 0
        self.num_known = 0
        self._batch_size, self._time = batch_size, time
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
            ProbeBudgetError: an explanation asks, and was cancelled; what arrived is stored.
            EndpointChangedError: the endpoint answers as another build of the model now.
            ExplanationError: the generator returned too few or too many completions.
        """
        # Read once: it may look at the weights of a model.
        name = self.fingerprint + f"-{self._time}" * (self._time > 1)
        keys = [request_key(name, self.reading(request)) for request in requests]
        with self._asking:
            known = self._complete(name, dict(zip(keys, requests, strict=True)))
        return [known[key] for key in keys]

    def _complete(self, name: str, wanted: _Requests) -> dict[str, Completion]:
        """An answer for each key, all by one build of the model."""
        settled = self._system is not None
        system = self._system if settled else self.cache.system(name)
        known = self.cache.load(list(wanted), system)
        asked: set[str] = set()
        spare = 0  # none, until this build has answered
        while new := {key: one for key, one in wanted.items() if key not in known}:
            asked |= new.keys()
            arrived = self._ask(name, new)
            fitting = {key: one for key, one, build in arrived if build == system}
            known |= fitting
            spare = _SPARE_CALLS if fitting else spare - len(new)
            if spare < 0:
                now = Counter(build for _, _, build in arrived).most_common(1)[0][0]
                if settled:
                    raise endpoint_changed(system or "", now)
                # Nothing was handed out yet: what another build answered is left, once.
                settled, system, spare = True, now, _SPARE_CALLS
                known = self.cache.load(list(wanted), now)
        self._system = system
        self.num_known += len(known.keys() - asked)
        return known

    def _ask(self, name: str, new: _Requests) -> _Answers:
        """Ask for some keys; every answer is stored as it arrives, with the build that gave it."""
        # Neighbours then begin alike, so that a model that shares equal beginnings shares most.
        waiting = sorted(new, key=lambda key: [d.text for d in new[key].documents])
        answers: list[tuple[str, Completion, str]] = []
        for begin in range(0, len(waiting), self._batch_size):
            keys = waiting[begin : begin + self._batch_size]
            for together in arrivals(self.generator, [new[key] for key in keys]):
                rows = [(keys[place], one, system) for place, one, system in together]
                self.cache.store(name, rows)
                self.num_asked += len(rows)
                answers += rows
                check_cancelled()
        return answers
