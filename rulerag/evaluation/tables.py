"""Result tables as Markdown, measured numbers beside expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, DataFormatError, EmptyDataError
from rulerag.evaluation.metrics import metric
from rulerag.io import read_json

_DESCRIBING = ("benchmark", "method", "retriever", "generator")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what it shows, and whether it is its column's best."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class ResultsTable:
    """Headings and rows of cells; the first columns describe, the others are numbers.

    Args:
        titles: the headings.
        rows: the cells, as many in each row as there are headings.
        describing: how many columns at the left are text.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    describing: int = 1

    def to_markdown(self) -> str:
        """A Markdown table; the best number of a column is bold."""
        texts = [[f"**{cell.text}**" if cell.best else cell.text for cell in r] for r in self.rows]
        numbers = len(self.titles) - self.describing
        return markdown_table(self.titles, texts, "l" * self.describing + "r" * numbers)


def markdown_table(titles: Sequence[str], rows: Iterable[Iterable[str]], layout: str = "") -> str:
    """A Markdown table of cells that are texts already.

    Args:
        titles: the headings.
        rows: the cells, as many in each row as there are headings.
        layout: for each column ``l`` (text) or ``r`` (numbers); numbers but for the first column
            when empty.
    """

    def line(texts: Iterable[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    ends = {"l": "---", "r": "---:"}
    below = [ends[letter] for letter in layout or "l" + "r" * (len(titles) - 1)]
    return "\n".join([line(titles), line(below), *map(line, rows)]) + "\n"


def load_results(places: Sequence[str | Path]) -> list[dict[str, Any]]:
    """The content of several ``metrics.json``, in the order given.

    Args:
        places: the files, or the folders of the runs.

    Raises:
        DataError: a file is missing.
        DataFormatError: a file is no result of a run.
    """
    results = []
    for place in places:
        path = Path(place) / "metrics.json" if Path(place).is_dir() else Path(place)
        if not path.is_file():
            raise DataError(
                "no such file", path=path, hint="the run is not complete: start it again"
            )
        result = read_json(path)
        if not isinstance(result, dict) or not isinstance(result.get("metrics"), dict):
            raise DataFormatError("is no result of a run (it has no 'metrics')", path=path)
        results.append(result)
    return results


def results_table(
    results: Sequence[Mapping[str, Any]],
    metrics: Sequence[str] | None = None,
    *,
    describing: Sequence[str] | None = None,
) -> ResultsTable:
    """One row a run, one column a metric, and an expected column where a config states a number.

    Fractions are printed per cent; the best of a column and benchmark is marked.

    Args:
        results: contents of ``metrics.json``.
        metrics: the metrics to show, in order; all of the first run's when None.
        describing: which of ``benchmark``, ``method``, ``retriever`` and ``generator`` to show;
            the method and what differs between the runs when None.

    Raises:
        EmptyDataError: there is no run.
        UnknownNameError: a metric is unknown.
    """
    if not results:
        raise EmptyDataError("there is no result to show", hint="give at least one run")
    names = list(metrics) if metrics is not None else list(results[0]["metrics"])
    telling = describing or [key for key in _DESCRIBING if _tells(key, results)]
    expected = [{row["metric"]: row for row in expected_rows(result)} for result in results]
    titles = [*telling, "queries"]
    columns: list[list[Cell]] = [
        *([Cell(str(result.get(key, ""))) for result in results] for key in telling),
        [Cell(f"{result['num_queries']:,}") for result in results],
    ]
    for name in names:
        titles.append(metric(name).title)
        columns.append(_metric_column(name, results))
        if any(name in known for known in expected):
            titles.append(f"{metric(name).title} expected")
            columns.append([_expected_cell(known.get(name)) for known in expected])
    rows = tuple(zip(*columns, strict=True))
    return ResultsTable(tuple(titles), rows, describing=len(telling))


def _tells(key: str, results: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a describing column says something: the method always, others where they differ."""
    values = {result.get(key) for result in results}
    return key == "method" or len(values) > 1


def _metric_column(name: str, results: Sequence[Mapping[str, Any]]) -> list[Cell]:
    cells = []
    for result in results:
        text = format_value(name, result["metrics"].get(name))
        cells.append(Cell(text, best=text in _best(name, result, results)))
    return cells


def _best(
    name: str, result: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """The best number of a metric as printed, among the runs of the same benchmark."""
    rivals = [r for r in results if r.get("benchmark") == result.get("benchmark")]
    values = [r["metrics"][name] for r in rivals if r["metrics"].get(name) is not None]
    higher = metric(name).higher_is_better
    if higher is None or len(values) < 2:
        return ()
    return (format_value(name, max(values) if higher else min(values)),)


def format_value(name: str, value: float | None) -> str:
    """A value as tables print it: fractions per cent, counts plain, one decimal; – where None."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if metric(name).is_fraction else f"{value:.1f}"


def _expected_cell(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return Cell("–")
    name = row["metric"]
    mark = "✓" if row["met"] else "✗"
    around = f" ± {format_value(name, row['tolerance'])}" if row["tolerance"] else ""
    return Cell(f"{format_value(name, row['expected'])}{around} {mark}")


def expected_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Measured beside expected numbers of one run.

    The configuration states ``expected: {metric: {value, tolerance, source}}``; a number is met
    when the measured one is no farther away than the tolerance.

    Returns:
        For each expected metric: ``metric``, ``measured`` (None where it was not measured),
        ``expected``, ``tolerance``, ``met``, ``source``.

    Raises:
        DataFormatError: an expectation is no number, or no mapping with one.
    """
    rows = []
    for name, entry in ((result.get("config") or {}).get("expected") or {}).items():
        expected = entry if isinstance(entry, Mapping) else {"value": entry}
        value: Any = expected.get("value")
        tolerance: Any = expected.get("tolerance") or 0.0
        if not all(isinstance(n, int | float) for n in (value, tolerance)):
            raise DataFormatError(
                f"expected a number, found {entry!r}",
                key=f"expected.{name}",
                hint="write {value: 0.45, tolerance: 0.01, source: …}",
            )
        measured = result["metrics"].get(name)
        rows.append(
            {
                "metric": name,
                "measured": measured,
                "expected": float(value),
                "tolerance": float(tolerance),
                # A difference of exactly the tolerance must not fail on its last bit.
                "met": measured is not None and abs(measured - value) <= tolerance + 1e-9,
                "source": str(expected.get("source") or ""),
            }
        )
    return rows
