"""The records of a row, one a seed: means, spreads, intervals; and tables of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.arrays import Doubles
from rulerag.evaluation import bootstrap_interval, holm, markdown_table, verdict
from rulerag.io import read_json

TEN, UNION = "answer_recall@10", "answer_recall@10_union"


@dataclass(frozen=True)
class Result:
    """The records of one row, one a seed.

    Args:
        name: of the row.
        title: what the table calls it.
        records: the records of its runs (:class:`~benchmarks.stages.records.RunRecord`).
        values: for each record one value a query of each measure.
    """

    name: str
    title: str
    records: list[dict[str, Any]]
    values: list[dict[str, Doubles]]

    def column(self, measure: str) -> Doubles:
        """One value a query, the mean over the seeds."""
        column: Doubles = np.mean([values[measure] for values in self.values], axis=0)
        return column

    def mean(self, measure: str) -> float:
        """The mean over queries and seeds; not a number where a record lacks the measure."""
        found = [record["metrics"].get(measure, math.nan) for record in self.records]
        return float(np.mean(found))

    def spread(self, measure: str) -> float:
        """The standard deviation over the seeds; 0 for one."""
        found = [record["metrics"][measure] for record in self.records]
        return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0

    @property
    def cpu_seconds(self) -> float:
        """To build the index and to search for all queries, the mean over the seeds."""
        return float(np.mean([sum(record["cpu_seconds"].values()) for record in self.records]))

    @property
    def memory_mb(self) -> int:
        """Peak memory of the worst run."""
        return max(int(record["memory_mb"]) for record in self.records)

    def summary(self) -> dict[str, Any]:
        """What results files keep: means, spreads over the seeds, bootstrap intervals."""
        measures = list(self.records[0]["metrics"])
        return {
            "title": self.title,
            "seeds": [record["seed"] for record in self.records],
            "num_queries": self.records[0]["num_queries"],
            "metrics": {name: round(self.mean(name), 5) for name in measures},
            "spread": {name: round(self.spread(name), 5) for name in (TEN, UNION)},
            "interval": {name: self.interval(name) for name in (TEN, UNION)},
            "best_step": [one["best_step"] for one in self.trained()],
            "cpu_seconds": round(self.cpu_seconds, 1),
            "memory_mb": self.memory_mb,
        }

    def interval(self, measure: str) -> list[float]:
        """The bootstrap interval of the mean, 95 %: queries, and seeds where there are several."""
        rows = [values[measure].tolist() for values in self.values]
        low, high = bootstrap_interval(rows, samples=2000)
        return [round(low, 4), round(high, 4)]

    def cell(self, measure: str) -> str:
        """The mean, its spread over several seeds, and its bootstrap interval, per cent."""
        low, high = self.interval(measure)
        spread = f" ±{100 * self.spread(measure):.1f}" if len(self.records) > 1 else ""
        return f"{percent(self.mean(measure))}{spread} [{100 * low:.1f}, {100 * high:.1f}]"

    @property
    def called(self) -> str:
        """The title, with the number of seeds where something is fine-tuned."""
        count = len(self.records)
        learned = self.trained("reader") or self.trained("retriever") or count > 1
        return self.title + (f" ({count} seed{'s' if count > 1 else ''})" if learned else "")

    def trained(self, half: str = "retriever") -> list[dict[str, int]]:
        """Of each seed's fine-tuning the step that was kept, of how many; empty without one.

        Args:
            half: ``retriever``, or ``reader`` in a row that reads.
        """
        trainings = [record.get("training", {}).get(half) for record in self.records]
        return [one for one in trainings if one]

    def steps(self, half: str = "retriever") -> str:
        """The same for a table: ``0, 96, 128 of 256``, a step for each seed."""
        kept = self.trained(half)
        if not kept:
            return "–"
        of = max(one["steps"] for one in kept)
        return f"{', '.join(str(one['best_step']) for one in kept)} of {of}"


def load_result(folder: Path, row: str, title: str, tag: str = "") -> Result | None:
    """All seeds of a row, from the folder of a benchmark and query set; None without any."""
    places = sorted(
        (place for place in folder.glob(f"{row}{tag}-*.json") if _is_seed(place, f"{row}{tag}")),
        key=lambda place: int(place.stem.rpartition("-")[2]),
    )
    if not places:
        return None
    values = []
    for place in places:
        with np.load(place.parent / f"{place.stem}.values.npz") as held:
            values.append({name: held[name] for name in held.files})
    return Result(row, title, [read_json(place) for place in places], values)


def _is_seed(place: Path, start: str) -> bool:
    return place.stem.removeprefix(f"{start}-").isdigit()


def percent(value: float | None) -> str:
    """A fraction as per cent; a dash for none and for what is not a number."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.1f}"


def difference_table(
    rows: Sequence[dict[str, Any]],
    titles: Sequence[str],
    measure: str,
    *,
    ours: str = "ours",
    called: str,
    more: Sequence[str] = (),
) -> str:
    """Markdown of paired comparisons; puts Holm's p-values over all of them, and verdicts, in.

    Args:
        rows: with the two values, ``other`` and ``p``, and what the titles name.
        titles: the columns that say what is compared.
        measure: the heading of our values.
        ours: the key of our values.
        called: the key and heading of the verdicts.
        more: columns behind the verdict.
    """
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
        row[called] = verdict(row[ours] - row["other"], adjusted)
    cells = [
        [
            *(row[key] for key in titles),
            percent(row[ours]),
            percent(row["other"]),
            f"{100 * (row[ours] - row['other']):+.1f}",
            f"{row['p_holm']:.4f}",
            row[called],
            *(row[key] for key in more),
        ]
        for row in rows
    ]
    heads = [*titles, measure, "other", "difference", "p (Holm)", called, *more]
    return markdown_table(heads, cells, "llllrrrrl" + "r" * len(more))
