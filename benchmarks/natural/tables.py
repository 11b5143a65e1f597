"""The tables of the natural benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rulerag.evaluation import markdown_table

_SHARES = ("entity", "relation", "relation@3", "direction", "time", "all")


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: rules against no rules, then what was understood and answered.

    Args:
        found: the figures of each benchmark.
    """
    retrieval = [
        (
            one["dataset"],
            row["form"],
            f"{row['documents']:,}",
            *(f"{100 * row[key]:.1f}" for key in ("before", "after")),
            *_difference(row),
        )
        for one in found
        for row in one["retrieval"]
    ]
    heads = ("benchmark", "documents and questions", "documents", "plain", "rules", "added", "p")
    linking = [
        (
            one["dataset"],
            name,
            *(f"{100 * row[key]:.1f}" for key in _SHARES),
            f"{row['ms']:.0f}",
            *(f"{100 * row['exact_match'][key]:.1f}" for key in ("before", "after")),
            *_difference(row["exact_match"]),
        )
        for one in found
        for name, row in one.get("linking", {}).items()
    ]
    names = ("benchmark", "linker", "entity", "relation", "in first 3", "direction", "time", "all")
    return "\n\n".join(
        (
            markdown_table(heads, retrieval, "ll" + "r" * 5),
            markdown_table(
                (*names, "ms", "EM, exact form", "EM, linked", "added", "p"),
                linking,
                "ll" + "r" * 11,
            ),
        )
    )


def _difference(row: Mapping[str, Any]) -> tuple[str, str]:
    low, high = (100 * end for end in row["interval"])
    return f"{100 * row['added']:+.1f} [{low:+.1f}, {high:+.1f}]", f"{row['p']:.4f}"
