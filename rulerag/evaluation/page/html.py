"""The report page: methods, rules and explained answers in one file that loads nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from rulerag import __version__
from rulerag.errors import DataFormatError
from rulerag.evaluation.metrics import metric
from rulerag.evaluation.page.svg import (
    confidence_mark,
    document_roles,
    evidence_flow,
    recall_curves,
)
from rulerag.evaluation.tables import expected_rows, format_value, results_table
from rulerag.explanation.records import SUBSETS, NamedRule, RuleTrace, capital, factored, percent
from rulerag.io import write_text
from rulerag.rules import Rule

_ATOM = re.compile(r"\[([^,\]]*), (.*?), ([^,\]]*)\]")
_MANY = 10
"""More rules than this are shown by what they share; those beyond are folded away."""

_MINIMALITY = {
    "proven": "minimal",
    "shown": "minimal, shown",
    "not shown": "not shown to be minimal",
    "untested": "no smaller one looked for",
}
_SHOWN = (
    "answer_recall@1",
    "answer_recall@5",
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query_union",
    "exact_match",
    "token_f1",
)


def write_report(path: str | Path, **parts: Any) -> None:
    """Write the page atomically; see :func:`render_report` for its parts.

    Raises:
        OutputError: the file cannot be written.
    """
    write_text(path, render_report(**parts))


def render_report(
    *,
    title: str,
    lead: str = "",
    facts: Sequence[tuple[str, object]] = (),
    results: Sequence[Mapping[str, Any]] = (),
    metrics: Sequence[str] | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
    explanations: Sequence[Mapping[str, Any]] = (),
    command: str = "",
    about: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """The page as one HTML text: styles and drawings inside, nothing fetched.

    Args:
        title: its heading.
        lead: one or two sentences below the heading.
        facts: ``(label, value)`` pairs shown as figures at the top.
        results: contents of ``metrics.json``, one a method.
        metrics: which metrics to show; the usual ones when None.
        rules: rows of :func:`rule_rows`.
        explanations: objects of ``explanations.jsonl``.
        command: the command that makes this page.
        about: ``(label, value)`` pairs on what was done: question, dataset, settings, date.
        notes: closing remarks.

    Raises:
        UnknownNameError: a metric is unknown.
        DataFormatError: an explanation lacks a key.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("rulerag.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        lead=lead,
        facts=[(label, _figure(value)) for label, value in facts],
        methods=_methods(results, metrics),
        expected=_expectations(results),
        curves=_curves(results),
        rules=[_rule_view(row) for row in rules],
        any_planted=any(row.get("planted") is not None for row in rules),
        answers=_answer_views(explanations),
        command=command,
        about=about,
        notes=notes,
        version=__version__,
    )


def rule_rows(
    mined: Iterable[Rule], planted: Sequence[tuple[Rule, float]] = ()
) -> list[dict[str, Any]]:
    """The rows of the rules table: planted rules first, then what was mined besides.

    Args:
        mined: the mined rules.
        planted: rules that are known to hold, each with its true confidence.
    """
    found = {rule.id: rule for rule in mined}
    rows = [_rule_row(rule, found.pop(rule.id, None), truth) for rule, truth in planted]
    others = sorted(found.values(), key=lambda rule: (-rule.ranking_confidence, rule.text))
    return rows + [_rule_row(rule, rule, None) for rule in others]


def _rule_row(rule: Rule, mined: Rule | None, planted: float | None) -> dict[str, Any]:
    return {
        "id": rule.id,
        "text": mined.text if mined else rule.text,
        "planted": planted,
        "mined": mined.ranking_confidence if mined else None,
        "support": mined.quality.support if mined else None,
    }


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _methods(
    results: Sequence[Mapping[str, Any]], metrics: Sequence[str] | None
) -> dict[str, Any] | None:
    """Headings with their meaning, and rows of cells with a bar where the value is a fraction."""
    if not results:
        return None
    held = {name for result in results for name in result["metrics"]}
    names = list(metrics) if metrics is not None else [name for name in _SHOWN if name in held]
    plain = [{**result, "config": {}} for result in results]  # expectations have their own table
    table = results_table(plain, names, describing=_describing(results))
    columns: list[dict[str, Any]] = []
    for title in table.titles[: -len(names)] if names else table.titles:
        columns.append({"title": title, "tip": "", "bar": False})
    for name in names:
        told = metric(name)
        columns.append({"title": told.title, "tip": told.description, "bar": told.is_fraction})
    rows = [
        [
            {
                "text": cell.text,
                "best": cell.best,
                "number": place >= table.describing,
                "share": float(cell.value or 0) * 100 if column["bar"] else None,
            }
            for place, (cell, column) in enumerate(zip(row, columns, strict=True))
        ]
        for row in table.rows
    ]
    seconds = [_seconds((result.get("seconds") or {}).get("total")) for result in results]
    return {"columns": columns, "rows": list(zip(rows, seconds, strict=True))}


