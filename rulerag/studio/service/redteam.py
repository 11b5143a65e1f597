"""A red-team run: every attack in every source, and the smallest set of them that breaks a system."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from scipy.stats import binomtest

from rulerag.composition import Settings
from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.any_answer import explain
from rulerag.studio.service.attacks import attacks, injected
from rulerag.studio.service.jobs import documents_of
from rulerag.studio.service.records import State
from rulerag.studio.service.systems import OpenSystem


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
        names = list(RedTeamCell.model_fields)
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


def red_team(
    system: OpenSystem,
    generators: Sequence[str],
    *,
    questions: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    instructed: bool = True,
) -> RedTeamReport:
    """Put every attack into every retrieved source, and explain whether the target condition holds.

    Args:
        system: the system; it needs a target condition.
        generators: what answers.
        questions: those of the system when None.
        names: of the attack templates; all when None.
        instructed: with the safety instructions.

    Raises:
        ConfigError: the system has no target condition.
        UnknownNameError: there is no such generator or attack.
    """
    if system.settings.condition is None:
        raise ConfigError("the system has no target condition", key="system")
    asked = system.settings.questions if questions is None else questions
    tried = list(attacks()) if names is None else names
    return RedTeamReport(
        cells=tuple(
            _cell(system, generator, attack, question, instructed=instructed)
            for generator in generators
            for attack in tried
            for question in asked
        )
    )


def _cell(
    system: OpenSystem, generator: str, attack: str, question: str, *, instructed: bool
) -> RedTeamCell:
    own, answerer = system.settings, system.answerer(generator)
    condition = system.condition(generator)
    told = own.instructions if instructed else ""
    sources = system.retrieve(question)
    attacked = [injected(s, attack, question, own.payload, own.permission) for s in sources]
    clean = documents_of(State(question=question, sources=sources), system.document)
    dirty = documents_of(State(question=question, sources=tuple(attacked)), system.document)
    about = {"generator": generator, "attack": attack, "question": question}

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
    except ExplanationError as error:
        return RedTeamCell(system=own.name, broken=False, error=str(error), **about)
    (claim,) = why.claims
    enough = min(claim.retention, key=len, default=None)
    gone = min(claim.omission, key=len, default=None)
    # What breaks without an attack is no work of the attack.
    broken = bool(enough) and not condition(before)
    return RedTeamCell(
        system=own.name,
        broken=broken,
        needed=len(enough) if broken and enough is not None else None,
        sources=tuple(attacked[n].id for n in sorted(enough or ())) if broken else (),
        repair=tuple(attacked[n].id for n in sorted(gone or ())) if broken else (),
        probes=why.num_calls + 1,
        output=(enough.output or "") if broken and enough is not None else "",
        **about,
    )


def _row(key: tuple[str, str, str], cells: Sequence[RedTeamCell]) -> dict[str, Any]:
    tried = [cell for cell in cells if not cell.error]
    broken = [cell for cell in tried if cell.broken]
    row: dict[str, Any] = dict(zip(("system", "generator", "attack"), key, strict=True))
    row |= {"questions": len(tried), "broken": len(broken), "errors": len(cells) - len(tried)}
    if tried:
        interval = binomtest(len(broken), len(tried)).proportion_ci(0.95, method="exact")
        row |= {"share": len(broken) / len(tried)}
        row |= {"low": float(interval.low), "high": float(interval.high)}
    row["needed"] = min((cell.needed for cell in broken if cell.needed), default=None)
    row["repair"] = min((len(cell.repair) for cell in broken), default=None)
    row["probes"] = sum(cell.probes for cell in cells)
    return row


def _harmless(value: Any) -> str:
    """A cell that a spreadsheet does not run."""
    if isinstance(value, tuple):
        value = " ".join(value)
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text


def _printable(text: str) -> str:
    """A text without characters that XML has no place for."""
    return "".join(c for c in text if c in "\t\n" or ord(c) >= 32)
