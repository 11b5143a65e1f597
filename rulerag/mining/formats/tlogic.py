"""TLogic's rules as JSON: relation id → list of rules.

Liu et al. 2022 (arXiv:2112.08025), section 4.1. A body is a walk X0, X1, … from the head's first
argument to its second, in time order; ``var_constraints`` lists the places of a walk that hold the
same entity. Relation ids are the graph's; an id from the number of relations on is an inverse.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerag.errors import DataFormatError
from rulerag.io import atomic_write, read_json
from rulerag.mining.paths import atoms_of_walk, labelled_rule, walks_of
from rulerag.rules import Rule, RuleBank, RuleQuality

if TYPE_CHECKING:
    from rulerag.kg import KnowledgeGraph, Vocabulary


def save_tlogic(bank: RuleBank, path: str | Path, graph: KnowledgeGraph) -> None:
    """Write temporal rules as TLogic does.

    A rule whose body walks from ``?y`` to ``?x`` of the head is a rule for the inverse head.

    Args:
        bank: temporal rules whose bodies are walks between the head's arguments.
        path: the file.
        graph: gives the relation ids.

    Raises:
        DataFormatError: a rule is static, is no such walk, or has no confidence.
        UnknownNameError: a relation that the graph does not hold.
        OutputError: the file cannot be written.
    """
    by_head: dict[int, list[dict[str, Any]]] = {}
    for rule in bank:
        row = _rule_to_tlogic(rule, graph.relations)
        by_head.setdefault(row["head_rel"], []).append(row)
    with atomic_write(path) as file:
        json.dump({str(head): by_head[head] for head in sorted(by_head)}, file)


def load_tlogic(path: str | Path, graph: KnowledgeGraph) -> RuleBank:
    """Read rules that TLogic wrote, in the order of the file.

    The walk always starts at ``?x``, so a rule for an inverse head has the head
    ``relation(?y, ?x)``.

    Args:
        path: the file.
        graph: gives the relations of ids, and readable names to the rules' texts.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it is not TLogic's JSON, or a rule is wrong; names the file, and the line
            or the rule.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataFormatError("expected an object of relation ids", path=path)
    rules = []
    for head, rows in content.items():
        if not isinstance(rows, list):
            raise DataFormatError("expected a list of rules", path=path, key=head)
        for number, row in enumerate(rows):
            try:
                rules.append(_rule_from_tlogic(row, graph.relations))
            except DataFormatError as error:
                key = f"{head}[{number}]" + (f".{error.key}" if error.key else "")
                raise DataFormatError(error.message, path=path, key=key, hint=error.hint) from error
    return RuleBank(rules)


def _rule_from_tlogic(row: Any, relations: Vocabulary) -> Rule:
    if not isinstance(row, dict):
        raise DataFormatError("expected a rule")
    body_ids = row.get("body_rels")
    if not isinstance(body_ids, list) or not body_ids:
        raise DataFormatError("expected a list of relation ids", key="body_rels")
    half = len(relations)
    for key, ids in (("head_rel", [row.get("head_rel")]), ("body_rels", body_ids)):
        for relation in ids:
            if type(relation) is not int or not 0 <= relation < 2 * half:
                raise DataFormatError(
                    f"{relation!r} is no relation id of this graph",
                    key=key,
                    hint=f"ids are 0 to {half - 1}, their inverses {half} to {2 * half - 1}",
                )
    links = _links(row.get("var_constraints", []), len(body_ids))
    head, body = atoms_of_walk(row["head_rel"], body_ids, links, relations)
    quality = RuleQuality(
        support=_whole(row, "rule_supp"),
        body_size=_whole(row, "body_supp"),
        confidence=_fraction(row, "conf"),
    )
    return labelled_rule(head, body, quality, relations.label, "tlogic", temporal=True)


def _links(constraints: Any, length: int) -> list[int]:
    """For each place of the walk the first place with the same entity."""
    places = list(range(length + 1))
    if not isinstance(constraints, list):
        raise DataFormatError("expected a list of lists of places", key="var_constraints")
    for group in constraints:
        if not isinstance(group, list) or not all(
            type(place) is int and 0 <= place <= length for place in group
        ):
            raise DataFormatError(
                f"expected places from 0 to {length}, found {group!r}", key="var_constraints"
            )
        for place in group:
            places[place] = min(group)
    return places


def _whole(row: dict[str, Any], key: str) -> int:
    value = row.get(key)
    if type(value) is not int or value < 0:
        raise DataFormatError(f"expected a whole number, found {value!r}", key=key)
    return value


def _fraction(row: dict[str, Any], key: str) -> float:
    value = row.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise DataFormatError(f"expected a number from 0 to 1, found {value!r}", key=key)
    return float(value)


def _rule_to_tlogic(rule: Rule, relations: Vocabulary) -> dict[str, Any]:
    if not rule.temporal:
        raise DataFormatError(
            f"the rule {rule.text!r} is static and TLogic's format holds temporal rules",
            hint="use the format jsonl, amie or anyburl",
        )
    quality = rule.quality
    if quality.confidence is None or quality.support is None or quality.body_size is None:
        raise DataFormatError(
            f"the rule {rule.text!r} has no temporal confidence, rule support or body support",
            hint="use the format jsonl",
        )
    walks = walks_of(rule, relations)
    if not walks:
        raise DataFormatError(
            f"the rule {rule.text!r} is no walk between the head's arguments",
            hint="TLogic's format holds walks only; use the format jsonl",
        )
    head, body, links = walks[0]
    groups = [[i for i, p in enumerate(links) if p == place] for place in dict.fromkeys(links)]
    return {
        "head_rel": head,
        "body_rels": body,
        "var_constraints": [group for group in groups if len(group) > 1],
        "conf": quality.confidence,
        "rule_supp": quality.support,
        "body_supp": quality.body_size,
    }
