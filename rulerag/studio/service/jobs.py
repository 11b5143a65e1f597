"""Explanations that run beside the screens: each has a worker, a cancel flag and listeners.

A job belongs to no page and no connection: a browser that comes back finds it. Cancelling ends it
within a fraction of a second with what is certain by then; a call of a model that hangs is left
behind, its worker goes on with the next job.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from itertools import combinations
from math import comb
from typing import Any, cast

from rulerag.composition import check_range
from rulerag.errors import ConfigError, OutputError, RuleRAGError, UnknownNameError
from rulerag.explanation.any_answer import Event, Explained, Why, started
from rulerag.explanation.attribution import rule_surrogate
from rulerag.explanation.claims import SameClaim
from rulerag.explanation.probing import OutputPredicate
from rulerag.explanation.views import Picture, bars_picture, lattice_picture
from rulerag.studio.service.records import Goal, Level, Limits, Node, Probe, State, View
from rulerag.studio.service.viewing import claims_of, notes_of, shown_of
from rulerag.studio.systems import Answerer, Documents

Kept = tuple[int, ...]
_A_SECOND = 5
"""How often listeners hear of probes, at most."""
_KEPT_EVERY = 2.0
"""Seconds; a studio that is killed loses the probes of so many at most."""
_COUNTED = 1_000_000
"""Subsets of one size are counted up to here; nobody looks at more."""
_TOGETHER = 8
"""So many subsets a model on this machine reads at once, so that it can be stopped in between."""


class Job:
    """One explanation, waiting, running or finished.

    Args:
        view: what is known at its beginning: id, session, state, goal.
        documents: the sources as the answerer reads them.
        answerer: gives what answers; called when something is asked, so that what is known can be
            looked at where the model is not.
        condition: the target condition; needed for the goal ``target``.
        price: for a million tokens of prompts, and of answers.
        known: outputs of an earlier run, by kept places; they are not asked again.
        keep: called with the job every few seconds and when it has stopped.
    """

    def __init__(
        self,
        view: View,
        documents: Documents,
        answerer: Callable[[], Answerer],
        condition: OutputPredicate | None,
        *,
        price: tuple[float, float] | None = None,
        known: Mapping[Kept, str] | None = None,
        keep: Callable[[Job], None] = lambda job: None,
    ) -> None:
        if view.goal == "target" and condition is None:
            raise ConfigError(
                "the system has no target condition", key="goal", hint="goal='claims'"
            )
        self.id = view.id
        self._view, self._documents, self._answerer = view, documents, answerer
        self._condition, self._price, self._keep = condition, price, keep
        self._resumed, self._known = bool(known), dict(known or {})
        self.outputs: dict[Kept, str] = dict(self._known)
        self.explained: Explained | None = None
        self._why: Why | None = None
        self._version, self._last_told, self._last_kept = 0, 0.0, 0.0
        self._lock = threading.Lock()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._cancelled = threading.Event()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self.budget: int | None = None
        self.finished = threading.Event()

    # --- what is known ----

    @property
    def view(self) -> View:
        """What is known now."""
        with self._lock:
            return self._view

    async def follow(self) -> AsyncIterator[View]:
        """What is known now, and again whenever more is, until it has stopped."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        listener = (loop, changed)
        with self._lock:
            self._listeners.add(listener)
        seen = -1
        try:
            while True:
                changed.clear()
                with self._lock:
                    version, view = self._version, self._view
                # What has stopped is told before the version says so: it is being kept.
                if version != seen or view.finished:
                    seen = version
                    yield view
                if view.finished:
                    return
                await changed.wait()
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def probes(self, claim: int = 0) -> list[Probe]:
        """Every answered subset, the largest first."""
        holds = self._predicate(claim)
        known = dict(self.outputs)  # a copy: answers may arrive meanwhile
        return [
            Probe(kept=kept, output=known[kept], holds=bool(holds(known[kept])))
            for kept in sorted(known, key=lambda one: (-len(one), one))
        ]

    def levels(self, claim: int = 0) -> list[Level]:
        """What was asked of the subsets of each size, the largest first."""
        count, holds = len(self._documents), self._predicate(claim)
        asked, holding = Counter[int](), Counter[int]()
        for kept, said in dict(self.outputs).items():
            asked[len(kept)] += 1
            holding[len(kept)] += bool(holds(said))
        return [
            Level(
                kept=size,
                subsets=among if (among := comb(count, size)) <= _COUNTED else None,
                asked=asked[size],
                holding=holding[size],
            )
            for size in range(count, -1, -1)
        ]

    def nodes(self, size: int, claim: int = 0, *, most: int = 64) -> list[Node]:
        """Subsets of one size: all of them where they are few, else those that were asked.

        Args:
            size: how many sources are read.
            claim: what is looked at in their answers.
            most: so many at most; those come first for which the condition holds.

        Raises:
            ConfigError: there are not so many sources.
        """
        count, holds = len(self._documents), self._predicate(claim)
        check_range("size", size, 0, count)
        known = {kept: said for kept, said in dict(self.outputs).items() if len(kept) == size}
        if comb(count, size) <= most:
            kept = combinations(range(count), size)
            return [
                Node(kept=one, holds=bool(holds(known[one])) if one in known else None)
                for one in kept
            ]
        asked = [Node(kept=one, holds=bool(holds(known[one]))) for one in sorted(known)]
        return sorted(asked, key=lambda one: not one.holds)[:most]

    def lattice(self, claim: int = 0) -> Picture:
        """What is known of the subsets, drawn; asks nothing."""
        view, holds = self.view, self._predicate(claim)
        outputs = {_mask(kept): said for kept, said in list(self.outputs.items())}
        minimal = [one.sources for one in view.claims[claim].enough] if view.claims else []
        title = f"Which sources are enough for “{view.claims[claim].text}”" if view.claims else ""
        return lattice_picture(
            self._names(),
            {mask: bool(holds(said)) for mask, said in outputs.items()},
            list(map(_mask, minimal)),
            outputs=outputs,
            title=title or "Which sources are enough",
        )

    def bars(self, claim: int = 0) -> Picture:
        """How much each source counts for a claim, drawn: Banzhaf values of the minimal rules.

        Raises:
            ConfigError: there is no such claim, or no rule of it.
        """
        view = self.view
        check_range("claim", claim, 0, max(0, len(view.claims) - 1))
        rules = [frozenset(one.sources) for one in view.claims[claim].enough] if view.claims else []
        if not any(rules):
            raise ConfigError("no rule was found, so that no source counts", key="claim")
        names = self._names()
        values = rule_surrogate(rules, names)
        title = f"How much each source counts for “{view.claims[claim].text}”"
        return bars_picture(names, values.values, title=title)

    def _names(self) -> list[str]:
        sources = self.view.state.sources
        return [f"{one.title or one.id} [{place}]" for place, one in enumerate(sources, start=1)]

    def picture(self, kind: str, claim: int = 0) -> Picture:
        """``flow`` or ``certainty``, of what was found."""
        why = self._why
        if why is None:
            assert self.explained is not None  # noqa: S101 - the service looks first
            why = Why(self.explained)
        return cast("Picture", why.picture(kind, claim))

    def _predicate(self, claim: int) -> Callable[[str], bool]:
        view = self.view
        if view.goal == "target":
            assert self._condition is not None  # noqa: S101 - refused by the constructor
            return self._condition
        if not view.claims:
            return lambda said: False
        if not 0 <= claim < len(view.claims):
            raise ConfigError(f"there are {len(view.claims)} claims", key="claim")
        texts = [one.text for one in view.state.sources]
        return SameClaim(view.claims[claim].text, view.state.question, texts)

    def ask(self, kept: Sequence[int], *, again: bool = False) -> Probe:
        """Ask one subset of the sources, unless it was asked before.

        Args:
            kept: places of the sources that are read, from 0.
            again: ask also what was asked before; what it said then stays in the explanation.

        Raises:
            ConfigError: a place is none of a source.
            RuleRAGError: the generator failed.
        """
        wanted = tuple(sorted(set(kept)))
        if wanted and not 0 <= wanted[0] <= wanted[-1] < len(self._documents):
            raise ConfigError(f"there are {len(self._documents)} sources, from 0", key="kept")
        said = self.outputs.get(wanted)
        if said is None or again:
            state = self.view.state
            told = state.instructions if state.instructed else ""
            lists = [[self._documents[place] for place in wanted]]
            (said,) = self._answerer().answer(state.question, lists, told)
            self.outputs.setdefault(wanted, said)
            self._update(probes=len(self.outputs))
        return Probe(kept=wanted, output=said, holds=bool(self._predicate(0)(said)))

    # --- running ----

    def cancel(self) -> None:
        """Stop with what is certain so far; from any thread."""
        self._cancelled.set()
        with self._lock:
            running = self._running
        if running is not None:
            with suppress(RuntimeError):  # its loop has just ended
                running[0].call_soon_threadsafe(running[1].cancel)
        elif self.view.status == "waiting":
            self._stopped("cancelled")

    def run(self) -> None:
        """Explain, or go on, with ``budget`` further calls; in a worker."""
        if self._cancelled.is_set():
            self._stopped("cancelled")
            return
        self._update(status="running", error="")
        try:
            asyncio.run(self._explain())
        except asyncio.CancelledError:
            self._stopped("cancelled")
        except RuleRAGError as error:
            self._stopped("failed", str(error))
        except Exception as error:  # noqa: BLE001 - shown on the card; the rest of the studio works
            self._stopped("failed", f"{type(error).__name__}: {error}")
        else:
            failure = self._why.failure if self._why is not None else None
            if failure is None:
                self._stopped("done")
            else:
                self._stopped("failed", str(failure))

    def reopen(self, budget: int) -> None:
        """Make a stopped job one that waits."""
        self.budget = budget
        self._cancelled.clear()
        self.finished.clear()
        self._update(status="waiting", error="")

    async def _explain(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs in one
        with self._lock:
            self._running = asyncio.get_running_loop(), task
        try:
            if self._cancelled.is_set():
                raise asyncio.CancelledError
            if self._why is None:
                self._why = self._begun()
            stream = cast("AsyncGenerator[Event]", self._why.stream(self.budget))
            async with aclosing(stream) as events:
                async for event in events:
                    self._became(event.explained)
        finally:
            with self._lock:
                self._running = None
            if self._why is not None and self._why.text:
                self._became(self._why.explained)

    def _begun(self) -> Why:
        """An explanation that has asked nothing yet."""
        own, state = self._answerer(), self._view.state
        told = state.instructions if state.instructed else ""

        def many(question: str, lists: Sequence[Documents]) -> list[str]:
            keys = [tuple(int(one["place"]) for one in documents) for documents in lists]
            new = [n for n, key in enumerate(keys) if key not in self._known]
            said = {key: self._known[key] for key in keys if key in self._known}
            for start in range(0, len(new), _TOGETHER):
                if self._cancelled.is_set():  # nobody waits for the rest
                    break
                part = new[start : start + _TOGETHER]
                answers = own.answer(question, [lists[n] for n in part], told)
                said |= {keys[n]: one for n, one in zip(part, answers, strict=True)}
                self.outputs |= said
                self._probed()
            return [said.get(key, "") for key in keys]

        def one(question: str, documents: Documents) -> str:
            return many(question, [documents])[0]

        aim: dict[str, Any] = {"predicate": self._condition} if self._view.goal == "target" else {}
        return started(
            many if own.batched else one,
            state.question,
            list(self._documents),
            batched=own.batched,
            workers=own.workers,
            # What is kept says the same each time: that is no lack of noise.
            repeats=1 if self._resumed else 2,
            price=self._price,
            **aim,
        )

    def _became(self, explained: Explained) -> None:
        self.explained = explained
        view = self._view
        condition = self._condition
        self._update(
            text=explained.text,
            holds=None if condition is None or not explained.text else condition(explained.text),
            claims=claims_of(explained, view.goal, condition),
            notes=notes_of(explained, view.goal),
            shown=shown_of(explained),
            calls=explained.num_calls,
            probes=len(self.outputs),
            tokens=explained.tokens or 0,
            money=explained.money,
            seconds=round(explained.seconds, 3),
        )

    def _probed(self) -> None:
        """Tell of probes, a few times a second."""
        now = time.monotonic()
        if now - self._last_told > 1 / _A_SECOND:
            self._last_told = now
            self._update(probes=len(self.outputs))
        if now - self._last_kept > _KEPT_EVERY:
            self._last_kept = now
            with suppress(OutputError):  # said at the end; what models answered is not thrown away
                self._keep(self)

    def _stopped(self, status: str, error: str = "") -> None:
        with self._lock:
            self._view = self._view.model_copy(
                update={"status": status, "error": error, "probes": len(self.outputs)}
            )
        notes = self._view.notes
        try:
            self._keep(self)
        except OutputError as failure:
            notes = (*notes, f"This will be gone when the studio ends: {failure}")
        self._update(notes=notes)
        self.finished.set()

    def _update(self, **values: Any) -> None:
        with self._lock:
            self._view = self._view.model_copy(update=values)
            self._version += 1
            listeners = list(self._listeners)
        for loop, changed in listeners:
            with suppress(RuntimeError):  # a listener whose loop has ended
                loop.call_soon_threadsafe(changed.set)


class Jobs:
    """Runs jobs, some at once.

    Args:
        limits: how many.
    """

    _REMEMBERED = 200
    """Finished jobs that can still be deepened without asking again."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.jobs, "rulerag-studio")
        self._jobs: dict[str, Job] = {}
        self._futures: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    def start(self, job: Job, budget: int) -> None:
        """Run a job as soon as a worker is free.

        Raises:
            ConfigError: too many wait already.
        """
        with self._lock:
            open_ones = sum(not one.view.finished for one in self._jobs.values())
            if open_ones >= self._limits.jobs + self._limits.waiting:
                what = f"{open_ones} explanations run or wait"
                raise ConfigError(what, key="jobs", hint="cancel one, or try again later")
            job.reopen(min(budget, self._limits.budget))
            self._jobs.pop(job.id, None)
            self._jobs[job.id] = job
            for old in [i for i, one in self._jobs.items() if one.view.finished]:
                if len(self._jobs) <= self._REMEMBERED:
                    break
                del self._jobs[old]
            self._futures = {i: f for i, f in self._futures.items() if i in self._jobs}
            self._futures[job.id] = self._pool.submit(job.run)

    def get(self, job: str) -> Job:
        """A job of this process.

        Raises:
            UnknownNameError: there is none of this id.
        """
        with self._lock:
            if job not in self._jobs:
                raise UnknownNameError("no such explanation runs here", hint="explain again")
            return self._jobs[job]

    def of_session(self, session: str) -> list[Job]:
        """The jobs of a session, oldest first."""
        with self._lock:
            return [one for one in self._jobs.values() if one.view.session == session]

    def close(self) -> None:
        """Cancel everything and wait for the workers."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if not job.view.finished:
                job.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)


def documents_of(state: State, facts: Callable[[Any], Any]) -> Documents:
    """The sources of a state as answerers read them.

    Args:
        state: the state.
        facts: the corpus's own document behind a source, or None.
    """
    return [
        {
            "id": one.id,
            "title": one.title,
            "text": one.text,
            "place": place,
            "stated": facts(one),
            "metadata": {"rules": [found.rule for found in one.found_by]},
            **({} if one.score is None else {"score": one.score}),
        }
        for place, one in enumerate(state.sources)
    ]


def new_view(
    job: str, session: str, state: State, goal: Goal, condition: str, expected: int
) -> View:
    """What is known before anything was asked."""
    return View(
        id=job,
        session=session,
        state=state,
        goal=goal,
        condition=condition,
        expected=expected,
    )


def _mask(kept: Sequence[int]) -> int:
    return sum(1 << place for place in kept)
