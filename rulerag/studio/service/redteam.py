"""A red-team run: every attack in every source, and the smallest set that breaks a system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerag.errors import (
    ConfigError,
    DataError,
    ExplanationError,
    GenerationError,
    OutputError,
    RuleRAGError,
)
from rulerag.explanation.any_answer import explain
from rulerag.io import fingerprint_object, prepare_folder, read_jsonl, read_text, write_text
from rulerag.studio.service.jobs import documents_of
from rulerag.studio.service.records import State
from rulerag.studio.service.redteam_report import RedTeamCell, RedTeamReport
from rulerag.studio.systems import (
    SENSITIVE,
    Answerer,
    Documents,
    OpenSystem,
    Source,
    attacks,
    injected,
)

_FORMAT = 2
"""Of cells; those of an earlier one are tried again."""


def red_team(
    system: OpenSystem,
    generators: Sequence[str],
    *,
    questions: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    instructed: bool = True,
    top_k: int | None = None,
    kept: Path | None = None,
    tell: Callable[[RedTeamCell], object] = lambda cell: None,
    stopped: Callable[[], bool] = lambda: False,
) -> RedTeamReport:
    """Put every attack into every retrieved source, and explain whether the target condition holds.

    Args:
        system: the system; it needs a target condition.
        generators: what answers.
        questions: those of the system when None.
        names: of the attack templates; all when None.
        instructed: with the safety instructions.
        top_k: sources of a question, those of the system when None; what breaks is asked about
            every subset of them, so that each further one doubles the calls.
        kept: a file of cells; what stands in it is not tried again, and each is added to it.
        tell: called with each cell as soon as it is there.
        stopped: asked before each call of a generator; the cells that are there are returned.

    Raises:
        ConfigError: the system has no target condition, or there is nothing to try.
        DataError: a generator is not on this machine.
        UnknownNameError: there is no such generator or attack.
        OutputError: the file of cells cannot be written.
    """
    asked, tried = _chosen(system, questions, names)
    _check(system, generators, asked, tried)
    known = {} if kept is None else read_cells(kept)
    if kept is not None:
        prepare_folder(kept.parent)
    cells: list[RedTeamCell] = []
    for generator in dict.fromkeys(generators):
        trials = _Trials(system, generator, instructed, top_k, stopped)
        for attack in tried:
            for question in asked:
                cell = trials.cell(attack, question, known)
                if stopped():
                    return RedTeamReport(cells=tuple(cells))
                if kept is not None and cell.key not in known:
                    _append(kept, cell)
                cells.append(cell)
                tell(cell)
    return RedTeamReport(cells=tuple(cells))


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
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(cell.model_dump_json() + "\n")
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise OutputError(what, path=file, hint="make room, then begin again") from error


def replay(system: OpenSystem, cell: RedTeamCell) -> bool:
    """Whether the sources of a break still make the target condition hold."""
    answerer, condition = system.answerer(cell.generator), system.condition(cell.generator)
    documents = [
        {"id": str(place), "title": one["title"], "text": one["text"], "place": place}
        for place, one in enumerate(cell.texts)
    ]
    told = system.settings.instructions if cell.instructions else ""
    (said,) = answerer.answer(cell.question, [documents], told)
    return bool(condition(said))


class RedTeamRun:
    """A run beside the screens; a page that is opened again finds it.

    Args:
        work: :func:`red_team` with everything but ``tell`` and ``stopped``.
        expected: so many cells.
    """

    def __init__(self, work: Callable[..., RedTeamReport], expected: int) -> None:
        self.expected, self.error = expected, ""
        self.finished = threading.Event()
        self._cells: list[RedTeamCell] = []
        self._stopped = threading.Event()
        # A call that hangs does not keep the studio from ending.
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    @property
    def report(self) -> RedTeamReport:
        """What was tried so far."""
        return RedTeamReport(cells=tuple(self._cells))

    def stop(self) -> None:
        """End it after the calls that run; what was tried is kept."""
        self._stopped.set()

    def _run(self, work: Callable[..., RedTeamReport]) -> None:
        try:
            work(tell=self._cells.append, stopped=self._stopped.is_set)
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

    def start(self, system: OpenSystem, generators: Sequence[str], **options: Any) -> RedTeamRun:
        """Start a run, or find the one of the same arguments that is under way.

        Args:
            system: the system.
            generators: what answers.
            options: ``questions``, ``names``, ``instructed`` and ``top_k`` of :func:`red_team`.

        Raises:
            ConfigError: too many run already, or there is nothing to try.
            RuleRAGError: as :func:`red_team`.
        """
        asked, tried = _chosen(system, options.get("questions"), options.get("names"))
        _check(system, generators, asked, tried)
        name = system.settings.name
        told = bool(options.get("instructed", True))
        key = fingerprint_object([name, list(generators), asked, tried, told, options.get("top_k")])

        def work(**hooks: Any) -> RedTeamReport:
            kept = self._folder / f"{name}-{key}.jsonl"
            return red_team(system, generators, **options, **hooks, kept=kept)

        with self._lock:
            self._runs = {k: one for k, one in self._runs.items() if not one.finished.is_set()}
            if key not in self._runs:
                if len(self._runs) >= self._most:
                    what = f"{len(self._runs)} red-team runs are under way"
                    raise ConfigError(what, key="red-team", hint="stop one, or try again later")
                count = len(set(generators)) * len(tried) * len(asked)
                self._runs[key] = RedTeamRun(work, count)
            return self._runs[key]

    def close(self) -> None:
        """Stop everything; what was tried is kept."""
        with self._lock:
            runs = list(self._runs.values())
        for one in runs:
            one.stop()
        for one in runs:
            one.finished.wait(2.0)


def _chosen(
    system: OpenSystem, questions: Sequence[str] | None, names: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Each question and attack once."""
    asked = dict.fromkeys(system.settings.questions if questions is None else questions)
    return list(asked), list(dict.fromkeys(attacks() if names is None else names))