def _describing(results: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Methods, with their benchmark where there are several, when that tells the runs apart."""
    several = len({result.get("benchmark") for result in results}) > 1
    keys = ["benchmark", "method"] if several else ["method"]
    distinct = {tuple(result.get(key) for key in keys) for result in results}
    return keys if len(distinct) == len(results) else None


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _expectations(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for result in results:
        for row in expected_rows(result):
            name = row["metric"]
            rows.append(
                {
                    **row,
                    "method": result.get("method", ""),
                    "title": metric(name).title,
                    **{
                        key: format_value(name, row[key])
                        for key in ("measured", "expected", "tolerance")
                    },
                }
            )
    return rows


def _curves(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, Markup]]:
    """A drawing for each benchmark, with its name where there are several."""
    charts: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for result in results:
        points = []
        for name, value in result["metrics"].items():
            if match := re.fullmatch(r"answer_recall@(\d+)", name):
                points.append((int(match[1]), value))
        if len(points) > 1:
            series = charts.setdefault(str(result.get("benchmark", "")), {})
            series[str(result.get("method", ""))] = sorted(points)
    several = len(charts) > 1
    return [(name if several else "", recall_curves(series)) for name, series in charts.items()]


def _rule_view(row: Mapping[str, Any]) -> dict[str, Any]:
    planted, mined = row.get("planted"), row.get("mined")
    difference = None if planted is None or mined is None else mined - planted
    verdict = "missed" if mined is None else "not planted" if planted is None else "found"
    return {
        "text": _styled_rule(str(row["text"])),
        "mark": confidence_mark(planted, mined),
        "planted": format_value("exact_match", planted),
        "mined": format_value("exact_match", mined),
        "points": "" if difference is None else _points(difference),
        "support": _figure(row["support"]) if row.get("support") is not None else "–",
        "verdict": verdict,
    }


def _points(difference: float) -> str:
    text = f"{100 * difference:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _styled_rule(text: str) -> Markup:
    """The rule's words with its atoms set apart; a text of another form stays as it is."""
    body, leads, head = text.partition(" leads to ")
    if not leads or not _ATOM.fullmatch(head):
        return escape(text)
    atoms = [_ATOM.fullmatch(f"[{part}]") for part in body.strip("[]").split("] and [")]
    if not all(atoms):
        return escape(text)
    parts = [_styled_atom(match) for match in atoms if match]
    return Markup(' <span class="and">and</span> ').join(parts) + (
        Markup(' <span class="leads" title="leads to">→</span> ')
        + _styled_atom(_ATOM.fullmatch(head))
    )


def _styled_atom(match: re.Match[str] | None) -> Markup:
    subject, relation, object_ = match.groups() if match else ("", "", "")
    return Markup('<span class="atom"><i>{}</i> <b>{}</b> <i>{}</i></span>').format(
        subject, relation, object_
    )


def _answer_views(explanations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    try:
        return [_answer_view(row) for row in explanations]
    except KeyError as error:
        raise DataFormatError(
            "this key is missing from an explanation",
            key=str(error.args[0]),
            hint="give the objects of explanations.jsonl",
        ) from error


def _answer_view(explanation: Mapping[str, Any]) -> dict[str, Any]:
    roles = document_roles(explanation)
    return {
        **explanation,
        "flow": evidence_flow(explanation),
        "families": [_family(explanation, kind) for kind in ("retention", "omission")],
        "rules": [
            {
                **rule,
                "styled": _styled_rule(rule["text"]),
                "quality": RuleTrace.from_json(rule).quality,
            }
            for rule in explanation["rules"]
        ],
        "documents": [
            {
                **document,
                "role": roles[document["alias"]],
                "searches": [
                    f"{hit['rule'] or 'the question'}, rank {hit['rank']}, score {hit['score']:.4g}"
                    for hit in document["found_by"]
                ],
            }
            for document in explanation["documents"]
        ],
    }


def _family(explanation: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The rules of one kind for the page: what they share once, smallest first, the rest counted.

    Only many rules are taken apart; few are shown as they are.
    """
    done, claim = ("kept", "claim") if kind == "retention" else ("removed", "counterclaim")
    rows = sorted(explanation["certificates"][kind], key=lambda row: len(row["names"]))
    rules = [NamedRule.from_json(row) for row in rows]
    always = all(rule.certificate.always for rule in rules)
    when = " whenever" if always else ", as far as shown, when"
    joint = [rule.names for rule in rules if len(rule.names) > 1]
    common = factored(joint)[0] if len(rules) > _MANY else []
    told = [
        {
            "names": _without(rule.names, common),
            "shared": len(rule.names) > 1 and bool(common),
            "certificate": rule.certificate,
            "shown": str(rule.certificate),
            "bound": "–" if not rule.certificate.samples else percent(rule.certificate.bound),
            "minimality": _MINIMALITY[rule.certificate.minimality],
            "counterexample": rule.counterexample if rule.certificate.failures else "",
            "output": rule.output if kind == "omission" else None,
        }
        for rule in rules
    ]
    return {
        "kind": done,
        "heading": f"{capital(explanation[claim])}{when} these are {done}",
        "common": common,
        "rows": told[:_MANY],
        "more": told[_MANY:],
        "subsets": next((SUBSETS[r.certificate.subsets] for r in rules if not _whole(r)), ""),
        "any_counterexample": any(row["counterexample"] for row in told),
        "any_output": any(row["output"] is not None for row in told),
    }


def _whole(rule: NamedRule) -> bool:
    return rule.certificate.subsets not in SUBSETS


def _without(names: Sequence[str], common: Sequence[str]) -> list[str]:
    return [name for name in names if name not in common or len(names) == 1]
