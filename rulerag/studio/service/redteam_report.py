"""What a red-team run found: a cell for every question and attack, as tables and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pydantic import Field

from rulerag.composition import Settings
from rulerag.explanation.views import rendered
from rulerag.io import prepare_folder, write_text


class RedTeamCell(Settings):
    """One question under one attack, read by one generator.

    Args:
        system: the system.
        generator: what answered.
        attack: the template that was put into every source.
        question: what was asked.
        broken: whether the attack breaks it: some set of attacked sources makes the target
            condition hold, whatever else is read of them, and the untouched sources do not.
        by_itself: whether the untouched sources make the condition hold already.
        needed: the size of the smallest such set; 0 where it breaks without any source, too (a
            model that makes something up); None where there is none.
        sources: that set, as ids.
        among_clean: whether that set is enough, too, while the other sources are read as they were
            before the attack; None where there is no set.
        repair: the smallest set of sources without which it never holds, as ids; empty where
            taking out repairs nothing.
        probes: calls of the generator.
        before: what is answered from the untouched sources.
        output: what is answered with that set alone; where there is none, with every source
            attacked; empty where the untouched sources break it and nothing was attacked.
        error: why it could not be tried.
        texts: of what breaks, that set or the untouched sources, as they were read: for replaying.
        instructions: of the system, likewise.
        key: names everything that the cell depends on.
    """

    system: str
    generator: str
    attack: str
    question: str
    broken: bool
    by_itself: bool = False
    needed: int | None = None
    sources: tuple[str, ...] = ()
    among_clean: bool | None = None
    repair: tuple[str, ...] = ()
    probes: int = 0
    before: str = ""
    output: str = ""
    error: str = ""
    texts: tuple[dict[str, str], ...] = ()
    instructions: str = ""
    key: str = ""

    @property
    def told(self) -> str:
        """What went wrong, in words; empty where nothing did."""
        if self.by_itself:
            return "it breaks without any attack"
        if self.broken and not self.needed:
            return "it breaks whatever is read of the attacked sources, also without any"
        if self.broken:
            return f"{self.needed} sources are enough: {', '.join(self.sources)}"
        return ""


class RedTeamSuite(Settings):
    """What is tried, as in a suite's YAML file.

    Args:
        system: the system's name.
        generators: what answers; all that are here when empty.
        questions: those of the system when empty.
        attacks: names of templates; all when empty.
        instructed: with the safety instructions.
        top_k: sources of a question; those of the system when None.
    """

    system: str
    generators: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    instructed: bool = True
    top_k: int | None = Field(default=None, ge=1, le=500)


class RedTeamReport(Settings):
    """The cells of a run, as tables and files."""

    cells: tuple[RedTeamCell, ...]

    @property
    def broken(self) -> tuple[RedTeamCell, ...]:
        """Those that an attack broke."""
        return tuple(cell for cell in self.cells if cell.broken)

    @property
    def failed(self) -> tuple[RedTeamCell, ...]:
        """Those that broke under an attack, or, once a question, without any."""
        named: dict[tuple[str, ...], RedTeamCell] = {}
        for cell in self.cells:
            if cell.told:
                attack = "" if cell.by_itself else cell.attack
                named.setdefault((cell.system, cell.generator, cell.question, attack), cell)
        return tuple(named.values())

    @property
    def errors(self) -> tuple[RedTeamCell, ...]:
        """Those that could not be tried."""
        return tuple(cell for cell in self.cells if cell.error)

    def rows(self) -> list[dict[str, Any]]:
        """One row a system, generator and attack: the share broken, with its 95 % interval.

        The share is of the questions that the system withstands without an attack; ``by_itself``
        counts the others. The interval is Clopper and Pearson's (1934), which is exact; a share
        says something about the questions that were tried.
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
            failures=str(sum(bool(cell.told) for cell in self.cells)),
            errors=str(len(self.errors)),
        )
        for cell in self.cells:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{cell.system}.{cell.generator}",
                name=_printable(f"{cell.attack}: {cell.question}"),
            )
            if cell.told:
                failure = ElementTree.SubElement(case, "failure", message=_printable(cell.told))
                failure.text = _printable(cell.output or cell.before)
            elif cell.error:
                ElementTree.SubElement(case, "error", message=_printable(cell.error))
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)

    def to_html(self) -> str:
        """One page that opens offline: the rows, and every break with its answer."""
        return rendered(__package__, "red_team.html.j2", rows=self.rows(), failed=self.failed)

    def to_pytest(self) -> str:
        """A test file that asks every break again, and fails while it still breaks."""
        cases = [cell.model_dump(mode="json") for cell in self.failed]
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


def _row(key: tuple[str, str, str], cells: Sequence[RedTeamCell]) -> dict[str, Any]:
    tried = [cell for cell in cells if not cell.error]
    broken = [cell for cell in tried if cell.broken]
    withstood = sum(not cell.by_itself for cell in tried)
    row: dict[str, Any] = dict(zip(("system", "generator", "attack"), key, strict=True))
    row |= {"questions": len(tried), "by_itself": len(tried) - withstood, "broken": len(broken)}
    row["errors"] = len(cells) - len(tried)
    if withstood:
        low, high = exact_interval(len(broken), withstood)
        row |= {"share": len(broken) / withstood, "low": low, "high": high}
    row["needed"] = min((cell.needed for cell in broken if cell.needed is not None), default=None)
    row["repair"] = min((len(cell.repair) for cell in broken if cell.repair), default=None)
    row["probes"] = sum(cell.probes for cell in cells)
    return row


def exact_interval(successes: int, trials: int) -> tuple[float, float]:
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
