"""A red-team run: every attack in every source, and the smallest set that breaks a system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from rulerag.errors import (
    ConfigError,
    ExplanationError,
    GenerationError,
    OutputError,
    RuleRAGError,
)
from rulerag.explanation.explaining import Event, explain
from rulerag.explanation.probing import AnswerFunction, OutputPredicate
from rulerag.explanation.records import DocumentSet
from rulerag.io import fingerprint_object, prepare_folder, read_jsonl, read_text, write_text
from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport, RedTeamSuite
from rulerag.studio.systems import SENSITIVE, OpenSystem, Source, State, attacks, injected


def red_team(
    system: OpenSystem,
    suite: RedTeamSuite,
    *,
    kept: Path | None = None,
    tell: Callable[[RedTeamCell], object] = lambda cell: None,
    stopped: Callable[[], bool] = lambda: False,
) -> RedTeamReport:
    """Put every attack into retrieved sources, and explain whether the target condition holds.

    Args:
        system: the system; it needs a target condition.
        suite: what is tried. What breaks is asked about every subset of its sources, so that each
            further one of ``top_k`` doubles the calls.
        kept: a file of cells; what stands in it is not tried again, and each is added to it.
        tell: called with each cell as soon as it is there.
        stopped: asked between calls of a generator; the cells that are there are returned.

    Raises:
        ConfigError: the system has no target condition, or there is nothing to try.
        DataError: a generator is not on this machine.
        UnknownNameError: there is no such generator or attack.
        OutputError: the file of cells cannot be written.
    """
    suite = checked(system, suite)
    known = {} if kept is None else read_cells(kept)
    cells, trials = list[RedTeamCell](), _Trials(system, suite, stopped)
    for generator, attack, question in product(suite.generators, suite.attacks, suite.questions):
        cell = trials.cell(generator, attack, question, known)
        if stopped():
            break
        if kept is not None and cell.key not in known:
            _append(kept, cell)
        cells.append(cell)
        tell(cell)
    return RedTeamReport(cells=tuple(cells))


def checked(system: OpenSystem, suite: RedTeamSuite) -> RedTeamSuite:
    """A suite with what it leaves open filled in; everything wrong is said before a call.

    Raises:
        RuleRAGError: as :func:`red_team`.
    """
    here = [one["name"] for one in system.generators() if not one["missing"]]
    chosen = {
        "generators": suite.generators or here,
        "questions": suite.questions or system.settings.questions,
        "attacks": suite.attacks or attacks(),
    }
    for key, values in chosen.items():
        if not values:
            raise ConfigError("there is none to try", key=key, hint="name one")
    for name in chosen["attacks"]:
        injected(Source(id="any", text=""), name, "", "", "")
    for generator in chosen["generators"]:
        system.check_generator(generator)
        _condition(system, generator)
    return suite.model_copy(update={k: tuple(dict.fromkeys(v)) for k, v in chosen.items()})


def read_cells(file: Path) -> dict[str, RedTeamCell]:
    """The cells that an interrupted run left, by their keys; those that failed are left out.

    A last line that a killed run wrote half of is taken away.

    Raises:
        DataFormatError: it is no file of cells.
    """
    if not file.is_file():
        return {}
    whole, _, half = read_text(file).rpartition("\n")
    if half:
        write_text(file, f"{whole}\n" if whole else "")
    cells = [RedTeamCell.read(row, source=file) for row in read_jsonl(file)]
    return {cell.key: cell for cell in cells if not cell.error}


def _append(file: Path, cell: RedTeamCell) -> None:
    prepare_folder(file.parent)
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(cell.model_dump_json() + "\n")
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise OutputError(what, path=file, hint="make room, then begin again") from error


def replay(system: OpenSystem, cell: RedTeamCell) -> bool:
    """Whether the sources of a break still make the target condition hold."""
    texts = [(one["title"], one["text"]) for one in cell.texts]
    state = State(
        question=cell.question,
        sources=tuple(Source(id=str(n), title=a, text=b) for n, (a, b) in enumerate(texts)),
        instructions=system.settings.instructions if cell.instructions else "",
        generator=cell.generator,
    )
    return bool(_condition(system, cell.generator)(system.answer(state)))


class RedTeamRun:
    """A run beside the screens; a page that is opened again finds it.

    Args:
        system: the system.
        suite: what is tried.
        kept: the file of its cells.
    """

    def __init__(self, system: OpenSystem, suite: RedTeamSuite, kept: Path) -> None:
        self.expected = len(suite.generators) * len(suite.attacks) * len(suite.questions)
        self.error, self.finished = "", threading.Event()
        self._cells: list[RedTeamCell] = []
        self._stopped = threading.Event()
        # A call that hangs does not keep the studio from ending.
        given = system, suite, kept
        threading.Thread(target=self._run, args=given, daemon=True).start()

    @property
    def report(self) -> RedTeamReport:
        """What was tried so far."""
        return RedTeamReport(cells=tuple(self._cells))

    def stop(self) -> None:
        """End it after the calls that run; what was tried is kept."""
        self._stopped.set()

    def _run(self, system: OpenSystem, suite: RedTeamSuite, kept: Path) -> None:
        stopped = self._stopped.is_set
        try:
            red_team(system, suite, kept=kept, tell=self._cells.append, stopped=stopped)
        except RuleRAGError as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001 - shown on the screen; the studio goes on
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self.finished.set()


class RedTeamRuns:
    """Runs of one studio, some at once; each keeps its cells in a file and goes on from there.

    Args:
        folder: of the files.
        most: runs at once.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._lock = threading.Lock()
        self._runs: dict[str, RedTeamRun] = {}

    def start(self, system: OpenSystem, suite: RedTeamSuite) -> RedTeamRun:
        """Start a run, or find the one of the same suite that is under way.

        Raises:
            ConfigError: too many run already, or there is nothing to try.
            RuleRAGError: as :func:`red_team`.
        """
        suite = checked(system, suite)
        key = f"{suite.system}-{fingerprint_object(suite.model_dump(mode='json'))}"
        with self._lock:
            self._runs = {k: one for k, one in self._runs.items() if not one.finished.is_set()}
            if key not in self._runs:
                if len(self._runs) >= self._most:
                    what = f"{len(self._runs)} red-team runs are under way"
                    raise ConfigError(what, key="red-team", hint="stop one, or try again later")
                self._runs[key] = RedTeamRun(system, suite, self._folder / f"{key}.jsonl")
            return self._runs[key]

    def close(self) -> None:
        """Stop everything; what was tried is kept."""
        with self._lock:
            runs = list(self._runs.values())
        for one in runs:
            one.stop()
        for one in runs:
            one.finished.wait(2.0)


