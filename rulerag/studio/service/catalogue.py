"""The systems of a studio, the rule banks of its benchmarks, and its runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rulerag.composition import check_range
from rulerag.errors import ConfigError, DataError
from rulerag.studio.benchmarks import (
    Benchmark,
    Differences,
    Run,
    Way,
    differences,
    read_run,
)
from rulerag.studio.service.editing import check
from rulerag.studio.service.records import Beside, Found, Limits
from rulerag.studio.systems import (
    Attack,
    OpenSystem,
    OwnSystems,
    Reach,
    Source,
    State,
    SystemForm,
    SystemSettings,
    as_json,
    attacks,
    check_foreign,
    foreign,
    named,
    shipped_systems,
)
from rulerag.text import contains_answer


class Catalogue:
    """What can be asked and looked into; the lowest layer of a studio: it keeps no session.

    Args:
        data: the folder whose ``systems/*.yaml`` are systems of one's own.
        systems: systems besides the shipped ones and those of ``data``.
        runs: run folders of ``rulerag evaluate`` to look into.
        limits: what it takes on.
        endpoints: addresses of this network that forms, requests and files may name as endpoints.

    Raises:
        ConfigError: a system's file is wrong.
    """

    def __init__(
        self,
        data: Path,
        *,
        systems: Sequence[SystemSettings] = (),
        runs: Sequence[Path] = (),
        limits: Limits | None = None,
        endpoints: Sequence[str] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.own = OwnSystems(data / "systems")
        every = [*shipped_systems(), *self.own.read(), *systems]
        self.reach = Reach(endpoints)
        self._systems = {one.name: OpenSystem(one, self.reach) for one in every}
        self._runs = {one.resolve().name: one for one in runs}
        self._lock = threading.Lock()

    def systems(self) -> list[dict[str, Any]]:
        """Every system: what it is, what may answer, its target condition."""
        return [
            as_json(one.settings) | {"generators": one.generators(), "retrievers": one.retrievers()}
            for one in self._systems.values()
        ]

    def system(self, name: str) -> OpenSystem:
        """One system; :class:`UnknownNameError` where there is none of this name."""
        return named("system", name, self._systems)

    def add_system(self, settings: SystemSettings) -> str:
        """Add a system of texts for as long as this studio runs.

        For one that stays, put its YAML file into ``systems`` of the data folder: paths and keys
        are read from there alone.

        Raises:
            ConfigError: it names files, a variable with a key, or a name that is taken.
        """
        check_foreign(settings)
        settings = foreign(settings, self.reach)
        if len(settings.documents) > 10 * self.limits.sources:
            raise ConfigError(f"{len(settings.documents):,} are too many", key="documents")
        return self._add(settings)

    def _add(self, settings: SystemSettings) -> str:
        name, made = settings.name, OpenSystem(settings, self.reach)
        _ = made.documents
        with self._lock:
            if name in self._systems:
                raise ConfigError(f"{name!r} is taken", key="name", hint="another name")
            self._systems[name] = made
        return name

    def own_problems(self, form: SystemForm) -> dict[str, str]:
        """What is wrong with a form, by field; nothing where :meth:`add_own` takes it."""
        found = self.own.problems(form, self._systems)
        most = 10 * self.limits.sources
        if form.url and "url" not in found:
            try:
                self.reach.check(form.url)
            except ConfigError as error:
                found["url"] = f"{error.message}; {error.hint}" if error.hint else error.message
        if len(form.texts) > most:
            found["texts"] = f"{len(form.texts):,} texts, at most {most:,}"
        for one in form.texts:
            if len(one.text) > self.limits.characters:
                what = f"{one.title!r} has {len(one.text):,} characters"
                found["texts"] = f"{what}, at most {self.limits.characters:,}"
        return found

    def add_own(self, form: SystemForm) -> str:
        """Keep a system of one's own: its file is written beside the others.

        A key has no field: name its variable in the file, as ``api_key_env``.

        Raises:
            ConfigError: something is wrong; the first thing is named, and
                :meth:`own_problems` names all.
            DataError: the folder holds no text.
            OutputError: the file cannot be written.
        """
        for field, what in self.own_problems(form).items():
            raise ConfigError(what, key=field)
        try:
            return self._add(self.own.save(form))
        except DataError:
            (self.own.place / f"{form.name}.yaml").unlink()
            raise

    def adopt(self, row: Mapping[str, Any], sources: Sequence[Source]) -> None:
        """Keep the system of a session that comes from elsewhere, unless one has its name here.

        Args:
            row: the system as the session's file has it.
            sources: of the session; they become its corpus.

        Raises:
            UnknownNameError: it is a benchmark that is not open here.
            ConfigError: it holds what a system from elsewhere must not.
            OutputError: it cannot be written.
        """
        if row.get("name") not in self._systems:
            settings = self.own.adopt(row, sources)
            self._systems.setdefault(settings.name, OpenSystem(settings, self.reach))

    def attacks(self) -> list[Attack]:
        """The library of attack templates."""
        return list(attacks().values())

    def rules_for(self, system: str, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question in a benchmark; none in other systems.

        Raises:
            DataError: the question names nothing of the benchmark.
        """
        if not self.system(system).settings.benchmark:
            return []
        held = self.bench(system)
        return [one.to_json() | {"id": one.id} for one in held.rules(held.query(question))]

    def search_rules(self, system: str, words: str = "") -> list[dict[str, Any]]:
        """Rules of a benchmark's bank that hold every word, the most confident first; 50 at most.

        Raises:
            ConfigError: the system is no benchmark.
        """
        return [one.to_json() | {"id": one.id} for one in self.bench(system).search(words)]

    def bench(self, system: str) -> Benchmark:
        """The benchmark behind a system.

        Raises:
            ConfigError: the system is no benchmark.
        """
        return self.system(system).benchmark

    def differences(self, system: str, first: Way, second: Way, **options: Any) -> Differences:
        """Where one way to answer a benchmark helps and where it hurts, query by query.

        With and without rules: ``Way("plain")`` and ``Way("guided")``. Two checkpoints: two
        encoders' retrievers, or two readers.

        Args:
            system: the benchmark.
            first: one way.
            second: the other.
            options: ``query_set``, ``most`` and ``stopped`` of
                :func:`~rulerag.studio.benchmarks.differences`.

        Raises:
            RuleRAGError: the system is no benchmark, a name is unknown, or a model is not here.
        """
        opened, held = self.system(system), self.bench(system)
        for way in (first, second):
            opened.check_retriever(way.retriever)
            if way.generator:
                opened.check_generator(way.generator)
        options["most"] = min(options.get("most", 200), self.limits.budget)
        return differences(held, first, second, top_k=opened.settings.top_k, **options)

    def beside(
        self,
        system: str,
        question: str,
        first: Way,
        second: Way,
        *,
        top_k: int | None = None,
        rules_off: Sequence[str] = (),
    ) -> Beside:
        """One question two ways: what each retriever finds at which rank, and what is answered.

        Args:
            system: the system.
            question: the question.
            first: one way; nothing reads where its generator is empty.
            second: the other.
            top_k: as many sources; those of the system when None.
            rules_off: ids of mined rules that are switched off.

        Raises:
            RuleRAGError: a name is unknown, a model is not here, or it failed.
        """
        opened = self.system(system)
        if top_k is not None:
            check_range("top_k", top_k, 1, self.limits.sources)
        check(State(question=question), self.limits)
        sides, answers = [dict[str, Source](), dict[str, Source]()], ["", ""]
        titles = list[str]()
        for side, way in enumerate((first, second)):
            titles.append(opened.check_retriever(way.retriever))
            found = opened.retrieve(question, way.retriever, top_k, rules_off)
            sides[side] = {one.id: one for one in found}
            if way.generator:
                titles[side] += f"; {opened.generator_settings(way.generator).title}"
                state = State(
                    question=question,
                    sources=found,
                    instructions=opened.settings.instructions,
                    generator=way.generator,
                    retriever=way.retriever,
                    rules_off=tuple(rules_off),
                )
                answers[side] = opened.answer(state)
        accepted = opened.accepted(question)
        return Beside(
            question=question,
            first=titles[0],
            second=titles[1],
            found=tuple(
                _found([side.get(name) for side in sides], accepted)
                for name in dict.fromkeys((*sides[0], *sides[1]))
            ),
            answers=(answers[0], answers[1]),
            accepted=accepted,
        )

    def runs(self) -> list[str]:
        """The names of the run folders that were opened."""
        return list(self._runs)

    def run(self, name: str) -> Run:
        """A run of ``rulerag evaluate``, query by query.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: its folder is damaged.
        """
        folder = named("run", name, self._runs)
        file = folder / "predictions.jsonl"
        return _read(folder, file.stat().st_mtime_ns if file.is_file() else 0)


@lru_cache(maxsize=4)
def _read(folder: Path, changed: int) -> Run:
    """A run, read again when its file has changed."""
    return read_run(folder)


def _found(sides: Sequence[Source | None], accepted: Sequence[str]) -> Found:
    """A source of two searches, with the rules that found it by either."""
    source = next(one for one in sides if one is not None)
    rules = {rule: atom for one in sides if one for rule, atom in one.found_by.items()}
    first, second = (None if one is None else one.rank for one in sides)
    return Found(
        source=source.model_copy(update={"found_by": rules}),
        first=first,
        second=second,
        holds=contains_answer(source.text, accepted) if accepted else None,
    )
