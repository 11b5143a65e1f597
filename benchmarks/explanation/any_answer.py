"""What explaining any answer costs among 50 documents: calls, waiting, and whether it is right.

``python -m benchmarks.explanation.any_answer --out benchmarks/results/explanations``. Planted sets
decide; a call takes 3 s, simulated by 0.3 s that are counted tenfold. Every cell is a mean
over worlds; calls are those of the function, the repeated whole prompt included.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.explanation.any_answer import started
from rulerag.explanation.claims import split_claims
from rulerag.io import prepare_folder, write_json, write_text

_SOURCES, _CALL, _SCALE = 50, 0.3, 10
_PLANTED = ((1,), (2, 2), (2, 2, 3, 3))
_WAYS: tuple[dict[str, Any], ...] = (
    {"workers": 1},
    {"workers": 8},
    {"workers": 8, "hurry": True},
)


def measure(sizes: Sequence[int], options: dict[str, Any], seed: int) -> dict[str, float]:
    """One world: seconds until the first set and until all is shown, calls, whether it is right.

    Args:
        sizes: of the planted sets, which share no document.
        options: of the explanation.
        seed: of the world.
    """
    rng = random.Random(seed)
    places = rng.sample(range(_SOURCES), sum(sizes))
    planted = [frozenset(places.pop() for _ in range(size)) for size in sizes]
    documents = [f"Document {number}." for number in range(_SOURCES)]

    async def answer(question: str, kept: list[str]) -> str:
        await asyncio.sleep(_CALL)
        held = {documents.index(one) for one in kept}
        return "It is Paris." if any(one <= held for one in planted) else "I don't know."

    why = started(answer, "What is it?", documents, seed=seed, **options)
    begun, first = time.perf_counter(), float("nan")

    async def listen() -> float:
        nonlocal first
        async for event in why.stream():
            if event.kind == "set" and np.isnan(first):
                first = time.perf_counter() - begun
        return time.perf_counter() - begun

    seconds = asyncio.run(listen())
    (claim,) = why.claims
    return {
        "first_seconds": _SCALE * first,
        "seconds": _SCALE * seconds,
        "calls": why.num_calls,
        "right": float(set(claim.retention) == set(planted) and claim.complete),
    }


def run(out: Path | None, worlds: int) -> None:
    """Measure every cell, print the table, and write it with the figures.

    Args:
        out: the folder of ``any_answer.json`` and ``any_answer.md``.
        worlds: a cell is a mean over so many.
    """
    rows = []
    split_claims("Loaded once. It takes longer than a call.")
    for sizes in _PLANTED:
        for options in _WAYS:
            found = [measure(sizes, options, seed) for seed in range(worlds)]
            means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            rows.append({"planted": list(sizes), **options, "worlds": worlds, **means})
            sys.stderr.write(f"{rows[-1]}\n")
    cells = [
        [
            " + ".join(map(str, row["planted"])),
            str(row["workers"]),
            "yes" if row.get("hurry") else "no",
            f"{row['calls']:.0f}",
            f"{row['first_seconds']:.0f}",
            f"{row['seconds']:.0f}",
            f"{100 * row['right']:.0f} %",
        ]
        for row in rows
    ]
    head = ["planted sets", "workers", "hurry", "calls", "first set, s", "all, s", "right"]
    text = markdown_table(head, cells)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "any_answer.json", rows)
        write_text(out / "any_answer.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.explanation.any_answer",
        description=__doc__,
        epilog="example: python -m benchmarks.explanation.any_answer --worlds 5",
    )
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--worlds", type=int, default=10, help="means over so many worlds (10)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: run(arguments.out, arguments.worlds))


if __name__ == "__main__":
    sys.exit(main())
