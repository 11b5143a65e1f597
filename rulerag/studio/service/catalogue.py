"""The systems of a studio, the rule banks of its benchmarks, and its runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from rulerag.composition import check_range
from rulerag.errors import ConfigError, RuleRAGError, UnknownNameError, did_you_mean
from rulerag.io import prepare_folder
from rulerag.studio.benchmarks import (
    Benchmark,
    Differences,
    Run,
    RunPair,
    Understood,
    Way,
    compared,
    differences,
    read_run,
)
from rulerag.studio.service.editing import check
from rulerag.studio.service.jobs import documents_of
from rulerag.studio.service.records import Beside, Found, Limits, State
from rulerag.studio.systems import (
    Attack,
    OpenSystem,
    OwnSystem,
    Source,
    SystemSettings,
    adopted,
    as_json,
    attacks,
    benchmark_system,
    check_foreign,
    folders,
    problems,
    read_system,
    save,
    shipped_systems,
)
from rulerag.text import contains_answer


class Catalogue:
    """What can be asked and looked into; the lowest layer of a studio: it keeps no session.

    Args:
        data: the folder whose ``systems/*.yaml`` are systems of one's own.
        systems: systems besides the shipped ones and those of ``data``.
        benchmarks: benchmark folders that become systems.
        runs: run folders of ``rulerag evaluate`` to look into.
        limits: what it takes on.

    Raises:
        ConfigError: a system's file is wrong.
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
        self.own_place = data / "systems"
        """Where the files of one's own systems lie."""
        own = [read_system(file) for file in sorted(self.own_place.glob("*.yaml"))]
        every = [*shipped_systems(), *map(benchmark_system, benchmarks), *own, *systems]
        self._systems = {one.name: OpenSystem(one) for one in every}
        self._runs = {one.resolve().name: one for one in runs}
        self._lock = threading.Lock()

    def systems(self) -> list[dict[str, Any]]:
        """Every system: what it is, what may answer, its target condition."""
        return [
            as_json(one.settings)
            | {"generators": one.generators(), "retrievers": one.retriever_rows()}
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
        check_foreign(settings)
        if len(settings.documents) > 10 * self.limits.sources:
            raise ConfigError(f"{len(settings.documents):,} are too many", key="documents")
        made = OpenSystem(settings)
        _ = made.documents
        for one in settings.generators:
            made.condition(one.name)
        self._add(made)
        return settings.name

    def _add(self, made: OpenSystem) -> None:
        name = made.settings.name
        with self._lock:
            if name in self._systems:
                raise ConfigError(f"{name!r} is taken", key="name", hint="another name")
            self._systems[name] = made

    def own_folders(self) -> list[str]:
        """The folders and ``.jsonl`` files beside the systems' files, which a form may name."""
        return folders(self.own_place)

    def own_problems(self, form: OwnSystem) -> dict[str, str]:
        """What is wrong with a form, by field; nothing where :meth:`add_own` takes it."""
        found = problems(form, self.own_place, set(self._systems))
        most = 10 * self.limits.sources
        if len(form.texts) > most:
            found["texts"] = f"{len(form.texts):,} texts, at most {most:,}"
        for one in form.texts:
            if len(one.text) > self.limits.characters:
                what = f"{one.title!r} has {len(one.text):,} characters"
                found["texts"] = f"{what}, at most {self.limits.characters:,}"
        return found

    def add_own(self, form: OwnSystem) -> str:
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
        settings = save(form, prepare_folder(self.own_place))
        made = OpenSystem(settings)
        try:
            _ = made.documents
        except RuleRAGError:
            (self.own_place / f"{form.name}.yaml").unlink()
            raise
        self._add(made)
        return settings.name

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
            self._add(OpenSystem(adopted(row, sources, prepare_folder(self.own_place))))

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

    def understood(self, system: str, question: str) -> Understood:
        """What a question to a benchmark was taken to mean.

        Raises:
            ConfigError: the system is no benchmark.
        """
        return self._bench(system).understood(question)

    def query_sets(self, system: str) -> dict[str, int]:
        """The query sets and splits of a benchmark, with their sizes.

        Raises:
            ConfigError: the system is no benchmark.
        """
        return self._bench(system).query_sets()

    def differences(
        self,
        system: str,
        first: Way,
        second: Way,
        *,
        query_set: str = "full",
        most: int = 200,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Differences:
        """Where one way to answer a benchmark helps and where it hurts, query by query.

        With and without rules: ``Way("plain")`` and ``Way("guided")``. Two checkpoints: two
        encoders' retrievers, or two readers.

        Args:
            system: the benchmark.
            first: one way.
            second: the other.
            query_set: a set or split of its queries.
            most: so many queries at most, a sample where there are more.
            stopped: looked at between questions; true ends the run with the queries so far.

        Raises:
            RuleRAGError: the system is no benchmark, a name is unknown, or a model is not here.
        """
        opened = self.system(system)
        held = self._bench(system)
        for way in (first, second):
            opened.check_retriever(way.retriever)
            if way.generator:
                opened.answerer(way.generator, (), way.retriever)
        return differences(
            held,
            first,
            second,
            query_set=query_set,
            most=min(most, self.limits.budget),
            top_k=opened.settings.top_k,
            stopped=stopped,
        )

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
        told = opened.settings.instructions
        sides, answers = [], []
        for way in (first, second):
            opened.check_retriever(way.retriever)
            found = opened.retrieve(question, way.retriever, top_k, rules_off)
            sides.append({one.id: one for one in found})
            said = ""
            if way.generator:
                reader = opened.answerer(way.generator, rules_off, way.retriever)
                documents = documents_of(State(sources=found), opened.document)
                (said,) = reader.answer(question, [documents], told)
            answers.append(said)
        accepted = opened.accepted(question)
        rows = [
            Found(
                source=both_of(sides[0].get(name), sides[1].get(name)),
                first=rank_of(sides[0], name),
                second=rank_of(sides[1], name),
                holds=None,
            )
            for name in dict.fromkeys((*sides[0], *sides[1]))
        ]
        if accepted:
            rows = [
                one.model_copy(update={"holds": contains_answer(one.source.text, accepted)})
                for one in rows
            ]
        return Beside(
            question=question,
            first=opened.way_in_words(first.retriever, first.generator),
            second=opened.way_in_words(second.retriever, second.generator),
            found=tuple(rows),
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
        if name not in self._runs:
            raise UnknownNameError(f"no run {name!r}", hint=did_you_mean(name, self._runs))
        folder = self._runs[name]
        file = folder / "predictions.jsonl"
        return _read(folder, file.stat().st_mtime_ns if file.is_file() else 0)

    def run_pair(self, first: str, second: str) -> RunPair:
        """Two runs, query by query.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: a folder is damaged.
        """
        return compared(self.run(first), self.run(second))


@lru_cache(maxsize=4)
def _read(folder: Path, changed: int) -> Run:
    """A run, read again when its file has changed."""
    return read_run(folder)


def both_of(first: Source | None, second: Source | None) -> Source:
    """A source of two searches, with the rules that found it by either."""
    found = first or second
    assert found is not None  # noqa: S101 - one of the two has it
    by = {one.rule: one for side in (second, first) if side for one in side.found_by}
    return found.model_copy(update={"found_by": tuple(by.values())})


def rank_of(found: Mapping[str, Source], name: str) -> int | None:
    """The rank of a source in a search, from 1; None where it was not found."""
    return found[name].rank if name in found else None
