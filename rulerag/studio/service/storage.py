"""Sessions and explanations in one SQLite file: whole changes or none, also when the power goes."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError, OutputError, UnknownNameError
from rulerag.io import fingerprint_object, prepare_folder, read_text
from rulerag.studio.service.records import Reply, Session
from rulerag.studio.systems import State

VERSION = 2
"""Of the tables; a file of another version is refused by name."""

_ELSEWHERE = "choose another folder with --data"
_LONG, _MARK = 200, "\0"
"""Texts of so many letters stand once a session; this and its name stand where each is used."""
_NAMES = re.compile(r'"\\u0000([0-9a-f]{32})"')
_ALWAYS = 2**62
_RESERVE = 8_000_000
"""Bytes that a full disk gives up, so that something can be deleted from it."""

_TABLES = read_text(Path(__file__).with_name("storage.sql"))
_SESSION = """
SELECT name, system, revision, body, reply,
    position > (SELECT min(number) FROM states WHERE session = id),
    position < (SELECT max(number) FROM states WHERE session = id)
FROM sessions JOIN states ON session = id AND number = position WHERE id = ?
"""


class Storage:
    """What a studio keeps.

    Args:
        folder: where ``studio.sqlite`` lies; made when missing.
        undo: how many states of a session are kept.

    Raises:
        OutputError: the folder cannot be written.
        DataFormatError: the file is none of a studio, or of another version.
    """

    def __init__(self, folder: Path, undo: int) -> None:
        self._undo, self._lock = undo, threading.RLock()
        try:
            self.path = prepare_folder(folder) / "studio.sqlite"
            folder.chmod(0o700)  # others use this machine too
            self._base = sqlite3.connect(self.path, check_same_thread=False, timeout=10)
            weakref.finalize(self, self._base.close)  # Python 3.13 warns of one that is left open
            ((version,),) = self._rows("PRAGMA user_version")
            self.path.chmod(0o600)  # as what lies beside it from now on
            if version not in (0, VERSION):
                what = f"was written by another version of the studio ({version}, here {VERSION})"
                raise DataFormatError(what, path=self.path, hint=_ELSEWHERE)
            self._base.executescript(f"{_TABLES}PRAGMA user_version = {VERSION};")
            self._reserve()
        except OutputError as error:
            raise OutputError(error.message, path=folder, hint=_ELSEWHERE) from error
        except sqlite3.OperationalError as error:
            what = f"cannot be opened: {error}"
            raise OutputError(what, path=self.path, hint=_ELSEWHERE) from error
        except sqlite3.DatabaseError as error:
            raise DataFormatError(f"no file of a studio: {error}", path=self.path) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, of one thread at a time.

        Raises:
            OutputError: it could not be written (a full disk, for one); nothing has changed.
        """
        with self._lock:
            try:
                with self._base:
                    yield self._base
            except sqlite3.Error as error:
                raise OutputError(f"could not be written: {error}", path=self.path) from error

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._base.execute(query, values).fetchall()

    # --- long texts, once a session ----

    def _packed(self, base: sqlite3.Connection, session: str, row: Any, last: int) -> str:
        """A row as JSON without its long texts, which are of use up to the state ``last``."""

        def outer(value: Any) -> Any:
            if isinstance(value, str) and (len(value) >= _LONG or value.startswith(_MARK)):
                name = fingerprint_object(value, digits=32)
                text = session, name, json.dumps(value)
                base.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", text)
                use = "INSERT INTO uses VALUES (?, ?, ?) ON CONFLICT (session, name) DO UPDATE SET "
                base.execute(f"{use}last = max(last, excluded.last)", (session, name, last))
                return _MARK + name
            if isinstance(value, dict):
                return {key: outer(one) for key, one in value.items()}
            return list(map(outer, value)) if isinstance(value, list) else value

        return json.dumps(outer(row))

    def _whole(self, session: str, body: str) -> str:
        """The JSON of a row that was packed."""
        query = "SELECT name, body FROM texts WHERE session = ? AND name IN "
        names = json.dumps(_NAMES.findall(body))
        texts = dict(self._rows(query + "(SELECT value FROM json_each(?))", session, names))
        return _NAMES.sub(lambda one: texts[one[1]], body)

    # --- sessions ----

    def create(self, session: str, name: str, system: str, owner: str, state: State) -> None:
        """Keep a new session."""
        with self._writing() as base:
            row = (session, name, system, owner, time.time())
            base.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, 0, 0, ?, NULL)", row)
            body = self._packed(base, session, state.model_dump(mode="json"), 0)
            base.execute("INSERT INTO states VALUES (?, 0, ?)", (session, body))

    def count(self, owner: str) -> int:
        """How many sessions somebody has."""
        return int(self._rows("SELECT count(*) FROM sessions WHERE owner = ?", owner)[0][0])

    def summaries(self, owner: str | None, most: int = -1) -> list[dict[str, Any]]:
        """Somebody's sessions, or all, without their sources, the last changed first."""
        rows = self._rows(
            "SELECT id, name, system, updated FROM sessions WHERE owner = coalesce(?, owner) "
            "ORDER BY updated DESC LIMIT ?",
            owner,
            most,
        )
        return [dict(zip(("id", "name", "system", "updated"), row, strict=True)) for row in rows]

    def session(self, session: str) -> Session:
        """A session as it is now.

        Raises:
            UnknownNameError: there is none of this id.
        """
        made = "SELECT id FROM explanations WHERE session = ? ORDER BY number"
        with self._lock:
            rows, explanations = self._rows(_SESSION, session), self._rows(made, session)
            if not rows:
                raise UnknownNameError("there is no such session", hint="it may have been deleted")
            name, system, revision, body, reply, can_undo, can_redo = rows[0]
            body = self._whole(session, body)
        return Session(
            id=session,
            name=name,
            system=system,
            revision=revision,
            state=State.model_validate_json(body),
            can_undo=can_undo,
            can_redo=can_redo,
            reply=reply and Reply.model_validate_json(reply),
            explanations=tuple(row[0] for row in explanations),
        )

    def push(self, session: str, state: State) -> None:
        """Make a state the current one; states that were undone are gone then."""
        with self._writing() as base:
            ((position,),) = self._rows("SELECT position FROM sessions WHERE id = ?", session)
            base.execute(
                "DELETE FROM states WHERE session = ? AND (number > ? OR number <= ?)",
                (session, position, position - self._undo),
            )
            gone = session, position - self._undo
            base.execute("DELETE FROM uses WHERE session = ? AND last <= ?", gone)
            body = self._packed(base, session, state.model_dump(mode="json"), position + 1)
            base.execute("INSERT INTO states VALUES (?, ?, ?)", (session, position + 1, body))
            self._move(base, session, 1)

    def step(self, session: str, by: int) -> None:
        """Go to the state before (-1) or after (1), where there is one."""
        with self._writing() as base:
            seen = self.session(session)
            if seen.can_undo if by < 0 else seen.can_redo:
                self._move(base, session, by)

    def _move(self, base: sqlite3.Connection, session: str, by: int) -> None:
        base.execute(
            "UPDATE sessions SET position = position + ?, revision = revision + 1, updated = ? "
            "WHERE id = ?",
            (by, time.time(), session),
        )

    def rename(self, session: str, name: str) -> None:
        """Give a session another name."""
        with self._writing() as base:
            base.execute("UPDATE sessions SET name = ? WHERE id = ?", (name, session))

    def answered(self, session: str, reply: Reply) -> None:
        """Keep the last answer of a session."""
        with self._writing() as base:
            row = reply.model_dump_json(), session
            base.execute("UPDATE sessions SET reply = ? WHERE id = ?", row)

    def delete(self, session: str) -> None:
        """Forget a session and its explanations, and give back what they took of the disk."""
        try:
            self._forget(session)
        except OutputError:  # the disk is full
            self._reserved.unlink(missing_ok=True)
            self._forget(session)
        self._reserve()

    def _forget(self, session: str) -> None:
        with self._writing() as base:
            base.execute("DELETE FROM sessions WHERE id = ?", (session,))
        with self._lock, suppress(sqlite3.Error):  # it is forgotten; its place is used again
            sentences = "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)"
            self._base.executescript(sentences)

    @property
    def _reserved(self) -> Path:
        return self.path.with_name("reserve")

    def _reserve(self) -> None:
        with suppress(OSError):
            if not self._reserved.is_file():
                self._reserved.write_bytes(bytes(_RESERVE))

    # --- explanations ----

    def keep(self, explanation: str, session: str, body: dict[str, Any]) -> None:
        """Keep an explanation, in place of an earlier one of the same id."""
        with self._writing() as base:
            if not self._rows("SELECT 1 FROM sessions WHERE id = ?", session):
                return  # deleted meanwhile
            base.execute(
                "INSERT INTO explanations (id, session, body) VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                (explanation, session, self._packed(base, session, body, _ALWAYS)),
            )

    def explanation(self, explanation: str) -> dict[str, Any]:
        """What was kept of an explanation.

        Raises:
            UnknownNameError: there is none of this id.
        """
        with self._lock:
            query = "SELECT session, body FROM explanations WHERE id = ?"
            rows = self._rows(query, explanation)
            if not rows:
                raise UnknownNameError("there is no such explanation", hint="explain again")
            kept: dict[str, Any] = json.loads(self._whole(*rows[0]))
        return kept
