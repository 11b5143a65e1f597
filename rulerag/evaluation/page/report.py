"""The report page: what was asked, answered, why, how sure and at what cost, then the details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag import __version__
from rulerag.evaluation.page.explained import explained_blocks, explained_glance
from rulerag.evaluation.page.runs import Rows, endings_of, run_blocks, run_glance
from rulerag.evaluation.tables import format_value
from rulerag.explanation.explaining import Explanation, explanation_blocks, plain_rule
from rulerag.io import write_text
from rulerag.rules import Rule
from rulerag.views import Block, Page, Pairs, Section, Table


def write_report(path: str | Path, **parts: Any) -> None:
    """Write the page atomically; see :func:`render_report` for its parts.

    Raises:
        OutputError: the file cannot be written.
    """
    write_text(path, render_report(**parts))


def render_report(
    *,
    title: str,
    glance: Sequence[tuple[str, str]] = (),
    results: Rows = (),
    predictions: Sequence[Rows] = (),
    rules: Rows = (),
    explanations: Rows = (),
    about: Sequence[tuple[str, str]] = (),
) -> str:
    """The page as one HTML text: styles and drawings inside, nothing fetched.

    Args:
        title: its heading; above the question where one explained answer is all there is.
        glance: ``(label, text)`` pairs of the first screen: asked, answered, why, how sure, cost;
            made from the other parts when empty.
        results: contents of ``metrics.json``, one a run.
        predictions: the lines of each run's ``predictions.jsonl``, in the order of the results:
            they give intervals, and show how answers ended.
        rules: rows of :func:`rule_rows`.
        explanations: objects of ``explanations.jsonl``; the page says where it has no room for all.
        about: ``(label, value)`` pairs on how it was made: dataset, settings, command, date.

    Raises:
        UnknownNameError: a metric is unknown.
        DataFormatError: an explanation lacks a key, or one has the wrong type.
    """
    explained = [Explanation.from_json(row) for row in explanations]
    alone = explained[0] if len(explained) == 1 and not results else None
    endings = [endings_of(rows) for rows in predictions]
    if not glance and len(results) == len(endings) == 1 and endings[0]:
        glance = run_glance(results[0], predictions[0], endings[0])
    elif not glance and len(explained) > 1:
        glance = explained_glance(explained)
    blocks: list[Block] = [Pairs(tuple(glance))] if glance else []
    blocks += explanation_blocks(alone) if alone else []
    several = () if alone else tuple(explained_blocks(explained))
    blocks += [*several[:-1], *run_blocks(results, predictions, endings), *several[-1:]]
    blocks += [_rules_section(rules)] if rules else []
    if about:
        blocks.append(Section("How this page was made", (Pairs(tuple(about)),), "folded"))
    foot = f"Made by rulerag {__version__}. This page loads nothing from anywhere."
    page = Page(alone.question if alone else title, tuple(blocks), title if alone else "", foot)
    return page.html()


def rule_rows(
    mined: Iterable[Rule], planted: Sequence[tuple[Rule, float]] = ()
) -> list[dict[str, Any]]:
    """The rows of the rules table: planted rules first, then what was mined besides.

    Args:
        mined: the mined rules.
        planted: rules that are known to hold, each with its true confidence.
    """
    rules_by_id = {rule.id: rule for rule in mined}
    rows = [_rule_row(rule, rules_by_id.pop(rule.id, None), truth) for rule, truth in planted]
    others = sorted(rules_by_id.values(), key=lambda rule: (-rule.ranking_confidence, rule.text))
    return rows + [_rule_row(rule, rule, None) for rule in others]


def _rule_row(rule: Rule, mined: Rule | None, planted: float | None) -> dict[str, Any]:
    return {
        "id": rule.id,
        "text": mined.text if mined else rule.text,
        "planted": planted,
        "mined": mined.ranking_confidence if mined else None,
        "support": mined.quality.support if mined else None,
    }


def _rules_section(rules: Rows) -> Section:
    """Rules with confidence and support, beside the planted ones where these are known."""
    planted = any(row.get("planted") is not None for row in rules)
    columns = range(6) if planted else (0, 2, 4)
    headings = ("rule", "planted", "confidence", "difference", "support", "found")
    note = (
        "Confidence, per cent: of the cases in which the left side held, the share in which the "
        "right side held too; a difference is in points. Support: how many these were."
    )
    table = Table(
        tuple(headings[column] for column in columns),
        tuple(tuple(_rule_cells(row)[column] for column in columns) for row in rules),
        note,
    )
    return Section("Rules, planted and mined" if planted else "Rules", (table,))


def _rule_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    planted, mined = row.get("planted"), row.get("mined")
    points = ""
    if planted is not None and mined is not None:
        points = f"{100 * (mined - planted):+.1f}".replace("-", "−")
    return (
        plain_rule(str(row["text"])),
        format_value("exact_match", planted),
        format_value("exact_match", mined),
        "0.0" if points[1:] == "0.0" else points,
        f"{row['support']:,}" if row.get("support") is not None else "–",
        "missed" if mined is None else "not planted" if planted is None else "found",
    )
