"""The systems of a studio, the rule banks of its benchmarks, and its runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.studio.benchmarks import Benchmark, Run, read_run
from rulerag.studio.service.records import Limits
from rulerag.studio.systems import (
    Attack,
    OpenSystem,
    SystemSettings,
    as_json,
    attacks,
    benchmark_system,
    read_system,
    shipped_systems,
)


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
        own = [read_system(file) for file in sorted((data / "systems").glob("*.yaml"))]
        every = [*shipped_systems(), *map(benchmark_system, benchmarks), *own, *systems]
        self._systems = {one.name: OpenSystem(one) for one in every}
        self._runs = {one.resolve().name: one for one in runs}
        self._lock = threading.Lock()

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