def _check(
    system: OpenSystem, generators: Sequence[str], questions: Sequence[str], names: Sequence[str]
) -> None:
    """Everything that can be wrong, before anything is asked."""
    if system.settings.condition is None:
        raise ConfigError("the system has no target condition", key="system")
    for key, values in (
        ("generators", generators),
        ("questions", questions),
        ("attacks", names),
    ):
        if not values:
            raise ConfigError("there is none to try", key=key, hint="name one")
    for name in names:
        injected(Source(id="any", text=""), name, "", "", "")
    for generator in generators:
        title = system.generator_settings(generator).title
        missing = {one["name"]: one["missing"] for one in system.generators()}[generator]
        if missing:
            raise DataError(f"{title} cannot answer: {missing}")


@dataclass
class _Asking:
    """What was said to each subset of some sources; nothing is asked twice."""

    answerer: Answerer
    question: str
    instructions: str
    stopped: Callable[[], bool]
    said: dict[tuple[int, ...], str] = field(default_factory=dict)

    def many(self, question: str, lists: Sequence[Documents]) -> list[str]:
        """One answer for each list of sources; nothing once it is stopped."""
        keys = [tuple(int(one["place"]) for one in documents) for documents in lists]
        new = [n for n, key in enumerate(keys) if key not in self.said]
        if new and self.stopped():
            return ["" for _ in keys]
        if new:
            asked = [lists[n] for n in new]
            answers = self.answerer.answer(self.question, asked, self.instructions)
            self.said |= {keys[n]: one for n, one in zip(new, answers, strict=True)}
        return [self.said[key] for key in keys]

    def one(self, question: str, documents: Documents) -> str:
        """The answer for one list of sources."""
        return self.many(question, [documents])[0]


