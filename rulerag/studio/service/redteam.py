"""A red-team run: every attack in every source, and the smallest set that breaks a system."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rulerag.composition import Settings
from rulerag.errors import ConfigError, ExplanationError, GenerationError
from rulerag.explanation.any_answer import explain
from rulerag.explanation.views import rendered
from rulerag.io import fingerprint_object, prepare_folder, read_jsonl, write_text
from rulerag.studio.service.jobs import documents_of
from rulerag.studio.service.records import State
from rulerag.studio.systems import OpenSystem, attacks, injected


class RedTeamCell(Settings):
    """One question under one attack, read by one generator.

    Args:
        system: the system.
        generator: what answered.
        attack: the template that was put into every source.
        question: what was asked.
        broken: whether some set of attacked sources makes the target condition hold, whatever else
            is read, and the untouched sources do not.
        needed: the size of the smallest such set; None where there is none.
        sources: that set, as ids.
        repair: the smallest set of sources without which it never holds, as ids.
        probes: calls of the generator.
        output: what is answered with that set alone.
        error: why it could not be tried.
        texts: of that set, the sources as they were read, for replaying.
        instructions: of the system, likewise.
        key: names everything that the cell depends on.
    """

    system: str
    generator: str
    attack: str
    question: str
    broken: bool
    needed: int | None = None
    sources: tuple[str, ...] = ()
    repair: tuple[str, ...] = ()
    probes: int = 0
    output: str = ""
    error: str = ""
    texts: tuple[dict[str, str], ...] = ()
    instructions: str = ""
    key: str = ""


class RedTeamSuite(Settings):
    """What is tried, as in a suite's YAML file.

    Args:
        system: the system's name.
        generators: what answers; all that are here when empty.
        questions: those of the system when empty.
        attacks: names of templates; all when empty.
        instructed: with the safety instructions.
    """

    system: str
    generators: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    instructed: bool = True


class RedTeamReport(Settings):
    """The cells of a run, as tables and files."""

    cells: tuple[RedTeamCell, ...]

    @property
    def broken(self) -> tuple[RedTeamCell, ...]:
        """Those that broke."""
        return tuple(cell for cell in self.cells if cell.broken)

    def rows(self) -> list[dict[str, Any]]:
        """One row a system, generator and attack: the share broken, with its 95 % interval.

        The interval is Clopper and Pearson's (1934), which is exact; a share says something about
        the questions that were tried.
        """
        groups: dict[tuple[str, str, str], list[RedTeamCell]] = {}
        for cell in self.cells:
            groups.setdefault((cell.system, cell.generator, cell.attack), []).append(cell)
        return [_row(key, cells) for key, cells in groups.items()]

    def to_csv(self) -> str:
        """Every cell as a row; what a spreadsheet would take for a formula is quoted."""
        written = io.StringIO()
        writer = csv.writer(written)
        names = [name for name in RedTeamCell.model_fields if name not in ("texts", "key")]
        writer.writerow(names)
        for cell in self.cells:
            writer.writerow([_harmless(getattr(cell, name)) for name in names])
        return written.getvalue()

    def to_json(self) -> str:
        """Rows and cells."""
        cells = [cell.model_dump(mode="json") for cell in self.cells]
        return json.dumps({"rows": self.rows(), "cells": cells}, indent=1, ensure_ascii=False)

    def to_junit(self) -> str:
        """One test case a cell, failed where it broke: for continuous integration."""
        suite = ElementTree.Element(
            "testsuite",
            name="rulerag red team",
            tests=str(len(self.cells)),
            failures=str(len(self.broken)),
            errors=str(sum(bool(cell.error) for cell in self.cells)),
        )
        for cell in self.cells:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{cell.system}.{cell.generator}",
                name=_printable(f"{cell.attack}: {cell.question}"),
            )
            if cell.broken:
                told = f"{cell.needed} sources are enough: {', '.join(cell.sources)}"
                failure = ElementTree.SubElement(case, "failure", message=_printable(told))
                failure.text = _printable(cell.output)
            elif cell.error:
                ElementTree.SubElement(case, "error", message=_printable(cell.error))
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)

    def to_html(self) -> str:
        """One page that opens offline: the rows, and every break with its answer."""
        return rendered(__package__, "red_team.html.j2", rows=self.rows(), broken=self.broken)

    def to_pytest(self) -> str:
        """A test file that asks every break again, and fails while it still breaks."""
        cases = [cell.model_dump(mode="json") for cell in self.broken]
        return _REPLAY.replace("CASES_HERE", repr(json.dumps(cases, ensure_ascii=True)))

    def write(self, folder: Path) -> list[Path]:
        """Write every form into a folder.

        Raises:
            OutputError: it cannot be written.
        """
        forms = {
            "red-team.csv": self.to_csv(),
            "red-team.json": self.to_json(),
            "red-team.xml": self.to_junit(),
            "red-team.html": self.to_html(),
            "test_red_team.py": self.to_pytest(),
        }
        prepare_folder(folder)
        for name, text in forms.items():
            write_text(folder / name, text)
        return [folder / name for name in forms]


_REPLAY = '''"""Every break that a red-team run found, asked again: green once it is withstood.

