"""Explanations that run beside the screens: each has a worker, a cancel flag and followers.

A job belongs to no page and no connection: a browser that comes back finds it. Cancelling ends it
within a fraction of a second with what is certain by then; a call of a model that hangs is left
behind, its worker goes on with the next job.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

from rulerag.composition import check_range
from rulerag.errors import (
    ConfigError,
    OutputError,
    ProbeBudgetError,
    RuleRAGError,
    UnknownNameError,
)
from rulerag.explanation import SameClaim
from rulerag.explanation.explaining import Event, Explanation, Why, prepare
from rulerag.explanation.probing import AnswerFunction, OutputPredicate
from rulerag.studio.service.files import Outputs, kept_of
from rulerag.studio.service.records import Limits, Probe, View
from rulerag.studio.service.storage import Storage
from rulerag.studio.systems import OpenSystem
from rulerag.views import Picture, lattice_picture

_LOOK = 0.1
"""Seconds: so often running jobs and their followers look for news."""
_KEPT_EVERY = 2.0
"""Seconds; a studio that is killed loses the probes of so many at most."""


class Job:
    """One explanation, waiting, running or finished.

    Args:
        view: what is known at its beginning: id, session, state, goal.
        system: the system that is explained.
        storage: where it is kept, every few seconds and when it has stopped.
        known: outputs of an earlier run, by kept places; they are not asked again.

    Attributes:
        outputs: what was answered, by the places of the sources that were read.
        finished: set while it neither waits nor runs.
    """

    def __init__(
        self, view: View, system: OpenSystem, storage: Storage, known: Outputs | None = None
    ) -> None:
        # What came with a file is judged by rules: it has no model asked.
        self._condition = system.condition("" if view.opened else view.state.generator)
        if view.goal == "target" and self._condition is None:
            hint = "goal='claims'"
            raise ConfigError("the system has no target condition", key="goal", hint=hint)
        self.id, self.outputs = view.id, dict(known or {})
        self._view, self._system, self._storage = view, system, storage
        self._why: Why | None = None
        self._budget: int | None = None
        self._failure = ""
        self._lock = threading.Lock()
        self._cancelled, self.finished = threading.Event(), threading.Event()

    # --- what is known ----

    @property
    def view(self) -> View:
        """What is known now; another object whenever that is more."""
        if self._view.probes != len(self.outputs):
            self._update(probes=len(self.outputs))
        return self._view

    def _update(self, **values: Any) -> None:
        with self._lock:
            self._view = self._view.model_copy(update=values)

    async def follow(self) -> AsyncIterator[View]:
        """What is known now, and again whenever more is, until it has stopped."""
        seen: View | None = None
        while seen is None or not seen.finished:
            if (view := self.view) is not seen:
                yield (seen := view)
            else:
                await asyncio.sleep(_LOOK)

    def probes(self, claim: int = 0) -> list[Probe]:
        """Every answered subset, the largest first."""
        holds = self._predicate(claim)
        known = dict(self.outputs)  # a copy: answers may arrive meanwhile
        return [
            Probe(kept=kept, output=known[kept], holds=bool(holds(known[kept])))
            for kept in sorted(known, key=lambda one: (-len(one), one))
        ]

    def picture(self, kind: str, claim: int = 0, *, plain: bool = False) -> Picture:
        """``lattice``, ``flow`` or ``bars`` of what is known; asks nothing.

        Args:
            kind: which.
            claim: that is looked at.
            plain: the lattice with numbers alone: no text of a source or an answer is in it.

        Raises:
            ConfigError: nothing is known yet, there is no such claim, or no set of sources for it.
        """
        view, known = self.view, dict(self.outputs)
        if view.explanation is None or not known or not view.state.sources:
            raise ConfigError("nothing is known yet", key="explanation", hint="wait a little")
        holds = self._predicate(claim)
        sets = view.claims[claim].retention if view.claims else ()
        if kind == "bars" and not any(sets):
            raise ConfigError("no rule was found, so that no source counts", key="claim")
        if kind != "lattice":
            return cast("Picture", Why(view.explanation).picture(kind, claim))
        names = [
            str(n) if plain else one.called for n, one in enumerate(view.explanation.documents, 1)
        ]
        outputs = {_mask(kept): reply for kept, reply in known.items()}
        return lattice_picture(
            names,
            {mask: bool(holds(reply)) for mask, reply in outputs.items()},
            list(map(_mask, sets)),
            outputs={} if plain else outputs,
            title="Which sources are enough",
        )

    def _predicate(self, claim: int) -> Callable[[str], bool]:
        view = self._view
        check_range("claim", claim, 0, max(0, len(view.claims) - 1))
        if view.goal == "target":
            return cast("OutputPredicate", self._condition)
        if view.explanation is None or not view.claims:
            return lambda reply: False
        texts = [one.text for one in view.state.sources]
        return SameClaim(view.claims[claim].text, view.explanation.question, texts)

    def ask(self, kept: Sequence[int], claim: int = 0, *, again: bool = False) -> Probe:
        """Ask one subset of the sources, unless it was asked before.

        Args:
            kept: places of the sources that are read, from 0; those without a text always are.
            claim: what is looked at in the answer.
            again: ask also what was asked before; what it said then stays in the explanation.

        Raises:
            ConfigError: a place is none of a source.
            RuleRAGError: the generator failed, or does not read every source.
        """
        sources = self._view.state.sources
        if kept and not 0 <= min(kept) <= max(kept) < len(sources):
            raise ConfigError(f"there are {len(sources)} sources, from 0", key="kept")
        silent = [place for place, one in enumerate(sources) if not one.text.strip()]
        wanted = tuple(sorted({*kept, *silent}))
        reply = None if again else self.outputs.get(wanted)
        if reply is None:
            asked = self._system.answer_function(self._view.state)
            units = (n for n, place in enumerate(asked.context.places) if place in wanted)
            (reply,) = asked([tuple(units)])
            self.outputs.setdefault(wanted, reply)
        return Probe(kept=wanted, output=reply, holds=bool(self._predicate(claim)(reply)))

    # --- running ----

    def recompute(self) -> None:
        """Find what follows from the answers that are known, as if nothing else could be asked."""

        def ended(*_: Any) -> str:
            raise ProbeBudgetError("the file holds no further answer", hint="deepen asks for it")

        state = self._view.state
        known: dict[Any, str] = dict(self.outputs)
        context = self._system.context(state)
        asked = AnswerFunction(ended, state.question, context, workers=1, known=known)
        aim = self._condition if self._view.goal == "target" else None
        self._update(condition=str(aim or ""))
        with suppress(ProbeBudgetError):  # nothing at all was answered
            why = prepare(asked, predicate=aim, repeats=1, each=self._view.each)
            self._learn(why.deepen().explanation)
        self.save()

    def reopen(self, budget: int) -> None:
        """Make a stopped job one that waits, for so many further calls."""
        self._budget = budget
        self._cancelled.clear()
        self.finished.clear()
        self._update(status="waiting", error="")

    def save(self) -> None:
        """Keep what is known, where that can be; at the end it is said where it cannot."""
        with suppress(OutputError):
            self._keep(self.view)

    def _keep(self, view: View) -> None:
        self._storage.keep(self.id, view.session, kept_of(view, self.outputs))

    def cancel(self) -> None:
        """Stop with what is certain so far; from any thread."""
        self._cancelled.set()
        if self._view.status == "waiting":
            self._stop()

    def run(self) -> None:
        """Explain, or go on; in a worker."""
        if self._cancelled.is_set():
            self._stop()
            return
        self._update(status="running")
        work = threading.Thread(target=self._explain, name="rulerag-explanation", daemon=True)
        work.start()
        last = time.monotonic()
        while work.is_alive():
            work.join(_LOOK)
            if self._cancelled.is_set() and self._why is not None and self._why.run is not None:
                self._why.run.cancel()
            if time.monotonic() - last > _KEPT_EVERY:
                last = time.monotonic()
                self.save()
        self._stop()

    def _explain(self) -> None:
        self._failure = ""
        try:
            if self._why is None:
                # What is kept says the same each time: that is no lack of noise.
                repeats = 1 if self.outputs else 2
                aim = self._condition if self._view.goal == "target" else None
                state = self._view.state
                asked = self._system.answer_function(state, self.outputs)
                price = self._system.price(state.generator)
                each = self._view.each
                self._why = prepare(asked, predicate=aim, repeats=repeats, price=price, each=each)
            self._why.deepen(self._budget, on_event=self._hear)
            self._failure = str(self._why.failure or "")
            self._learn(self._why.explanation)
        except RuleRAGError as error:
            self._failure = str(error)
        except Exception as error:  # noqa: BLE001 - shown on the card; the rest of the studio works
            self._failure = f"{type(error).__name__}: {error}"

    def _hear(self, event: Event) -> None:
        if event.kind != "calls":
            self._learn(event.explanation)

    def _learn(self, explanation: Explanation) -> None:
        view, holds = self._view, self._view.holds
        if self._condition is not None and explanation.text and explanation.text != view.text:
            holds = bool(self._condition(explanation.text))
        self._update(explanation=explanation, holds=holds)

    def _stop(self) -> None:
        """Keep what is known, then tell that it has stopped."""
        error = "" if self._cancelled.is_set() else self._failure
        status = "cancelled" if self._cancelled.is_set() else "failed" if error else "done"
        view = self.view.model_copy(update={"status": status, "error": error})
        try:
            self._keep(view)
        except OutputError as failure:
            sentence = f"{error} This will be gone when the studio ends: {failure}".strip()
            view = view.model_copy(update={"error": sentence})
        with self._lock:
            self._view = view
        self.finished.set()


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
        job.save()
        self._pool.submit(job.run)

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

    def forget(self, session: str) -> None:
        """Cancel the jobs of a session and know them no more."""
        for job in self.of_session(session):
            job.cancel()
            with self._lock:
                del self._jobs[job.id]

    def close(self) -> None:
        """Cancel everything and wait for the workers."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if not job.view.finished:
                job.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _mask(kept: Collection[int]) -> int:
    return sum(1 << place for place in kept)