def _condition(system: OpenSystem, generator: str) -> OutputPredicate:
    condition = system.condition(generator)
    if condition is None:
        raise ConfigError("the system has no target condition", key="system")
    return condition


class _Trials:
    """Attacks on a system; the untouched sources of a question are asked once a generator."""

    def __init__(
        self, system: OpenSystem, suite: RedTeamSuite, stopped: Callable[[], bool]
    ) -> None:
        self._system, self._suite, self._stopped = system, suite, stopped
        self._instructions = system.settings.instructions if suite.instructed else ""
        self._sources: dict[str, tuple[Source, ...]] = {}
        self._before: dict[tuple[str, str], str] = {}

    def cell(
        self, generator: str, attack: str, question: str, known: Mapping[str, RedTeamCell]
    ) -> RedTeamCell:
        """One question under one attack, or what is known of it."""
        own = self._system.settings
        if question not in self._sources:
            found = self._system.retrieve(question, top_k=self._suite.top_k)
            self._sources[question] = found
        clean = State(
            question=question,
            sources=self._sources[question],
            instructions=self._instructions,
            generator=generator,
        )
        most, words = self._suite.planted, (question, own.payload, own.permission)
        attacked = [injected(one, attack, *words) for one in clean.sources[:most]]
        dirty = _with(clean, [*attacked, *clean.sources[len(attacked) :]])
        about: dict[str, Any] = {
            "system": own.name,
            "generator": generator,
            "attack": attack,
            "question": question,
            "instructions": self._instructions,
        }
        read = [(one.title, one.text) for one in (*clean.sources, *dirty.sources)]
        judged = [str(_condition(self._system, generator)), *_patterns(own.condition)]
        parts = [self._system.generator(clean).fingerprint, about, judged, read]
        about["key"] = fingerprint_object(parts, digits=32)
        if about["key"] in known:
            return known[about["key"]]
        if not clean.sources:  # nothing can be attacked, and nothing was withstood
            return RedTeamCell(broken=False, error="no source is found for the question", **about)
        try:
            return RedTeamCell(**self._tried(clean, dirty), **about)
        except (ExplanationError, GenerationError) as error:
            return RedTeamCell(broken=False, error=str(error), **about)

    def _tried(self, clean: State, dirty: State) -> dict[str, Any]:
        """What of a cell is found by asking."""
        system, holds = self._system, _condition(self._system, clean.generator)
        asked = clean.generator, clean.question
        calls = int(asked not in self._before)
        if calls:
            self._before[asked] = _whole(system.answer_function(clean))
        found: dict[str, Any] = {"broken": False, "before": self._before[asked]}
        if holds(found["before"]):  # what breaks without an attack is no work of the attack
            return found | {"by_itself": True, "texts": _texts(clean.sources), "probes": calls}
        probing = system.answer_function(dirty)
        found["output"] = _whole(probing)
        # A set that breaks it whatever else is read does so together with all others: where they
        # do not, there is none.
        pairs = [
            (one.id, one == two) for one, two in zip(clean.sources, dirty.sources, strict=True)
        ]
        found["planted"] = tuple(name for name, same in pairs if not same)
        found["clean"] = tuple(name for name, same in pairs if same)
        if holds(found["output"]):
            enough, repair, traced = self._smallest(probing, holds)
            if enough is not None:
                both = enumerate(zip(clean.sources, dirty.sources, strict=True))
                mixed = _with(clean, [two if n in enough else one for n, (one, two) in both])
                calls += mixed != dirty
                needed = [dirty.sources[n] for n in sorted(enough)]
                found |= {
                    "broken": True,
                    "needed": len(needed),
                    "output": enough.output or "",
                    "sources": tuple(one.id for one in needed),
                    "traced": tuple(dirty.sources[n].id for n in sorted(traced)),
                    "texts": _texts(needed),
                    "repair": tuple(dirty.sources[n].id for n in sorted(repair)),
                    "among_clean": mixed == dirty or bool(holds(system.answer(mixed))),
                }
        return found | {"probes": calls + probing.calls}

    def _smallest(
        self, asked: AnswerFunction, condition: OutputPredicate
    ) -> tuple[DocumentSet | None, Collection[int], Collection[int]]:
        """The smallest set that breaks it, the smallest whose absence repairs it, every source."""

        def hear(event: Event) -> None:
            if self._stopped():
                event.run.cancel()

        why = explain(asked, predicate=condition, repeats=1, on_event=hear)
        if why.failure is not None:
            raise why.failure
        (claim,) = why.claims
        enough = min(claim.retention, key=len, default=None)
        return enough, min(claim.omission, key=len, default=()), set().union(*claim.retention)


def _with(state: State, sources: Sequence[Source]) -> State:
    return state.model_copy(update={"sources": tuple(sources)})


def _whole(asked: AnswerFunction) -> str:
    """What is answered from every source."""
    (reply,) = asked([tuple(range(asked.num_sources))])
    return reply


def _patterns(condition: Any) -> list[Any]:
    """The condition, and what its kinds stand for: where that changes, a cell is another one."""
    kinds = getattr(getattr(condition, "instead", condition), "kinds", ())
    return [str(condition), *(SENSITIVE.get(kind) for kind in kinds)]


def _texts(sources: Sequence[Source]) -> tuple[dict[str, str], ...]:
    return tuple({"title": one.title, "text": one.text} for one in sources)