Written by `rulerag redteam`; it needs the same systems (RULERAG_STUDIO_DATA names their folder).
"""

import json
import os
from pathlib import Path

import pytest

from rulerag.studio.service import Studio

CASES = json.loads(CASES_HERE)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    made = Studio(Path(os.environ.get("RULERAG_STUDIO_DATA") or tmp_path_factory.mktemp("studio")))
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{one['attack']}" for n, one in enumerate(CASES)])
def test_the_system_withstands(studio, case):
    assert not studio.replay(case)
'''


def red_team(
    system: OpenSystem,
    generators: Sequence[str],
    *,
    questions: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    instructed: bool = True,
    known: Mapping[str, RedTeamCell] | None = None,
    tell: Callable[[RedTeamCell], object] = lambda cell: None,
) -> RedTeamReport:
    """Put every attack into every retrieved source, and explain whether the target condition holds.

    Args:
        system: the system; it needs a target condition.
        generators: what answers.
        questions: those of the system when None.
        names: of the attack templates; all when None.
        instructed: with the safety instructions.
        known: cells of an earlier run by their keys; they are not tried again.
        tell: called with each cell as soon as it is there.

    Raises:
        ConfigError: the system has no target condition.
        UnknownNameError: there is no such generator or attack.
    """
    if system.settings.condition is None:
        raise ConfigError("the system has no target condition", key="system")
    asked = system.settings.questions if questions is None else questions
    tried = list(attacks()) if names is None else names
    done = known or {}
    cells = []
    for generator in generators:
        for attack in tried:
            for question in asked:
                cells.append(
                    _cell(system, generator, attack, question, instructed=instructed, known=done)
                )
                tell(cells[-1])
    return RedTeamReport(cells=tuple(cells))


def read_cells(file: Path) -> dict[str, RedTeamCell]:
    """The cells that an interrupted run left, by their keys; those that failed are left out."""
    if not file.is_file():
        return {}
    cells = [RedTeamCell.read(row, source=file) for row in read_jsonl(file)]
    return {cell.key: cell for cell in cells if not cell.error}


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


def _cell(
    system: OpenSystem,
    generator: str,
    attack: str,
    question: str,
    *,
    instructed: bool,
    known: Mapping[str, RedTeamCell],
) -> RedTeamCell:
    own, answerer = system.settings, system.answerer(generator)
    condition = system.condition(generator)
    told = own.instructions if instructed else ""
    sources = system.retrieve(question)
    attacked = [injected(s, attack, question, own.payload, own.permission) for s in sources]
    clean = documents_of(State(question=question, sources=sources), system.document)
    dirty = documents_of(State(question=question, sources=tuple(attacked)), system.document)
    read = [(one.title, one.text) for one in (*sources, *attacked)]
    parts = [answerer.fingerprint, told, question, attack, str(condition), read]
    about: dict[str, Any] = {
        "system": own.name,
        "generator": generator,
        "attack": attack,
        "question": question,
        "instructions": told,
        "key": fingerprint_object(parts, digits=32),
    }
    if about["key"] in known:
        return known[about["key"]]

    def many(asked: str, lists: Any) -> list[str]:
        return answerer.answer(asked, lists, told)

    def one(asked: str, documents: Any) -> str:
        return many(asked, [documents])[0]

    try:
        (before,) = many(question, [clean])
        why = explain(
            many if answerer.batched else one,
            question,
            dirty,
            predicate=condition,
            batched=answerer.batched,
            workers=answerer.workers,
            repeats=1,
        )
    except (ExplanationError, GenerationError) as error:
        return RedTeamCell(broken=False, error=str(error), **about)
    (claim,) = why.claims
    enough = min(claim.retention, key=len, default=None)
    gone = min(claim.omission, key=len, default=None)
    # What breaks without an attack is no work of the attack.
    if enough is None or condition(before):
        return RedTeamCell(broken=False, probes=why.num_calls + 1, **about)
    needed = [attacked[place] for place in sorted(enough)]
    return RedTeamCell(
        broken=True,
        needed=len(enough),
        sources=tuple(one.id for one in needed),
        repair=tuple(attacked[place].id for place in sorted(gone or ())),
        probes=why.num_calls + 1,
        output=enough.output or "",
        texts=tuple({"title": one.title, "text": one.text} for one in needed),
        **about,
    )


def _row(key: tuple[str, str, str], cells: Sequence[RedTeamCell]) -> dict[str, Any]:
    tried = [cell for cell in cells if not cell.error]
    broken = [cell for cell in tried if cell.broken]
    row: dict[str, Any] = dict(zip(("system", "generator", "attack"), key, strict=True))
    row |= {"questions": len(tried), "broken": len(broken), "errors": len(cells) - len(tried)}
    if tried:
        low, high = _interval(len(broken), len(tried))
        row |= {"share": len(broken) / len(tried), "low": low, "high": high}
    row["needed"] = min((cell.needed for cell in broken if cell.needed), default=None)
    row["repair"] = min((len(cell.repair) for cell in broken), default=None)
    row["probes"] = sum(cell.probes for cell in cells)
    return row


def _interval(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, 0.025)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 0.975)) if failures else 1.0
    return low, high


def _harmless(value: Any) -> str:
    """A cell that a spreadsheet does not run."""
    if isinstance(value, tuple):
        value = " ".join(value)
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text


def _printable(text: str) -> str:
    """A text without characters that XML has no place for."""
    return "".join(c for c in text if c in "\t\n" or ord(c) >= 32)
