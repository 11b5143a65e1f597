"""The actions of the studio, each one library call; the faces add nothing to them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rulerag.composition import check_choice
from rulerag.errors import (
    ConfigError,
    EditConflictError,
    UnknownNameError,
    did_you_mean,
)
from rulerag.explanation.any_answer import Explained, Why, estimate
from rulerag.explanation.views import Picture
from rulerag.studio.benchmarks import Benchmark, Run, read_run
from rulerag.studio.service.editing import changed, check
from rulerag.studio.service.files import exported, kept_of, read_session, view_of
from rulerag.studio.service.jobs import Job, Jobs, documents_of, new_view
from rulerag.studio.service.records import (
    Change,
    Configure,
    Goal,
    Limits,
    Probe,
    Session,
    State,
    View,
)
from rulerag.studio.service.redteam import RedTeamRun, RedTeamRuns, red_team, replay
from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport
from rulerag.studio.service.storage import Storage
from rulerag.studio.systems import (
    Answerer,
    Attack,
    Documents,
    EndpointReader,
    EndpointSettings,
    OpenSystem,
    SystemSettings,
    as_json,
    attacks,
    benchmark_system,
    read_system,
    shipped_systems,
)

_BUDGET = 500
_NAME = 200


class Studio:
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
        self.limits = limits or Limits()
        own = [read_system(file) for file in sorted((data / "systems").glob("*.yaml"))]
        every = [*shipped_systems(), *map(benchmark_system, benchmarks), *own, *systems]
        self._systems = {one.name: OpenSystem(one) for one in every}
        self._runs = {one.resolve().name: one for one in runs}
        self._storage = Storage(data, self.limits.undo)
        self._jobs = Jobs(self.limits)
        self._red_teams = RedTeamRuns(data / "red-team", self.limits.jobs)
        self._locks: dict[str, threading.RLock] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Cancel what runs, keep what is known, close the file."""
        self._red_teams.close()
        self._jobs.close()
        self._storage.close()

    # --- systems ----

    def systems(self) -> list[dict[str, Any]]:
        """Every system: what it is, what may answer, its target condition."""
        return [
            as_json(one.settings)
            | {"generators": one.generators(), "retrievers": list(one.retrievers)}
            for one in self._systems.values()
        ]

    def system(self, name: str) -> OpenSystem:
        """One system; :class:`UnknownNameError` where there is none of this name."""
        if name not in self._systems:
            hint = did_you_mean(name, self._systems)
            raise UnknownNameError(f"no system is called {name!r}", hint=hint)
        return self._systems[name]

    def add_system(self, settings: SystemSettings) -> str:
        """Add a system of texts for as long as this studio runs.

        For one that stays, put its YAML file into ``systems`` of the data folder: paths and keys
        are read from there alone.

        Raises:
            ConfigError: it names files, a variable with a key, or a name that is taken.
        """
        if settings.corpus or settings.benchmark:
            key = "corpus" if settings.corpus else "benchmark"
            raise ConfigError("paths are read from files alone", key=key, hint="give documents")
        if any(getattr(one, "api_key_env", "") for one in settings.generators):
            raise ConfigError("is read from files alone", key="api_key_env", hint="leave it out")
        if len(settings.documents) > 10 * self.limits.sources:
            raise ConfigError(f"{len(settings.documents):,} are too many", key="documents")
        made = OpenSystem(settings)
        _ = made.documents
        for one in settings.generators:
            made.condition(one.name)
        with self._lock:
            if settings.name in self._systems:
                raise ConfigError(f"{settings.name!r} is taken", key="name", hint="another name")
            self._systems[settings.name] = made
        return settings.name

    def attacks(self) -> list[Attack]:
        """The library of attack templates."""
        return list(attacks().values())

    def rules_for(self, system: str, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question in a benchmark; none in other systems.

        Raises:
            DataError: the question names nothing of the benchmark.
        """
        return self.system(system).rules_for(question)

    def search_rules(self, system: str, words: str = "") -> list[dict[str, Any]]:
        """Rules of a benchmark's bank that hold every word, the most confident first; 50 at most.

        Raises:
            ConfigError: the system is no benchmark.
        """
        found = self._bench(system).search(words)
        return [one.to_json() | {"id": one.id} for one in found]

    def rule_examples(self, system: str, rule: str) -> dict[str, Any]:
        """Groundings of a rule in a benchmark's documents, for and against it.

        Raises:
            ConfigError: the system is no benchmark, or its bank holds no such rule.
        """
        return asdict(self._bench(system).examples_of(rule))

    def _bench(self, system: str) -> Benchmark:
        opened = self.system(system)
        if not opened.settings.benchmark:
            hint = "rulerag studio --dataset FOLDER"
            raise ConfigError("has no mined rules", key="system", hint=hint)
        return opened.benchmark

    def runs(self) -> list[str]:
        """The names of the run folders that were opened."""
        return list(self._runs)

    def run(self, name: str) -> Run:
        """A run of ``rulerag evaluate``, query by query.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: its folder is damaged.
        """
        if name not in self._runs:
            raise UnknownNameError(f"no run {name!r}", hint=did_you_mean(name, self._runs))
        return read_run(self._runs[name])

    # --- sessions ----

    def new_session(self, system: str, name: str = "", question: str | None = None) -> Session:
        """Begin a session.

        Raises:
            UnknownNameError: no system has this name.
            ConfigError: there are too many sessions.
        """
        opened = self.system(system)
        if self._storage.count() >= self.limits.sessions:
            what = f"there are {self.limits.sessions:,} sessions"
            raise ConfigError(what, key="sessions", hint="delete some")
        own = opened.settings
        asked = question if question is not None else (opened.examples() or ("",))[0]
        usable = [one["name"] for one in opened.generators() if not one["missing"]]
        state = State(
            question=asked,
            instructions=own.instructions,
            instructed=bool(own.instructions),
            generator=(usable or [own.generators[0].name])[0],
            retriever=opened.retrievers[0],
        )
        check(state, self.limits)
        session = secrets.token_urlsafe(9)
        self._storage.create(session, (name or own.title)[:_NAME], system, state)
        return self.session(session)

    def sessions(self) -> list[dict[str, Any]]:
        """Every session by id, name and system, the last changed first."""
        return self._storage.summaries()

    def session(self, session: str) -> Session:
        """One session as it is now; :class:`UnknownNameError` where there is none of this id."""
        return self._storage.session(session)

    def rename(self, session: str, name: str) -> Session:
        """Give a session another name."""
        self._storage.rename(session, name.strip()[:_NAME] or "unnamed")
        return self.session(session)

    def delete(self, session: str) -> None:
        """Forget a session, its explanations and its jobs."""
        self.session(session)
        for job in self._jobs.of_session(session):
            job.cancel()
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
            if wanted not in system.retrievers:
                hint = did_you_mean(wanted, system.retrievers)
                raise UnknownNameError(f"no retriever is called {wanted!r}", hint=hint)
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

    # --- answers ----

    def answer(self, session: str) -> dict[str, Any]:
        """What the system answers from the sources as they are now.

        Returns:
            ``text``; ``holds`` (whether the target condition holds, None without one), the
            ``condition`` in words, and in ``generator`` what answered.

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
        answerer = system.answerer(state.generator, state.rules_off)
        told = state.instructions if state.instructed else ""
        return answerer, documents_of(state, system.document), told

    def _judged(self, session: str, state: State, text: str) -> dict[str, Any]:
        system = self.system(self.session(session).system)
        condition = system.condition(state.generator)
        return {
            "text": text,
            "holds": None if condition is None else bool(condition(text)),
            "condition": "" if condition is None else str(condition),
            "generator": system.answerer(state.generator, state.rules_off).about,
        }

    def estimate(self, session: str, budget: int = _BUDGET) -> dict[str, Any]:
        """What an explanation will cost, before the first call."""
        seen = self.session(session)
        system = self.system(seen.system)
        settings = system.generator_settings(seen.state.generator)
        price = settings.price if isinstance(settings, EndpointSettings) else None
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
        if budget < 1:
            raise ConfigError(f"{budget} is below 1", key="budget", hint="500")
        condition = system.condition(state.generator)
        aim: Goal = goal or ("claims" if condition is None else "target")
        expected = estimate(state.question, [one.text for one in state.sources], budget=budget).most
        view = new_view(
            secrets.token_urlsafe(9), session, state, aim, str(condition or ""), expected
        )
        job = self._job(view, system)
        self._jobs.start(job, budget)
        return job.view

    def _job(self, view: View, system: OpenSystem, known: Any = None) -> Job:
        settings = system.generator_settings(view.state.generator)
        return Job(
            view,
            documents_of(view.state, system.document),
            system.answerer(view.state.generator, view.state.rules_off),
            system.condition(view.state.generator),
            price=settings.price if isinstance(settings, EndpointSettings) else None,
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

    def picture(self, explanation: str, kind: str, claim: int = 0) -> Picture:
        """A picture: ``lattice``, ``flow`` (sources to claims), ``certainty`` or ``bars``.

        ``bars`` counts what each source counts for a claim, of the rules found; it asks nothing.

        Raises:
            ConfigError: no picture has this name, or nothing is known yet.
        """
        check_choice("kind", kind, ("lattice", "flow", "certainty", "bars"))
        job = self.job(explanation)
        if not job.view.state.sources or job.explained is None:
            raise ConfigError("nothing is known yet", key="explanation", hint="wait a little")
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
        answerer = system.answerer(job.view.state.generator, job.view.state.rules_off)
        self._storage.keep(job.id, job.view.session, kept_of(job, answerer.fingerprint))

    # --- files ----

    def export(self, session: str) -> dict[str, Any]:
        """A session as one JSON object: state, explanations, every probe; no keys, no paths."""
        seen = self.session(session)
        kept = [self._storage.explanation(one) for one in seen.explanations]
        return exported(seen, as_json(self.system(seen.system).settings), kept)

    def load(self, row: Any) -> Session:
        """Open an exported session as a new one; asks no model.

        Raises:
            DataFormatError: it is no session, of another version, or damaged.
            UnknownNameError: its system is not here.
            ConfigError: it is over a limit.
        """
        read = read_session(row, self.limits)
        made = self.new_session(read.system, f"{read.name} (opened)")
        self._storage.push(made.id, read.state)
        for view, one in read.explanations:
            new = secrets.token_urlsafe(9)
            moved = view.model_copy(update={"id": new, "session": made.id})
            self._storage.keep(new, made.id, {**one, "view": moved.model_dump(mode="json")})
        return self.session(made.id)