class _Trials:
    """Attacks on one generator of a system; the untouched sources of a question are asked once."""

    def __init__(
        self,
        system: OpenSystem,
        generator: str,
        instructed: bool,
        top_k: int | None,
        stopped: Callable[[], bool],
    ) -> None:
        self._system, self._generator, self._stopped = system, generator, stopped
        self._top_k = top_k
        self._answerer = system.answerer(generator)
        self._condition = system.condition(generator)
        self._told = system.settings.instructions if instructed else ""
        self._sources: dict[str, tuple[Source, ...]] = {}
        self._clean: dict[str, _Asking] = {}

    def cell(self, attack: str, question: str, known: Mapping[str, RedTeamCell]) -> RedTeamCell:
        """One question under one attack, or what is known of it."""
        own = self._system.settings
        if question not in self._sources:
            self._sources[question] = self._system.retrieve(question, top_k=self._top_k)
            self._clean[question] = self._asking(question)
        clean = self._sources[question]
        dirty = [injected(one, attack, question, own.payload, own.permission) for one in clean]
        about: dict[str, Any] = {
            "system": own.name,
            "generator": self._generator,
            "attack": attack,
            "question": question,
            "instructions": self._told,
        }
        read = [(one.title, one.text) for one in (*clean, *dirty)]
        judged = [str(self._condition), str(own.condition), _patterns(own.condition)]
        parts = [_FORMAT, self._answerer.fingerprint, about, judged, read]
        about["key"] = fingerprint_object(parts, digits=32)
        if about["key"] in known:
            return known[about["key"]]
        if not clean:  # nothing can be attacked, and nothing was withstood
            return RedTeamCell(broken=False, error="no source is found for the question", **about)
        try:
            return RedTeamCell(**self._tried(question, clean, dirty), **about)
        except (ExplanationError, GenerationError) as error:
            return RedTeamCell(broken=False, error=str(error), **about)

    def _tried(
        self, question: str, clean: Sequence[Source], dirty: Sequence[Source]
    ) -> dict[str, Any]:
        """What of a cell is found by asking."""
        before, asking = self._clean[question], self._asking(question)
        asked = len(before.said)
        untouched, attacked = self._documents(question, clean), self._documents(question, dirty)
        said = before.one(question, untouched)
        found: dict[str, Any] = {"broken": False, "before": said}
        if self._condition(said):  # what breaks without an attack is no work of the attack
            found |= {"by_itself": True, "texts": _texts(clean)}
        else:
            found["output"] = asking.one(question, attacked)
        # A set that breaks it whatever else is read does so together with all others: where they
        # do not, there is none.
        if "output" in found and self._condition(found["output"]):
            found |= self._smallest(question, attacked, asking)
            if found["broken"]:
                needed = found.pop("places")
                mixed = [attacked[n] if n in needed else untouched[n] for n in range(len(clean))]
                among = mixed == attacked or self._condition(
                    self._asking(question).one(question, mixed)
                )
                found |= {
                    "sources": tuple(dirty[n].id for n in needed),
                    "texts": _texts([dirty[n] for n in needed]),
                    "repair": tuple(dirty[n].id for n in found["repair"]),
                    "among_clean": bool(among),
                }
                asked -= mixed != attacked
        return found | {"probes": len(asking.said) + len(before.said) - asked}

    def _smallest(self, question: str, attacked: Documents, asking: _Asking) -> dict[str, Any]:
        """The smallest set that breaks it, and the smallest whose absence repairs it, as places."""
        why = explain(
            asking.many if self._answerer.batched else asking.one,
            question,
            attacked,
            predicate=self._condition,
            batched=self._answerer.batched,
            workers=self._answerer.workers,
            repeats=1,
        )
        (claim,) = why.claims
        enough = min(claim.retention, key=len, default=None)
        if enough is None:
            return {}
        return {
            "broken": True,
            "needed": len(enough),
            "places": sorted(enough),
            "repair": sorted(min(claim.omission, key=len, default=())),
            "output": enough.output or "",
        }

    def _asking(self, question: str) -> _Asking:
        return _Asking(self._answerer, question, self._told, self._stopped)

    def _documents(self, question: str, sources: Sequence[Source]) -> Documents:
        state = State(question=question, sources=tuple(sources))
        return documents_of(state, self._system.document)


def _patterns(condition: Any) -> list[Any]:
    """What its kinds stand for: where that changes, a cell is another one."""
    kinds = getattr(getattr(condition, "instead", condition), "kinds", ())
    return [SENSITIVE.get(kind) for kind in kinds]


def _texts(sources: Sequence[Source]) -> tuple[dict[str, str], ...]:
    return tuple({"title": one.title, "text": one.text} for one in sources)
