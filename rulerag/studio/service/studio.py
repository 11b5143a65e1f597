"""The actions of the studio, each one library call; the faces add nothing to them.

In three layers: :mod:`~rulerag.studio.service.catalogue` (systems, rule banks, runs) under
:mod:`~rulerag.studio.service.sessions` (asked, changed, kept) under what stands here: answers,
explanations, red teaming.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, OutputError, UnknownNameError
from rulerag.explanation.explaining import Why, estimate
from rulerag.studio.service.differing import remembered, source_moves, word_changes
from rulerag.studio.service.editing import changed, check
from rulerag.studio.service.files import read_kept
from rulerag.studio.service.jobs import Job, Jobs
from rulerag.studio.service.records import Configure, Goal, Probe, Reply, Session, View
from rulerag.studio.service.redteam import RedTeamRun, RedTeamRuns, red_team, replay
from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport, RedTeamSuite
from rulerag.studio.service.sessions import Sessions
from rulerag.studio.systems import OpenSystem, State
from rulerag.views import Picture

_BUDGET = 500


class Studio(Sessions):
    """Sessions with RAG systems: ask, see, change, break, compare.

    Methods may be called from any thread.

    Args:
        data: the folder of its sessions; ``systems/*.yaml`` in it are systems of one's own.
        options: those of :class:`~rulerag.studio.service.catalogue.Catalogue`.

    Raises:
        ConfigError: a system's file is wrong.
        OutputError: the folder cannot be written.
    """

    def __init__(self, data: Path, **options: Any) -> None:
        super().__init__(data, **options)
        self._jobs = Jobs(self.limits)
        self._red_teams = RedTeamRuns(data / "red-team", self.limits.jobs)

    def close(self) -> None:
        """Cancel what runs, keep what is known, close the file."""
        self._red_teams.close()
        self._jobs.close()
        self._storage.close()

    def delete(self, session: str) -> None:
        """Forget a session, its explanations and its jobs."""
        super().delete(session)
        self._jobs.forget(session)

    def load(self, row: Any, owner: str = "") -> Session:
        """Open an exported session as a new one; asks no model.

        Its texts and answers are taken from the file and marked so. What follows from them, its
        sets of sources and whether conditions hold, is found anew.

        Raises:
            RuleRAGError: as :meth:`Sessions.load`.
        """
        opened = super().load(row, owner)
        for explanation in opened.explanations:
            self.job(explanation).recompute()
        return opened

    # --- answers ----

    def answer(self, session: str) -> Reply:
        """What the system answers from the sources as they are now; the session keeps it.

        Raises:
            RuleRAGError: what answers is not here, or failed.
        """
        seen = self.session(session)
        system = self.system(seen.system)
        return self._judged(session, system, seen.state, system.answer(seen.state))

    def answer_pieces(self, session: str) -> Iterator[str | Reply]:
        """The same: its text in pieces as an endpoint writes it, then all of it.

        Raises:
            RuleRAGError: as :meth:`answer`.
        """
        seen = self.session(session)
        system, state = self.system(seen.system), seen.state
        write = getattr(system.generator(state), "stream_text", None)
        text = ""
        for piece in [system.answer(state)] if write is None else write(system.request(state)):
            text += piece
            yield piece
        yield self._judged(session, system, state, text.strip())

    def _judged(self, session: str, system: OpenSystem, state: State, text: str) -> Reply:
        condition, read = system.condition(state.generator), remembered(state.sources)
        before = self.session(session).reply
        reply = Reply(
            text=text,
            holds=None if condition is None else bool(condition(text)),
            condition=str(condition or ""),
            generator=system.about(state),
            question=state.question,
            state=state.fingerprint,
            sources=read,
            before=None if before is None else before.text,
            words=() if before is None else word_changes(before.text, text),
            moves=() if before is None else source_moves(before.sources, read),
        )
        with suppress(OutputError):  # it is worth more than nothing where it cannot be kept
            self._storage.answered(session, reply)
        return reply

    def estimate(self, session: str, budget: int = _BUDGET) -> dict[str, Any]:
        """What an explanation will cost, before the first call."""
        seen = self.session(session)
        system = self.system(seen.system)
        price = system.price(seen.state.generator)
        texts = [one.text for one in seen.state.sources]
        cost = estimate(seen.state.question, texts, budget=budget, price=price)
        return {"words": str(cost), **asdict(cost)}

    def explain(
        self,
        session: str,
        goal: Goal | None = None,
        *,
        budget: int = _BUDGET,
        each: bool = False,
        retriever: str | None = None,
        **options: Any,
    ) -> View:
        """Begin to explain; :meth:`job` tells how it goes on.

        Args:
            session: the session.
            goal: ``target`` (which sources make the system break its instructions; the default
                where it has a target condition) or ``claims``.
            budget: calls at most.
            each: certify each set by itself, where not every subset is asked.
            retriever: another one than the session's, whose sources take the place of its own.
            options: ``generator``, ``instructed`` and ``instructions`` in place of the session's.

        Raises:
            RuleRAGError: there is nothing to explain, too much runs, what answers is not here.
        """
        seen = self.session(session)
        system = self.system(seen.system)
        state = changed(seen.state, Configure(**options), system, self.limits)
        if not state.question.strip():
            raise ConfigError("there is no question", key="question", hint="ask something")
        if retriever is not None:
            system.check_retriever(retriever)
            sources = system.retrieve(state.question, retriever, None, state.rules_off)
            state = state.model_copy(update={"retriever": retriever, "sources": sources})
        if budget < 1:
            raise ConfigError(f"{budget} is below 1", key="budget", hint="500")
        system.check_generator(state.generator)  # what is not here says so now
        condition = system.condition(state.generator)
        texts = [one.text for one in state.sources]
        view = View(
            id=secrets.token_urlsafe(9),
            session=session,
            state=state,
            goal=goal or ("claims" if condition is None else "target"),
            each=each,
            condition=str(condition or ""),
            expected=estimate(state.question, texts, budget=budget, each=each).most,
        )
        job = Job(view, system, self._storage)
        self._jobs.start(job, budget)
        return job.view

    def job(self, explanation: str) -> Job:
        """A running or finished explanation; one of an earlier run comes back without a call.

        Raises:
            UnknownNameError: there is none of this id, or its system is gone.
        """
        try:
            return self._jobs.get(explanation)
        except UnknownNameError:
            view, outputs = read_kept(self._storage.explanation(explanation))
        system = self.system(self.session(view.session).system)
        job = Job(view, system, self._storage, outputs)
        job.finished.set()
        return job

    def view(self, explanation: str) -> View:
        """An explanation as it is known now; asks nothing."""
        try:
            return self._jobs.get(explanation).view
        except UnknownNameError:
            return read_kept(self._storage.explanation(explanation))[0]

    def cancel(self, explanation: str) -> View:
        """Stop an explanation with what is certain."""
        job = self._jobs.get(explanation)
        job.cancel()
        job.finished.wait(1.0)
        return job.view

    def deepen(self, explanation: str, budget: int = _BUDGET) -> View:
        """Go on with an explanation; nothing that was answered is asked again.

        Raises:
            ConfigError: it runs already, or too much runs.
        """
        job = self.job(explanation)
        if not job.view.finished:
            raise ConfigError("it runs already", key="explanation", hint="wait, or cancel it")
        self._jobs.start(job, budget)
        return job.view

    def probes(self, explanation: str, claim: int = 0) -> list[Probe]:
        """Every answered subset of an explanation's sources with its output."""
        return self.job(explanation).probes(claim)

    def picture(self, explanation: str, kind: str, claim: int = 0) -> Picture:
        """A picture: ``lattice``, ``flow`` (sources to claims) or ``bars``.

        ``bars`` counts what each source counts for a claim, of the rules found; it asks nothing.

        Raises:
            ConfigError: no picture has this name, or nothing is known yet.
        """
        check_choice("kind", kind, ("lattice", "flow", "bars"))
        return self.job(explanation).picture(kind, claim)

    def page(self, explanation: str) -> str:
        """An explanation as one HTML page that opens offline.

        Raises:
            ConfigError: nothing is known yet.
        """
        view = self.view(explanation)
        if view.explanation is None:
            raise ConfigError("nothing is known yet", key="explanation", hint="wait a little")
        note = ("Its answers come from a session's file: they were not asked here.",)
        notes = (*note * view.opened, *view.explanation.notes)
        return Why(replace(view.explanation, notes=notes)).to_html()

    def red_team(self, suite: RedTeamSuite, kept: Path | None = None) -> RedTeamReport:
        """Try every attack on every question: what breaks, with how many injected sources.

        Args:
            suite: what is tried.
            kept: a file of cells, to go on from.

        Raises:
            RuleRAGError: as :func:`~rulerag.studio.service.redteam.red_team`.
        """
        return red_team(self.system(suite.system), suite, kept=kept)

    def start_red_team(self, suite: RedTeamSuite) -> RedTeamRun:
        """The same beside the screens; its cells are kept, and a further run goes on from them.

        Raises:
            ConfigError: too many run already, or a question is too long.
        """
        for question in suite.questions:
            check(State(question=question), self.limits)
        return self._red_teams.start(self.system(suite.system), suite)

    def replay(self, cell: Mapping[str, Any]) -> bool:
        """Whether a break that a red-team run found still is one; a cell as its file has it."""
        read = RedTeamCell.read(cell)
        return replay(self.system(read.system), read)
