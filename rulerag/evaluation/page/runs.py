"""Runs in a report: what was measured, how the answers ended, wrong ones beside right ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rulerag.evaluation.metrics import AnswerMatcher, metric
from rulerag.evaluation.outcomes import OUTCOMES, Outcome, outcome_of
from rulerag.evaluation.significance import bootstrap_interval, wilson_interval
from rulerag.evaluation.tables import expected_rows, format_value, results_table
from rulerag.explanation.explaining import plain_rule
from rulerag.text import shortened, token_f1
from rulerag.types import Document
from rulerag.views import (
    AnswerText,
    Block,
    Columns,
    Link,
    Node,
    Pairs,
    Section,
    Table,
    Text,
    flow_picture,
)

Rows = Sequence[Mapping[str, Any]]

_SHOWN = (
    "exact_match",
    "token_f1",
    "answer_recall@1",
    "answer_recall@5",
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query_union",
)
_PAIRS, _SAMPLES, _DOCUMENTS, _QUOTE, _ACCEPTED = 2, 2000, 4, 240, 3
"""Wrong answers of a kind, draws of a bootstrap, documents and their letters in an example, and
accepted answers that are named."""


class AnswerEnding(NamedTuple):
    """An answer of a run: how it ended, and its line of ``predictions.jsonl``."""

    outcome: Outcome
    row: Mapping[str, Any]


def endings_of(rows: Rows) -> list[AnswerEnding]:
    """How the answers of a run ended; those without accepted answers are left out."""
    matcher, endings = AnswerMatcher(), []
    for row in rows:
        if row["answers"]:
            read = [Document(one["id"], one["text"]) for one in row["documents"]]
            ended = outcome_of(row["answer"], row["answers"], read, matcher, row=row)
            endings.append(AnswerEnding(ended, row))
    return endings


def run_blocks(
    results: Rows, predictions: Sequence[Rows], endings: Sequence[Sequence[AnswerEnding]]
) -> Iterator[Block]:
    """Measures with their intervals, how answers ended, and pairs of them.

    Args:
        results: contents of ``metrics.json``, one a run.
        predictions: the lines of each run's ``predictions.jsonl``, in the same order.
        endings: how the answers of each ended.
    """
    if results:
        yield Section("What was measured", tuple(_measured(results, predictions)))
    if any(endings):
        blocks = _run_endings(endings[0]) if len(endings) == 1 else _runs_endings(results, endings)
        yield Section("How the answers ended", tuple(blocks))
    if len(endings) == 1 and (pairs := tuple(_pairs(endings[0]))):
        note = (
            "The first two of each kind in the order of the questions; none is picked. Beside each "
            "stands the right answer to the question whose words are most like its own. What held "
            "the answers is read off the texts; whether a document caused an answer is for rulerag "
            "explain, which asks again without it."
        )
        yield Section("Wrong answers beside right ones", (Text((note,), "small"), *pairs))


def run_glance(
    result: Mapping[str, Any], rows: Rows, endings: Sequence[AnswerEnding]
) -> tuple[tuple[str, str], ...]:
    """The first screen of one run whose answers can be judged: asked, answered, why, sure, cost."""
    counts, number = Counter(one.outcome.name for one in endings), len(endings)
    low, high = interval([float(one.outcome.name == "right") for one in endings])
    wrong = number - counts["right"]
    lost = [f"{counts[name]:,} {name}" for name in OUTCOMES if name != "right" and counts[name]]
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
    sure = f"between {_percent(low)} and {_percent(high)} right on questions of this kind"
    return (
        ("asked", asked),
        ("answered", f"{counts['right']:,} right, {_percent(counts['right'] / number)}"),
        ("why", f"{wrong:,} wrong: {', '.join(lost)}" if wrong else "nothing was lost on the way"),
        ("how sure", f"{sure}, with 95 % confidence"),
        ("cost", cost),
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean over questions.

    Of values that are 0 or 1 it is Wilson's, which stays honest when all are alike; of
    others the percentile bootstrap's.

    Args:
        values: one a question, at least one.
    """
    if set(values) <= {0.0, 1.0}:
        return wilson_interval(round(sum(values)), len(values))
    return bootstrap_interval(values, samples=_SAMPLES)


# --- what was measured ----


