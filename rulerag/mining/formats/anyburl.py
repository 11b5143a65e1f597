"""AnyBURL's rules as tab-separated text: predicted, correctly predicted, confidence, rule.

Meilicke et al. 2019 (doi:10.24963/ijcai.2019/435); ``head(X,Y) <= body(X,A), body(A,Y)``.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rulerag.errors import DataFormatError
from rulerag.io import atomic_write
from rulerag.mining.formats.lines import check_static, number, parse_lines, whole_number
from rulerag.mining.paths import labelled_rule, normal_form
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulerag.kg import KnowledgeGraph

logger = logging.getLogger(__name__)

_VARIABLE = re.compile(r"[A-Z]")
# Relations may hold brackets and commas, arguments may not; an atom ends before ", " or at the end.
_ATOM = re.compile(r"(?P<relation>.+?)\((?P<subject>[^,()]+),(?P<object>[^,()]+)\)(?:, *|$)")


def save_anyburl(bank: RuleBank, path: str | Path) -> None:
    """Write static rules as AnyBURL does; its confidence is the standard confidence.

    Head coverage and PCA counts have no place in this format.

    Raises:
        DataFormatError: a rule is temporal, has no standard confidence, or a name cannot stand in
            this format.
        OutputError: the file cannot be written.
    """
    lines = []
    for rule in bank:
        quality = rule.quality
        check_static(rule, "AnyBURL")
        if quality.support is None or quality.body_size is None:
            raise DataFormatError(
                f"the rule {rule.text!r} has no support or body size, which AnyBURL's format needs",
                hint="use the format jsonl",
            )
        confidence = quality.standard_confidence
        if confidence is None:
            confidence = quality.support / quality.body_size
        cells = (str(quality.body_size), str(quality.support), repr(confidence))
        lines.append("\t".join([*cells, _rule_to_anyburl(rule)]) + "\n")
    with atomic_write(path) as file:
        file.write("".join(lines))


def load_anyburl(path: str | Path, graph: KnowledgeGraph | None = None) -> RuleBank:
    """Read rules that AnyBURL wrote, in :func:`normal_form` and in the order of the file.

    Rules without a body (AnyBURL's guesses from a head's frequency) are left out, with a warning
    that counts them.

    Args:
        path: the file.
        graph: gives readable relation names to the rules' texts.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: a line is not a rule of AnyBURL; names file and line.
    """
    label = graph.relations.label if graph is not None else readable
    rules = parse_lines(path, lambda line: _rule_from_anyburl(line, label))
    if bodiless := rules.count(None):
        logger.warning("%s: %d rules without a body were left out", path, bodiless)
    return RuleBank(rule for rule in rules if rule is not None)


def _rule_from_anyburl(line: str, label: Callable[[str], str]) -> Rule | None:
    cells = line.split("\t")
    if len(cells) != 4:
        raise DataFormatError(
            f"expected 4 columns, found {len(cells)}",
            hint="predicted, correctly predicted, confidence and rule, parted by tabs",
        )
    predicted = whole_number(cells[0], "predicted")
    correct = whole_number(cells[1], "correctly predicted")
    confidence = number(cells[2], "confidence")
    left, arrow, right = cells[3].partition(" <=")
    if not arrow:
        raise DataFormatError(f"{cells[3]!r} is not a rule", hint="write head(X,Y) <= body(X,Y)")
    heads, body = _parse_atoms(left), _parse_atoms(right.strip())
    if len(heads) != 1:
        raise DataFormatError(f"the head {left!r} is not one atom")
    if not body:
        return None
    head, atoms = normal_form(heads[0], body)
    quality = RuleQuality(support=correct, standard_confidence=confidence, body_size=predicted)
    return labelled_rule(head, atoms, quality, label, "anyburl")


def _parse_atoms(text: str) -> tuple[Atom, ...]:
    atoms, place = [], 0
    while place < len(text):
        match = _ATOM.match(text, place)
        if match is None:
            raise DataFormatError(f"{text[place:]!r} is not an atom", hint="write relation(X,Y)")
        ends = [
            f"?{end.lower()}" if _VARIABLE.fullmatch(end) else end
            for end in (match["subject"], match["object"])
        ]
        atoms.append(Atom(match["relation"], *ends))
        place = match.end()
    return tuple(atoms)


def _rule_to_anyburl(rule: Rule) -> str:
    names = {rule.head.subject: "X"}
    names.setdefault(rule.head.object, "Y")
    names = {end: name for end, name in names.items() if end.startswith("?")}
    letters = iter("ABCDEFGHIJKLMNOPQRSTUVW")
    for atom in rule.body:
        for end in (atom.subject, atom.object):
            if end.startswith("?") and end not in names:
                names[end] = next(letters)

    def words(atom: Atom) -> str:
        ends = [names.get(end) or _constant(end) for end in (atom.subject, atom.object)]
        if any(c in atom.relation for c in "\t\n") or not atom.relation.strip():
            raise _unfit(atom.relation)
        return f"{atom.relation}({ends[0]},{ends[1]})"

    text = f"{words(rule.head)} <= {', '.join(words(atom) for atom in rule.body)}"
    left, _, right = text.partition(" <=")
    atoms = (*_parse_atoms(left), *_parse_atoms(right.strip()))
    if [a.relation for a in atoms] != [a.relation for a in (rule.head, *rule.body)]:
        raise _unfit(rule.head.relation)
    return text


def _constant(name: str) -> str:
    if not name.strip() or _VARIABLE.fullmatch(name) or any(c in name for c in ",()\t\n"):
        raise _unfit(name)
    return name


def _unfit(name: str) -> DataFormatError:
    return DataFormatError(
        f"the name {name!r} cannot stand in AnyBURL's format", hint="use the format jsonl"
    )
