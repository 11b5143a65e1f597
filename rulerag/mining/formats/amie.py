"""AMIE's rules as tab-separated text, the columns that AMIE 3 writes."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from rulerag.errors import DataFormatError
from rulerag.io import atomic_write, read_lines
from rulerag.mining.formats.lines import check_static, number, parse_lines, whole_number
from rulerag.mining.paths import labelled_rule, normal_form
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulerag.kg import KnowledgeGraph

HEADER = (
    "Rule",
    "Head Coverage",
    "Standard Confidence",
    "Pca Confidence",
    "Support",
    "Body Size",
    "Pca Body Size",
    "Functional Variable",
)
# What other versions of AMIE call the same columns, in lower case.
_OTHER_NAMES = {
    "std confidence": "standard confidence",
    "positive examples": "support",
}
_NEEDED = ("rule", "head coverage", "pca confidence", "support")
_LETTERS = "fecdghijklmnopqrstuvwxyz"


def save_amie(bank: RuleBank, path: str | Path, graph: KnowledgeGraph | None = None) -> None:
    """Write static rules as AMIE does: ``?a  relation  ?b`` atoms, then the counts.

    Ratios have AMIE's six decimals where the counts give back the rest, else as many as they
    need, so that :func:`load_amie` returns every count and ratio exactly.

    Args:
        bank: the rules.
        path: the file.
        graph: names the functional variable of each head; left empty without it.

    Raises:
        DataFormatError: a rule is temporal, or a name cannot stand in this format.
        OutputError: the file cannot be written.
    """
    functional = _functional_variables(graph) if graph is not None else {}
    rows = ["\t".join(HEADER)]
    for rule in bank:
        check_static(rule, "AMIE")
        quality = rule.quality
        counts = (quality.support, quality.body_size, quality.pca_body_size)
        rows.append(
            "\t".join(
                [
                    _rule_to_amie(rule),
                    _coverage_text(quality),
                    _ratio_text(quality.standard_confidence, quality.support, quality.body_size),
                    _ratio_text(quality.pca_confidence, quality.support, quality.pca_body_size),
                    *("" if count is None else str(count) for count in counts),
                    functional.get(rule.head.relation, ""),
                ]
            )
        )
    with atomic_write(path) as file:
        file.write("\n".join(rows) + "\n")


def load_amie(path: str | Path, graph: KnowledgeGraph | None = None) -> RuleBank:
    """Read rules that AMIE wrote, in :func:`normal_form` and in the order of the file.

    Ratios are made exact from the counts where the two agree.

    Args:
        path: the file.
        graph: gives readable relation names to the rules' texts.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: a line is not a rule of AMIE; names file, line and column.
    """
    label = graph.relations.label if graph is not None else readable
    header = next(read_lines(path), (1, ""))[1]
    columns = _columns(header, path)
    return RuleBank(
        parse_lines(
            path, lambda line: _rule_from_amie(line.split("\t"), columns, label), header=True
        )
    )


def _columns(header: str, path: str | Path) -> dict[str, int]:
    columns = {}
    for place, name in enumerate(header.split("\t")):
        lower = name.strip().lower()
        columns[_OTHER_NAMES.get(lower, lower)] = place
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise DataFormatError(
            f"no AMIE header: the column {missing[0]!r} is missing",
            path=path,
            line=1,
            hint="the first line names the columns, as in " + ", ".join(HEADER),
        )
    return columns


def _rule_from_amie(cells: list[str], columns: dict[str, int], label: Callable[[str], str]) -> Rule:
    if len(cells) != len(columns):
        raise DataFormatError(f"expected {len(columns)} columns, found {len(cells)}")

    def cell(name: str) -> str:
        return cells[columns[name]].strip() if name in columns else ""

    head, body = normal_form(*_parse_rule(cell("rule")))
    support = _count(cell("support"), "support")
    body_size = _count(cell("body size"), "body size")
    pca_body_size = _count(cell("pca body size"), "pca body size")
    standard, pca = cell("standard confidence"), cell("pca confidence")
    quality = RuleQuality(
        support=support,
        head_coverage=_coverage(cell("head coverage"), support),
        standard_confidence=_ratio(standard, "standard confidence", support, body_size),
        pca_confidence=_ratio(pca, "pca confidence", support, pca_body_size),
        body_size=body_size,
        pca_body_size=pca_body_size,
    )
    return labelled_rule(head, body, quality, label, "amie")


def _parse_rule(text: str) -> tuple[Atom, tuple[Atom, ...]]:
    left, arrow, right = text.rpartition("=>")
    head, body = _parse_atoms(right), _parse_atoms(left)
    if not arrow or len(head) != 1 or not body:
        raise DataFormatError(
            f"{text!r} is not a rule",
            key="Rule",
            hint="write atoms as '?a  relation  ?b' with two blanks between parts: body => head",
        )
    return head[0], tuple(body)


def _parse_atoms(text: str) -> list[Atom]:
    # Two blanks part the terms; one blank may stand inside a name.
    terms = [term.strip() for term in text.strip().split("  ") if term.strip()]
    if len(terms) % 3:
        return []
    return [Atom(terms[i + 1], terms[i], terms[i + 2]) for i in range(0, len(terms), 3)]


def _rule_to_amie(rule: Rule) -> str:
    names = {rule.head.subject: "?a"}
    names.setdefault(rule.head.object, "?b")
    letters = iter(_LETTERS)
    atoms = []
    for atom in (*rule.body, rule.head):
        terms = []
        for term in (atom.subject, atom.relation, atom.object):
            if term is not atom.relation and term.startswith("?") and term not in names:
                names[term] = f"?{next(letters)}"
            is_variable = term is not atom.relation and term.startswith("?")
            terms.append(names[term] if is_variable else _plain(term))
        atoms.append("  ".join(terms))
    return "  ".join(atoms[:-1]) + "   => " + atoms[-1]


def _plain(name: str) -> str:
    if not name.strip() or name != name.strip() or any(c in name for c in ("  ", "\t", "\n", "=>")):
        raise DataFormatError(
            f"the name {name!r} cannot stand in AMIE's format",
            hint="use the format jsonl",
        )
    return name


def _functional_variables(graph: KnowledgeGraph) -> dict[str, str]:
    """``-1`` where AMIE predicts from the subject (?a), ``-2`` where from the object (?b)."""
    from rulerag.mining.indexes import build_static_index, functional_on_object

    on_object = functional_on_object(build_static_index(graph.train))
    return {
        name: "-2" if flip else "-1"
        for name, flip in zip(graph.relations.names, on_object.tolist(), strict=True)
    }


def _count(text: str, column: str) -> int | None:
    return whole_number(text, column) if text else None


def _ratio(text: str, column: str, support: int | None, size: int | None) -> float | None:
    if not text:
        return None
    value = number(text, column)
    if support is not None and size and abs(support / size - value) <= 5.000001e-7:
        return support / size
    return value


def _six_decimals(value: float) -> str:
    """The number as Java prints it, halves away from zero; Python would print halves to even."""
    return str(Decimal(repr(value)).quantize(Decimal("0.000001"), ROUND_HALF_UP))


def _ratio_text(value: float | None, support: int | None, size: int | None) -> str:
    if value is None:
        return ""
    text = _six_decimals(value)
    return text if _ratio(text, "", support, size) == value else repr(value)


def _coverage(text: str, support: int | None) -> float | None:
    """Head coverage; exact where only one number of head facts rounds to the text."""
    if not text:
        return None
    value = number(text, "head coverage")
    if support and value > 1e-6 and len(text.partition(".")[2]) == 6:
        least = math.ceil(support / (value + 5e-7))
        most = math.floor(support / (value - 5e-7))
        if least == most:
            return support / least
    return value


def _coverage_text(quality: RuleQuality) -> str:
    value = quality.head_coverage
    if value is None:
        return ""
    text = _six_decimals(value)
    return text if _coverage(text, quality.support) == value else repr(value)