def _measured(results: Rows, predictions: Sequence[Rows]) -> Iterator[Block]:
    """Of one run a measure has a row, of several a column."""
    rows = list(predictions) or [()] * len(results)
    held = {name for result in results for name in result["metrics"]}
    names = [name for name in _SHOWN if name in held]
    note = "Per cent, but for counts and seconds; in parentheses the 95 % interval over questions"
    if len(results) == 1:
        names += sorted(held - set(_SHOWN))
        cells = []
        for name in names:
            value = format_value(name, results[0]["metrics"][name]) + _spread(name, rows[0])
            cells.append((metric(name).title, value, metric(name).description))
        yield Table(("measure", "value", "what it says"), tuple(cells), f"{note}.")
    else:
        yield _runs_table(results, rows, names, f"{note}; the best of a benchmark is bold.")
        yield Pairs(tuple((metric(name).title, metric(name).description) for name in names))
    expected = tuple(
        (
            str(result.get("method", "")),
            metric(row["metric"]).title,
            *(format_value(row["metric"], row[key]) for key in ("measured", "expected")),
            f"± {format_value(row['metric'], row['tolerance'])}",
            "met" if row["met"] else "not met",
            row["source"],
        )
        for result in results
        for row in expected_rows(result)
    )
    if expected:
        headings = ("method", "measure", "measured", "expected", "tolerance", "met", "source")
        yield Section("Expected and measured", (Table(headings, expected),))


def _runs_table(results: Rows, rows: Sequence[Rows], names: Sequence[str], note: str) -> Table:
    several = len({result.get("benchmark") for result in results}) > 1
    describing = ("benchmark", "method") if several else ("method",)
    bare = [{**result, "config": {}} for result in results]  # what is expected stands below
    table = results_table(bare, names, describing=describing)
    first = len(table.titles) - len(names)
    lines, best = [], set()
    for line, (cells, result, predicted) in enumerate(zip(table.rows, results, rows, strict=True)):
        seconds = (result.get("seconds") or {}).get("total")
        spreads = [*[""] * first, *(_spread(name, predicted) for name in names)]
        texts = [f"{cell.text}{spread}" for cell, spread in zip(cells, spreads, strict=True)]
        lines.append((*texts, "–" if seconds is None else f"{seconds:.1f}"))
        best |= {(line, column) for column, cell in enumerate(cells) if cell.best}
    return Table((*table.titles, "seconds"), tuple(lines), note, frozenset(best))


def _spread(name: str, rows: Rows) -> str:
    """The interval of a metric that has a value a question: `` (19.5–31.4)``."""
    values = [row["metrics"][name] for row in rows if name in row["metrics"]]
    if not values or len(values) < len(rows):
        return ""
    low, high = (format_value(name, end) for end in interval(values))
    return "" if low == high else f" ({low}–{high})"


# --- how answers ended ----


def _run_endings(endings: Sequence[AnswerEnding]) -> Iterator[Block]:
    """From whether an accepted answer was retrieved to how the answer ended; then a row an end."""
    counts = Counter((one.outcome.retrieved, one.outcome.name) for one in endings)
    steps = [step for step in (True, False) if any(key[0] is step for key in counts)]
    names = [name for name in OUTCOMES if any(key[1] == name for key in counts)]
    words = {True: "accepted answer among the documents", False: "not among the documents"}

    def many(place: int, wanted: object) -> str:
        return _answers(sum(n for key, n in counts.items() if key[place] == wanted))

    yield flow_picture(
        {
            "retrieved": [Node(words[step], note=many(0, step)) for step in steps],
            "answered": [Node(name, note=many(1, name)) for name in names],
        },
        [
            Link(0, steps.index(step), names.index(name), "share", count, _answers(count))
            for (step, name), count in counts.items()
        ],
        title="How the answers ended, by whether a document that was read holds an accepted one",
        note="A band is as wide as the answers that it stands for.",
    )
    rows = []
    for name in names:
        values = [float(one.outcome.name == name) for one in endings]
        low, high = interval(values)
        share = f"{_percent(sum(values) / len(values))} ({_percent(low)} to {_percent(high)})"
        rows.append((name, f"{sum(values):,.0f}", share, OUTCOMES[name]))
    yield Table(("how it ended", "answers", "share (95 %)", "which means"), tuple(rows))


