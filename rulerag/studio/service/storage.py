"""Sessions and explanations in one SQLite file: whole changes or none, also when the power goes."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError, OutputError, UnknownNameError
from rulerag.io import prepare_folder
from rulerag.studio.service.records import Session
from rulerag.studio.systems import State

VERSION = 1
"""Of the tables; a file of another version is refused by name."""

_ELSEWHERE = "choose another folder with --data"

_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, system TEXT NOT NULL, position INTEGER NOT NULL,
    revision INTEGER NOT NULL, updated REAL NOT NULL);
CREATE TABLE IF NOT EXISTS states (
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (session, number));
CREATE TABLE IF NOT EXISTS explanations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, body TEXT NOT NULL);
"""
_SESSION = """
SELECT name, system, revision, updated, body,
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
            ((version,),) = self._rows("PRAGMA user_version")
            self.path.chmod(0o600)  # as what lies beside it from now on
            if version not in (0, VERSION):
                what = f"was written by another version of the studio ({version}, here {VERSION})"
                raise DataFormatError(what, path=self.path, hint=_ELSEWHERE)
            self._base.executescript(f"{_TABLES}PRAGMA user_version = {VERSION};")
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

    def create(self, session: str, name: str, system: str, state: State) -> None:
        """Keep a new session."""
        with self._writing() as base:
            row = (session, name, system, time.time())
            base.execute("INSERT INTO sessions VALUES (?, ?, ?, 0, 0, ?)", row)
            base.execute("INSERT INTO states VALUES (?, 0, ?)", (session, state.model_dump_json()))

    def summaries(self) -> list[dict[str, Any]]:
        """Every session without its sources, the last changed first."""
        rows = self._rows("SELECT id, name, system, updated FROM sessions ORDER BY updated DESC")
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
        name, system, revision, updated, body, can_undo, can_redo = rows[0]
        return Session(
            id=session,
            name=name,
            system=system,
            revision=revision,
            state=State.model_validate_json(body),
            can_undo=can_undo,
            can_redo=can_redo,
            explanations=tuple(row[0] for row in explanations),
            updated=updated,
        )

    def push(self, session: str, state: State) -> None:
        """Make a state the current one; states that were undone are gone then."""
        with self._writing() as base:
            ((position,),) = self._rows("SELECT position FROM sessions WHERE id = ?", session)
            base.execute(
                "DELETE FROM states WHERE session = ? AND (number > ? OR number <= ?)",
                (session, position, position - self._undo),
            )
            new = session, position + 1, state.model_dump_json()
            base.execute("INSERT INTO states VALUES (?, ?, ?)", new)
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

    def delete(self, session: str) -> None:
        """Forget a session and its explanations."""
        with self._writing() as base:
            base.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def keep(self, explanation: str, session: str, body: dict[str, Any]) -> None:
        """Keep an explanation, in place of an earlier one of the same id."""
        with self._writing() as base:
            if not self._rows("SELECT 1 FROM sessions WHERE id = ?", session):
                return  # deleted meanwhile
            base.execute(
                "INSERT INTO explanations (id, session, body) VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                (explanation, session, json.dumps(body)),
            )

    def explanation(self, explanation: str) -> dict[str, Any]:
        """What was kept of an explanation.

        Raises:
            UnknownNameError: there is none of this id.
        """
        rows = self._rows("SELECT body FROM explanations WHERE id = ?", explanation)
        if not rows:
            raise UnknownNameError("there is no such explanation", hint="explain again")
        kept: dict[str, Any] = json.loads(rows[0][0])
        return kept
