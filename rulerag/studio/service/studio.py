"""The actions of the studio, each one library call; the faces add nothing to them.

In three layers: :mod:`~rulerag.studio.service.catalogue` (systems, rule banks, runs) under
:mod:`~rulerag.studio.service.sessions` (asked, changed, kept) under what stands here: answers,
explanations, red teaming.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, UnknownNameError
from rulerag.explanation.any_answer import Explained, Why, estimate
from rulerag.explanation.views import Picture
from rulerag.studio.service.editing import changed, check
from rulerag.studio.service.files import kept_of, view_of
from rulerag.studio.service.jobs import Job, Jobs, documents_of, new_view
from rulerag.studio.service.records import (
    Configure,
    Goal,
    Level,
    Limits,
    Node,
    Probe,
    State,
    View,
)
from rulerag.studio.service.redteam import RedTeamRun, RedTeamRuns, red_team, replay
from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport
from rulerag.studio.service.sessions import Sessions
from rulerag.studio.service.viewing import remembered, source_moves, word_changes
from rulerag.studio.systems import (
    Answerer,
    Documents,
    EndpointReader,
    OpenSystem,
    Source,
    SystemSettings,
)

_BUDGET = 500


class Studio(Sessions):
    """Sessions with RAG systems: ask, see, change, break, compare.

    Methods may be called from any thread.

    Args:
        data: the folder of its sessions; ``systems/*.yaml`` in it are systems of one's own.
        systems: systems besides the shipped ones and those of ``data``.
        benchmarks: benchmark folders that become systems.
        runs: run folders of ``rulerag evaluate`` to look into.
        limits: what it takes on.

    Raises:
        ConfigError: a system's file is wrong.
        OutputError: the folder cannot be written.
    """

    def __init__(
        self,
        data: Path,
        *,
        systems: Sequence[SystemSettings] = (),
        benchmarks: Sequence[Path] = (),
        runs: Sequence[Path] = (),
        limits: Limits | None = None,
    ) -> None:
        super().__init__(data, systems=systems, benchmarks=benchmarks, runs=runs, limits=limits)
        self._jobs = Jobs(self.limits)
        self._red_teams = RedTeamRuns(data / "red-team", self.limits.jobs)
        self._answered: dict[str, tuple[Sequence[Source], str | None]] = {}
        """By session, the sources and the text of the answer before."""

    def close(self) -> None:
        """Cancel what runs, keep what is known, close the file."""
        self._red_teams.close()
        self._jobs.close()
        self._storage.close()

    def delete(self, session: str) -> None:
        """Forget a session, its explanations and its jobs."""
        self.session(session)
        for job in self._jobs.of_session(session):
            job.cancel()
        super().delete(session)
        with self._lock:
            self._answered.pop(session, None)

    # --- answers ----

    def answer(self, session: str) -> dict[str, Any]:
        """What the system answers from the sources as they are now.

        Returns:
            ``text``; ``holds`` (whether the target condition holds, None without one), the
            ``condition`` in words, and in ``generator`` what answered. Of a session that was asked
            before, in ``before`` the answer before, in ``words`` what of it stayed (``same``), is
            new (``added``) or gone (``removed``), and in ``moves`` the sources that are read
            elsewhere, otherwise or no more.

        Raises:
            RuleRAGError: what answers is not here, or failed.
        """
        state = self.session(session).state
        answerer, documents, told = self._asking(session, state)
        (text,) = answerer.answer(state.question, [documents], told)
        return self._judged(session, state, text)

    def answer_pieces(self, session: str) -> Generator[str, None, dict[str, Any]]:
        """The same, its text in pieces as an endpoint writes it; else the whole text at once.

        Returns:
            In the end what :meth:`answer` returns.

        Raises:
            RuleRAGError: as :meth:`answer`.
        """
        state = self.session(session).state
        answerer, documents, told = self._asking(session, state)
        if isinstance(answerer, EndpointReader):
            pieces = answerer.pieces(state.question, documents, told)
        else:
            pieces = iter(answerer.answer(state.question, [documents], told))
        said = ""
        for piece in pieces:
            said += piece
            yield piece
        return self._judged(session, state, said.strip())

    def _asking(self, session: str, state: State) -> tuple[Answerer, Documents, str]:
        """What answers, what it reads, and the instructions that it gets."""
        system = self.system(self.session(session).system)
        answerer = _answerer(system, state)
        told = state.instructions if state.instructed else ""
        return answerer, documents_of(state, system.document), told

    def _judged(self, session: str, state: State, text: str) -> dict[str, Any]:
        system = self.system(self.session(session).system)
        condition = system.condition(state.generator)
        read = remembered(state.sources)
        with self._lock:
            sources, before = self._answered.get(session, ((), None))
            self._answered[session] = read, text
        moves = () if before is None else source_moves(sources, read)
        return {
            "text": text,
            "holds": None if condition is None else bool(condition(text)),
            "condition": "" if condition is None else str(condition),
            "generator": _answerer(system, state).about,
            "before": before,
            "words": () if before is None else word_changes(before, text),
            "moves": [one.model_dump() for one in moves],
        }

    def estimate(self, session: str, budget: int = _BUDGET) -> dict[str, Any]:
        """What an explanation will cost, before the first call."""
        seen = self.session(session)
        system = self.system(seen.system)
        price = system.price(seen.state.generator)
        texts = [one.text for one in seen.state.sources]
        told = estimate(seen.state.question, texts, budget=budget, price=price)
        return {"words": str(told), **asdict(told)}

    def explain(
        self,
        session: str,
        goal: Goal | None = None,
        *,
        budget: int = _BUDGET,
        generator: str | None = None,
        instructed: bool | None = None,
        instructions: str | None = None,
        retriever: str | None = None,
    ) -> View:
        """Begin to explain; :meth:`job` tells how it goes on.

        Args:
            session: the session.
            goal: ``target`` (which sources make the system break its instructions; the default
                where it has a target condition) or ``claims``.
            budget: calls at most.
            generator: another one than the session's, to compare.
            instructed: with or without the safety instructions, likewise.
            instructions: others than the session's, likewise.
            retriever: another one, whose sources take the place of the session's, likewise.

        Raises:
            RuleRAGError: there is nothing to explain, too much runs, what answers is not here.
        """
        seen = self.session(session)
        system = self.system(seen.system)
        state = changed(
            seen.state,
            Configure(generator=generator, instructed=instructed, instructions=instructions),
            system,
            self.limits,
        )
        if not state.question.strip():
            raise ConfigError("there is no question", key="question", hint="ask something")
        if retriever is not None:
            system.check_retriever(retriever)
            sources = system.retrieve(state.question, retriever, None, state.rules_off)
            state = state.model_copy(update={"retriever": retriever, "sources": sources})
        if budget < 1:
            raise ConfigError(f"{budget} is below 1", key="budget", hint="500")
        condition = system.condition(state.generator)
        aim: Goal = goal or ("claims" if condition is None else "target")
        expected = estimate(state.question, [one.text for one in state.sources], budget=budget).most
        view = new_view(
            secrets.token_urlsafe(9), session, state, aim, str(condition or ""), expected
        )
        _answerer(system, state)  # what is not here says so now
        job = self._job(view, system)
        self._jobs.start(job, budget)
        return job.view

    def _job(self, view: View, system: OpenSystem, known: Any = None) -> Job:
        return Job(
            view,
            documents_of(view.state, system.document),
            partial(_answerer, system, view.state),
            system.condition(view.state.generator),
            price=system.price(view.state.generator),
            known=known,
            keep=self._keep,
        )

    def job(self, explanation: str) -> Job:
        """A running or finished explanation; one of an earlier run comes back without a call.

        Raises:
            UnknownNameError: there is none of this id, or its system is gone.
        """
        try:
            return self._jobs.get(explanation)
        except UnknownNameError:
            kept = self._storage.explanation(explanation)
        view = view_of(kept)
        system = self.system(self.session(view.session).system)
        known = {tuple(row[0]): str(row[1]) for row in kept["outputs"]}
        job = self._job(view, system, known)
        if kept.get("explained"):
            job.explained = Explained.from_json(kept["explained"])
        job.finished.set()
        return job

    def view(self, explanation: str) -> View:
        """An explanation as it is known now; asks nothing."""
        try:
            return self._jobs.get(explanation).view
        except UnknownNameError:
            return view_of(self._storage.explanation(explanation))

    def jobs_of(self, session: str) -> list[str]:
        """The ids of the explanations of a session that this process began, oldest first."""
        return [job.id for job in self._jobs.of_session(session)]

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

    def probe(self, explanation: str, kept: Sequence[int], *, again: bool = False) -> Probe:
        """Ask one subset of an explanation's sources (places from 0); see :meth:`Job.ask`."""
        return self.job(explanation).ask(kept, again=again)

    def levels(self, explanation: str, claim: int = 0) -> list[Level]:
        """What was asked of an explanation's subsets, by how many sources they keep."""
        return self.job(explanation).levels(claim)

    def nodes(self, explanation: str, size: int, claim: int = 0) -> list[Node]:
        """The subsets of one size: all where they are few, else those asked; see :meth:`probe`."""
        return self.job(explanation).nodes(size, claim)

    def picture(self, explanation: str, kind: str, claim: int = 0) -> Picture:
        """A picture: ``lattice``, ``flow`` (sources to claims), ``certainty`` or ``bars``.

        ``bars`` counts what each source counts for a claim, of the rules found; it asks nothing.

        Raises:
            ConfigError: no picture has this name, or nothing is known yet.
        """
        check_choice("kind", kind, ("lattice", "flow", "certainty", "bars"))
        job = self.job(explanation)
        drawn = job.outputs if kind == "lattice" else job.explained
        if not job.view.state.sources or not drawn:
            raise ConfigError("nothing is known yet", key="explanation", hint="wait a little")
        if kind == "bars":
            return job.bars(claim)
        return job.lattice(claim) if kind == "lattice" else job.picture(kind, claim)

    def page(self, explanation: str) -> str:
        """An explanation as one HTML page that opens offline.

        Raises:
            ConfigError: nothing is known yet.
        """
        explained = self.job(explanation).explained
        if explained is None:
            raise ConfigError("nothing is known yet", key="explanation", hint="wait a little")
        return Why(explained).to_html()

    def red_team(self, system: str, generators: Sequence[str], **options: Any) -> RedTeamReport:
        """Try every attack on every question: what breaks, with how many injected sources.

        Args:
            system: the system.
            generators: what answers.
            options: of :func:`~rulerag.studio.service.redteam.red_team`: ``questions``, ``names``
                (of attacks), ``instructed``, ``kept`` (a file of cells, to go on from).
        """
        return red_team(self.system(system), generators, **options)

    def start_red_team(self, system: str, generators: Sequence[str], **options: Any) -> RedTeamRun:
        """The same beside the screens; its cells are kept, and a further run goes on from them.

        Args:
            system: the system.
            generators: what answers.
            options: ``questions``, ``names`` and ``instructed`` of :meth:`red_team`.

        Raises:
            ConfigError: too many run already, or a question is too long.
        """
        for question in options.get("questions") or ():
            check(State(question=question), self.limits)
        return self._red_teams.start(self.system(system), generators, **options)

    def replay(self, cell: Mapping[str, Any]) -> bool:
        """Whether a break that a red-team run found still is one; a cell as its file has it."""
        read = RedTeamCell.read(cell)
        return replay(self.system(read.system), read)

    def _keep(self, job: Job) -> None:
        system = self.system(self.session(job.view.session).system)
        answerer = _answerer(system, job.view.state)
        self._storage.keep(job.id, job.view.session, kept_of(job, answerer.fingerprint))


def _answerer(system: OpenSystem, state: State) -> Answerer:
    return system.answerer(state.generator, state.rules_off, state.retriever)