def _runs_endings(results: Rows, endings: Sequence[Sequence[AnswerEnding]]) -> Iterator[Block]:
    rows = []
    ended = {one.outcome.name for answers in endings for one in answers}
    names = [name for name in OUTCOMES if name in ended]
    for result, answers in zip(results, endings, strict=True):
        counts = Counter(one.outcome.name for one in answers)
        name = f"{result.get('method', '')}, {result.get('benchmark', '')}".strip(", ")
        rows.append((name, *(f"{counts[outcome]:,}" for outcome in names)))
    yield Table(("run", *names), tuple(rows))
    yield Pairs(tuple((name, OUTCOMES[name]) for name in names))


def _answers(number: int) -> str:
    return f"{number:,} answer{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# --- pairs ----


def _pairs(endings: Sequence[AnswerEnding]) -> Iterator[Section]:
    """Wrong answers of each kind, each beside the right answer to the most similar question."""
    right = [one for one in endings if one.outcome.name == "right"]
    for name, meaning in OUTCOMES.items():
        wrong = [one for one in endings if one.outcome.name == name][:_PAIRS]
        if name == "right" or not wrong:
            continue
        blocks: list[Block] = [Text((f"{meaning[0].upper()}{meaning[1:]}.",), "small")]
        for one in wrong:
            nearest = max(right, key=lambda other: _likeness(one, other), default=None)
            beside = _example(nearest) if nearest else Text(("No answer of the run is right.",))
            blocks.append(Columns((_example(one), beside)))
        yield Section(name.capitalize(), tuple(blocks))


def _likeness(one: AnswerEnding, other: AnswerEnding) -> float:
    """How far the words of two questions overlap."""
    return token_f1(other.row["query"], one.row["query"])


def _example(one: AnswerEnding) -> Section:
    """A row of a run, with the documents that hold one of the answers."""
    outcome, row = one
    right = outcome.name == "right"
    lines = list(_holding(one))[:_DOCUMENTS]
    blocks: list[Block] = [AnswerText.of(row["answer"], (), "right" if right else "wrong")]
    if not right:
        more = len(row["answers"]) - _ACCEPTED
        accepted = f"Accepted: {', '.join(row['answers'][:_ACCEPTED])}"
        accepted += f" or {more} others" if more > 0 else ""
        whole = (key for key in row["metrics"] if re.fullmatch(r"answer_recall@\d+_union", key))
        if outcome.name == "not retrieved" and any(row["metrics"][key] for key in whole):
            accepted += "; a document that holds it was found, and cut off before reading"
        blocks.append(Text((accepted,), "small"))
    others = len(row["documents"]) - len(lines)
    read = f"{others} other document{'' if others == 1 else 's'} read"
    blocks += [Text(tuple(lines), "list"), Text((read,), "small")]
    return Section(row["query"], tuple(blocks), "card")


def _holding(one: AnswerEnding) -> Iterator[str]:
    """The documents that hold an accepted answer, or the wrong one, each in a line."""
    outcome, row = one
    matcher, rules = AnswerMatcher(), {rule["id"]: rule["text"] for rule in row.get("rules", ())}
    for document, holds in zip(row["documents"], outcome.holding, strict=True):
        read = Document(document["id"], document["text"])
        marks = ["holds an accepted answer"] if holds else []
        if outcome.name != "right" and matcher.first_rank([read], [row["answer"]]):
            marks.append("holds the answer given")
        if marks:
            finder = _finder(document, rules)
            marks += [f"found by {finder}"] if finder else []
            name = f"[{document['rank']}] {document.get('title', '')}".strip()
            yield f"{name} “{shortened(read.text, _QUOTE)}”: {'; '.join(marks)}"


def _finder(document: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """What found a document, in words: a rule whose body it states comes first."""
    for reason in document.get("support", ()):
        return f"the scorer {reason['scorer']}: {reason['why']}"
    hits = sorted(
        document["found_by"],
        key=lambda hit: (hit["rule"] is None, hit.get("atom") is None, hit["rank"]),
    )
    for hit in hits:
        rule = hit["rule"]
        return f"the rule {plain_rule(texts.get(rule, rule))}" if rule else "the question"
    return ""
