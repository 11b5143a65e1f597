"""The report page: what was asked, answered, why, how sure and at what cost, then the details.

One file that loads nothing else. Pictures are those of :mod:`rulerag.explanation.views`, each with
its table; a narrow screen gets the table instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from rulerag import __version__
from rulerag.evaluation.metrics import metric
from rulerag.evaluation.page.explained import answer_view, chip, that_fit
from rulerag.evaluation.page.outcomes import (
    KINDS,
    Outcome,
    interval,
    marked,
    outcomes,
    paired,
    sankey_of,
)
from rulerag.evaluation.page.svg import confidence_mark, recall_curves
from rulerag.evaluation.tables import expected_rows, format_value
from rulerag.explanation.records import DocumentTrace, shortened, strongest
from rulerag.explanation.report import AnswerExplanation, plain_rule
from rulerag.explanation.views import Picture, printable, rendered
from rulerag.io import write_text
from rulerag.rules import Rule

_ATOM = re.compile(r"\[([^,\]]*), (.*?), ([^,\]]*)\]")
_SHOWN = (
    "exact_match",
    "token_f1",
    "answer_recall@1",
    "answer_recall@5",
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query_union",
)
_WIDE, _NARROW = 960.0, 350.0
_MOST_DOCUMENTS, _QUOTE = 4, 240

Rows = Sequence[Mapping[str, Any]]


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
        title: its heading.
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
    explained = [AnswerExplanation.from_json(row) for row in explanations]
    answers = [answer_view(told) for told in that_fit(explained)]
    ended = [outcomes(rows) for rows in predictions]
    alone = answers[0] if len(answers) == 1 and not results else None
    return rendered(
        "rulerag.evaluation",
        "report.html.j2",
        title=title,
        alone=alone,
        glance=glance or _glance(results, predictions, ended, explained),
        unshown=len(explained) - len(answers),
        runs=_runs(results, predictions),
        ended=_ended_table(results, ended),
        bands=[Markup(sankey_of(ended[0], width)) for width in (_WIDE, _NARROW)]
        if len(ended) == 1 and ended[0]
        else (),
        kinds=KINDS,
        pairs=_pairs(ended[0]) if len(ended) == 1 else (),
        expected=_expectations(results),
        curves=_curves(results),
        rules=[_rule_view(row) for row in rules],
        any_planted=any(row.get("planted") is not None for row in rules),
        answers=answers,
        columns=_columns(answers),
        about=list(about),
        version=__version__,
    )


# --- the first screen ----


def _glance(
    results: Rows,
    predictions: Sequence[Rows],
    ended: Sequence[Sequence[Outcome]],
    told: Sequence[AnswerExplanation],
) -> list[tuple[str, str]]:
    """The five lines of a run, or of several explained answers; none of one explained answer."""
    if len(results) == 1 and ended and ended[0]:
        return _run_glance(results[0], predictions[0], ended[0])
    if len(told) < 2:
        return []
    chips = Counter(map(chip, told))
    words = {"right": "right", "wrong": "wrong", "": "with no accepted answer to compare"}
    judged = [f"{chips[one]} {word}" for one, word in words.items() if chips[one]]
    whole = sum(one.complete for one in told)
    single = sum(any(len(rule.names) == 1 for rule in strongest(one.retained)) for one in told)
    probes, seconds = sum(one.num_probes for one in told), sum(one.seconds for one in told)
    return [
        ("asked", f"{len(told)} questions"),
        ("answered", ", ".join(judged)),
        ("why", f"{single} of {len(told)} stand as long as one document is kept; see below"),
        ("how sure", f"{whole} of {len(told)} searches came to their end; see each answer"),
        ("cost", f"{probes:,} subsets asked of the generator, {seconds:.2f} s"),
    ]


def _run_glance(
    result: Mapping[str, Any], rows: Rows, ended: Sequence[Outcome]
) -> list[tuple[str, str]]:
    counts = Counter(one.kind for one in ended)
    right = [float(one.kind == "right") for one in ended]
    low, high = interval(right)
    number = len(ended)
    wrong = number - counts["right"]
    lost = [f"{counts[kind]:,} {kind}" for kind in KINDS if kind != "right" and counts[kind]]
    asked = f"{len(rows):,} question{'' if len(rows) == 1 else 's'}"
    asked += f" of {result['benchmark']}" if result.get("benchmark") else ""
    if number < len(rows):
        asked += f", {number:,} of them with an accepted answer"
    seconds = result.get("seconds") or {}
    stages = (("load", "loading"), ("retrieve", "retrieving"), ("generate", "answering"))
    parts = [f"{seconds[key]:.1f} {word}" for key, word in stages if key in seconds]
    cost = f"{seconds['total']:.1f} s" if "total" in seconds else "not recorded"
    cost += f" ({', '.join(parts)})" if parts else ""
    read = result["metrics"].get("documents_per_query")
    cost += "" if read is None else f"; {read:.1f} documents read for a question"
    return [
        ("asked", asked),
        ("answered", f"{counts['right']:,} right, {_percent(counts['right'] / number)}"),
        ("why", f"{wrong:,} wrong: {', '.join(lost)}" if wrong else "nothing was lost on the way"),
        (
            "how sure",
            f"between {_percent(low)} and {_percent(high)} right on questions of this kind, with "
            "95 % confidence",
        ),
        ("cost", cost),
    ]


def _columns(answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[int, Any]]]]:
    """Explained answers side by side: wrong beside right, where there are several."""
    if len(answers) < 2:
        return []
    numbered = list(enumerate(answers, start=1))
    heads = {"right": "Right", "wrong": "Wrong", "": "No accepted answer is known"}
    columns = [
        (head, [(n, one) for n, one in numbered if one["chip"] == word])
        for word, head in heads.items()
    ]
    return [column for column in columns if column[1]]


# --- what was measured ----


def _runs(results: Rows, predictions: Sequence[Rows]) -> dict[str, Any] | None:
    """A table of metrics, each with its interval; of one run a metric has a row, else a column."""
    if not results:
        return None
    held = {name for result in results for name in result["metrics"]}
    names = [name for name in _SHOWN if name in held]
    names += sorted(held - set(_SHOWN)) if len(results) == 1 else []
    kept = list(predictions) or [()] * len(results)
    cells = [
        [(format_value(n, r["metrics"].get(n)), _spread(n, rows)) for n in names]
        for r, rows in zip(results, kept, strict=True)
    ]
    best = _best(results, names)
    terms = [(metric(n).title, metric(n).description) for n in names]
    any_spread = any(spread for row in cells for _, spread in row)
    if len(results) == 1:
        rows = [
            [(title, "", False), (value, spread, False), (means, "", False)]
            for (title, means), (value, spread) in zip(terms, cells[0], strict=True)
        ]
        headings = ["measure", "value", "what it says"]
        return {"headings": headings, "rows": rows, "terms": (), "spread": any_spread}
    several = len({result.get("benchmark") for result in results}) > 1
    rows = []
    for place, (result, row) in enumerate(zip(results, cells, strict=True)):
        seconds = (result.get("seconds") or {}).get("total")
        told = [(str(result.get("method", "")), "", False)]
        told = [(str(result.get("benchmark", "")), "", False), *told] if several else told
        rows.append(
            [
                *told,
                (f"{result['num_queries']:,}", "", False),
                *((*cell, (place, n) in best) for cell, n in zip(row, names, strict=True)),
                ("–" if seconds is None else f"{seconds:.1f}", "", False),
            ]
        )
    headings = [*(["benchmark"] if several else []), "method", "queries"]
    headings += [*(title for title, _ in terms), "seconds"]
    return {"headings": headings, "rows": rows, "terms": terms, "spread": any_spread}


def _spread(name: str, rows: Rows) -> str:
    """The interval of a metric that has a value a question: ``19.5 to 31.4``."""
    values = [row["metrics"][name] for row in rows if name in row["metrics"]]
    if not values or len(values) < len(rows):
        return ""
    low, high = (format_value(name, end) for end in interval(values))
    return "" if low == high else f"{low} to {high}"


def _best(results: Rows, names: Sequence[str]) -> set[tuple[int, str]]:
    """The places of the best values, as printed, among runs of the same benchmark."""
    best = set()
    for name in names:
        higher = metric(name).higher_is_better
        for place, result in enumerate(results):
            rivals = [r for r in results if r.get("benchmark") == result.get("benchmark")]
            values = [r["metrics"][name] for r in rivals if r["metrics"].get(name) is not None]
            if higher is None or len(values) < 2:
                continue
            top = format_value(name, max(values) if higher else min(values))
            if format_value(name, result["metrics"].get(name)) == top:
                best.add((place, name))
    return best


def _ended_table(results: Rows, ended: Sequence[Sequence[Outcome]]) -> dict[str, list[Any]] | None:
    """How many answers ended how: of one run a line for each end, of several a line a run."""
    if not any(ended):
        return None
    if len(ended) == 1:
        rows = []
        for kind, meaning in KINDS.items():
            values = [float(one.kind == kind) for one in ended[0]]
            low, high = interval(values)
            share = f"{_percent(sum(values) / len(values))} ({_percent(low)} to {_percent(high)})"
            rows.append([kind, f"{sum(values):,.0f}", share, meaning])
        return {
            "headings": ["how it ended", "answers", "share (95 %)", "which means"],
            "rows": rows,
        }
    rows = []
    for result, one in zip(results, ended, strict=True):
        counts = Counter(each.kind for each in one)
        name = f"{result.get('method', '')}, {result.get('benchmark', '')}".strip(", ")
        rows.append([name, *(f"{counts[kind]:,}" for kind in KINDS)])
    return {"headings": ["run", *KINDS], "rows": rows}


def _pairs(ended: Sequence[Outcome]) -> list[tuple[str, str, list[tuple[Any, Any]]]]:
    """Wrong answers by the end that they came to, each beside a right one."""
    return [
        (
            kind,
            KINDS[kind],
            [(_example(wrong), None if right is None else _example(right)) for wrong, right in two],
        )
        for kind, two in paired(ended)
    ]


def _example(one: Outcome) -> dict[str, Any]:
    """A row of a run, with the documents that hold one of the answers."""
    row = one.row
    texts = {rule["id"]: rule["text"] for rule in row.get("rules", ())}
    shown = marked(one)
    matter = [(document, marks) for document, marks in shown if marks][:_MOST_DOCUMENTS]
    union = [v for k, v in row["metrics"].items() if re.fullmatch(r"answer_recall@\d+_union", k)]
    late = one.kind == "not retrieved" and any(union)
    return {
        "row": row,
        "right": one.kind == "right",
        "late": late,
        "documents": [
            {
                "document": document,
                "quote": shortened(document["text"], _QUOTE),
                "marks": marks,
                "found": _finder(document, texts),
            }
            for document, marks in matter
        ],
        "others": len(shown) - len(matter),
    }


def _finder(document: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """What found a document, in words: a rule whose body it states comes first."""
    trace = DocumentTrace.from_json({"alias": "", **document})
    if trace.support:
        return f"the scorer {trace.support[0]}"
    found = trace.rules
    if not found:
        return ""
    rule = found[0]
    return "the question" if rule is None else f"the rule {plain_rule(texts.get(rule, rule))}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# --- rules and curves ----


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


def _expectations(results: Rows) -> list[list[str]]:
    """Expected beside measured numbers, a row each."""
    return [
        [
            str(result.get("method", "")),
            metric(row["metric"]).title,
            *(format_value(row["metric"], row[key]) for key in ("measured", "expected")),
            f"± {format_value(row['metric'], row['tolerance'])}",
            "met" if row["met"] else "not met",
            row["source"],
        ]
        for result in results
        for row in expected_rows(result)
    ]


def _curves(results: Rows) -> list[Picture]:
    """A picture for each benchmark."""
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
    return [recall_curves(series, name if several else "") for name, series in charts.items()]


def _rule_view(row: Mapping[str, Any]) -> dict[str, Any]:
    planted, mined = row.get("planted"), row.get("mined")
    difference = None if planted is None or mined is None else mined - planted
    verdict = "missed" if mined is None else "not planted" if planted is None else "found"
    return {
        "text": _styled_rule(printable(str(row["text"]))),
        "mark": confidence_mark(planted, mined),
        "planted": format_value("exact_match", planted),
        "mined": format_value("exact_match", mined),
        "points": "" if difference is None else _points(difference),
        "support": f"{row['support']:,}" if row.get("support") is not None else "–",
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
