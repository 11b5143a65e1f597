"""Sessions with the systems of a studio: asked, changed, kept, and handed on as files."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from rulerag.errors import ConfigError, EditConflictError
from rulerag.studio.service.catalogue import Catalogue
from rulerag.studio.service.editing import changed, check
from rulerag.studio.service.files import exported, kept_of, read_session
from rulerag.studio.service.records import Change, Session
from rulerag.studio.service.storage import Storage
from rulerag.studio.systems import State, as_json

_NAME = 200


class Sessions(Catalogue):
    """What is worked on: a question, its sources, and every edit of them; it explains nothing.

    Args:
        data: the folder of the sessions.
        options: those of :class:`~rulerag.studio.service.catalogue.Catalogue`.

    Raises:
        ConfigError: a system's file is wrong.
        OutputError: the folder cannot be written.
    """

    def __init__(self, data: Path, **options: Any) -> None:
        super().__init__(data, **options)
        self._storage = Storage(data, self.limits.undo)
        self._locks: dict[str, threading.RLock] = {}

    def new_session(
        self, system: str, name: str = "", question: str | None = None, owner: str = ""
    ) -> Session:
        """Begin a session.

        Args:
            system: the name of its system.
            name: of the session; the system's title when empty.
            question: the system's first example when None.
            owner: whose list it stands in; whoever has its id can open it.

        Raises:
            UnknownNameError: no system has this name.
            ConfigError: the owner has too many sessions.
        """
        opened = self.system(system)
        if self._storage.count(owner) >= self.limits.sessions:
            what = f"you have {self.limits.sessions:,} sessions"
            raise ConfigError(what, key="sessions", hint="delete some")
        own = opened.settings
        asked = question if question is not None else (opened.examples() or ("",))[0]
        usable = [one["name"] for one in opened.generators() if not one["missing"]]
        state = State(
            question=asked,
            instructions=own.instructions,
            instructed=bool(own.instructions),
            generator=(usable or [own.generators[0].name])[0],
            retriever=opened.retrievers()[0]["name"],
        )
        check(state, self.limits)
        session = secrets.token_urlsafe(9)
        self._storage.create(session, (name or own.title)[:_NAME], system, owner, state)
        return self.session(session)

    def sessions(self, owner: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Somebody's sessions, or all, by id, name and system, the last changed first."""
        return self._storage.summaries(owner, most)

    def session(self, session: str) -> Session:
        """One session as it is now; :class:`UnknownNameError` where there is none of this id."""
        return self._storage.session(session)

    def rename(self, session: str, name: str) -> Session:
        """Give a session another name."""
        self._storage.rename(session, name.strip()[:_NAME] or "unnamed")
        return self.session(session)

    def delete(self, session: str) -> None:
        """Forget a session and its explanations."""
        self.session(session)
        self._storage.delete(session)
        with self._lock:
            self._locks.pop(session, None)

    def retrieve(
        self,
        session: str,
        question: str | None = None,
        *,
        retriever: str | None = None,
        top_k: int | None = None,
        revision: int | None = None,
    ) -> Session:
        """Find the sources of a question; they take the place of those before.

        Args:
            session: the session.
            question: the one of the session when None.
            retriever: the one of the session when None.
            top_k: as many sources; those of the system when None.
            revision: of the session as it was seen; None for whatever it is.

        Raises:
            EditConflictError: the session was changed meanwhile.
            RuleRAGError: the question or the corpus cannot be read.
        """
        with self._editing(session, revision) as seen:
            system = self.system(seen.system)
            asked = seen.state.question if question is None else question
            wanted = retriever or seen.state.retriever
            system.check_retriever(wanted)
            if top_k is not None and not 1 <= top_k <= self.limits.sources:
                raise ConfigError(f"{top_k} is not from 1 to {self.limits.sources}", key="top_k")
            new = {"question": asked, "retriever": wanted}
            check(seen.state.model_copy(update=new), self.limits)
            sources = system.retrieve(asked, wanted, top_k, seen.state.rules_off)
            state = seen.state.model_copy(update={**new, "sources": sources})
            check(state, self.limits)
            self._storage.push(session, state)
        return self.session(session)

    def change(self, session: str, change: Change, *, revision: int | None = None) -> Session:
        """One edit; see :data:`~rulerag.studio.service.records.Change`.

        Raises:
            RuleRAGError: the edit does not fit, or (EditConflictError) comes too late.
        """
        with self._editing(session, revision) as seen:
            state = changed(seen.state, change, self.system(seen.system), self.limits)
            if state != seen.state:
                self._storage.push(session, state)
        return self.session(session)

    def undo(self, session: str) -> Session:
        """Take the last edit back; nothing where there is none."""
        return self._step(session, -1)

    def redo(self, session: str) -> Session:
        """Bring back what was undone; nothing where there is none."""
        return self._step(session, 1)

    def _step(self, session: str, by: Literal[-1, 1]) -> Session:
        with self._editing(session, None):
            self._storage.step(session, by)
        return self.session(session)

    @contextmanager
    def _editing(self, session: str, revision: int | None) -> Iterator[Session]:
        with self._lock:
            lock = self._locks.setdefault(session, threading.RLock())
        with lock:
            seen = self.session(session)
            if revision is not None and revision != seen.revision:
                raise EditConflictError(
                    "the session was changed meanwhile, in another tab or by another program",
                    hint="read it again, then edit",
                )
            yield seen

    # --- files ----

    def export(self, session: str) -> dict[str, Any]:
        """A session as one JSON object: state, explanations, every probe; no keys, no paths."""
        seen = self.session(session)
        kept = [self._storage.explanation(one) for one in seen.explanations]
        return exported(seen, as_json(self.system(seen.system).settings), kept)

    def load(self, row: Any, owner: str = "") -> Session:
        """Open an exported session as a new one; asks no model.

        A system that is not here comes with it, without corpus and keys: it can be asked further
        where its models are.

        Raises:
            DataFormatError: it is no session, of another version, or damaged.
            UnknownNameError: its system is a benchmark that is not open here.
            ConfigError: it is over a limit.
        """
        read = read_session(row, self.limits)
        self.adopt(read.system, read.state.sources)
        made = self.new_session(read.system["name"], f"{read.name} (opened)", owner=owner)
        self._storage.push(made.id, read.state)
        if read.reply is not None:
            condition = self.system(made.system).condition("")
            holds = None if condition is None else bool(condition(read.reply.text))
            update = {"holds": holds, "condition": str(condition or "")}
            self._storage.answered(made.id, read.reply.model_copy(update=update))
        for view, outputs in read.explanations:
            new = secrets.token_urlsafe(9)
            moved = view.model_copy(update={"id": new, "session": made.id})
            self._storage.keep(new, made.id, kept_of(moved, outputs))
        return self.session(made.id)
