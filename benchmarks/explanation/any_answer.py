"""What explaining any answer costs among 50 documents: calls, waiting, and whether it is right.

``python -m benchmarks.explanation.any_answer --out benchmarks/results/explanations``. Planted sets
decide; a call takes 3 s, simulated by 0.3 s that are counted tenfold. Every cell is a mean
over worlds; calls are those of the function, the repeated whole prompt included.

With ``--sizes`` each world is explained by random subsets that are each as likely, and by those for
which the number of documents is drawn first. A row says: calls, mean and most of any world; how
often exactly the sets that always hold are found; how often a set has a certificate; and for the
sets that have one how often they really hold, in that third of the sizes (few, some or most of the
other documents kept) where they do so least.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.explanation.any_answer import started
from rulerag.explanation.any_answer.search import SharedDraws, search_claim
from rulerag.explanation.claims import split_claims
from rulerag.explanation.probing import ProbeEngine
from rulerag.io import prepare_folder, write_json, write_text

_SOURCES, _CALL, _SCALE = 50, 0.3, 10
_BUDGET, _DRAWS = 500, ("uniform", "by-size")
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


# --- every size of context counted alike ----

World = Callable[[list[int]], tuple[list[frozenset[int]], Callable[[set[int]], bool]]]
"""Takes places in random order; returns the sets that hold, and whether a claim is made."""


def planted(*sizes: int) -> World:
    """Disjoint sets of some sizes, each enough."""

    def world(places: list[int]) -> tuple[list[frozenset[int]], Callable[[set[int]], bool]]:
        free = iter(places)
        sets = [frozenset(next(free) for _ in range(size)) for size in sizes]
        return sets, lambda kept: any(one <= kept for one in sets)

    return world


def failing(least: int, most: int) -> World:
    """One document, not enough in contexts of some sizes; all documents together are."""

    def world(places: list[int]) -> tuple[list[frozenset[int]], Callable[[set[int]], bool]]:
        one = places[0]
        return [], lambda kept: one in kept and not least <= len(kept) <= most

    return world


def spoilt(size: int) -> World:
    """One document, unless some others are all there; with one more it is enough always."""

    def world(places: list[int]) -> tuple[list[frozenset[int]], Callable[[set[int]], bool]]:
        one, cure, *others = places
        against = set(others[:size])
        sets = [frozenset({one, cure})]
        return sets, lambda kept: one in kept and (cure in kept or not against <= kept)

    return world


WORLDS: dict[str, tuple[World, bool]] = {
    "1": (planted(1), False),
    "2 + 2": (planted(2, 2), False),
    "2 + 2 + 3 + 3": (planted(2, 2, 3, 3), False),
    "1, each": (planted(1), True),
    "2 + 2, each": (planted(2, 2), True),
    "2 + 2 + 3 + 3, each": (planted(2, 2, 3, 3), True),
    "20 times 1, each": (planted(*[1] * 20), True),
    "1, unless two others are there": (spoilt(2), False),
    "1, unless seven others are there": (spoilt(7), False),
    "1, not among 40 to 49": (failing(40, 49), False),
    "1, not among 40 to 49, each": (failing(40, 49), True),
    "1, not among 2 to 8": (failing(2, 8), False),
    "1, not among 2 to 8, each": (failing(2, 8), True),
}
"""Worlds by name, and whether every set is shown by itself."""


def measure_sizes(name: str, subsets: str, seed: int) -> dict[str, float]:
    """One world: calls, whether the sets are right and certified, and how far those hold.

    Args:
        name: of the world.
        subsets: how they are drawn.
        seed: of the world, the search and the draws.
    """
    world, each = WORLDS[name]
    sets, holds = world(random.Random(seed).sample(range(_SOURCES), _SOURCES))

    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if holds(set(kept)) else "no" for kept in batch]

    engine = ProbeEngine.from_function(answer, num_sources=_SOURCES, max_probes=_BUDGET)
    draws = SharedDraws(_SOURCES, 0.95, 0.95, seed, each, subsets)
    found = search_claim(engine, lambda output: output == "yes", draws).retention
    certified = [set(one) for one in found if one.certificate.kind == "certified"]
    rng = random.Random(seed)
    return {
        "calls": engine.num_probes,
        "right": float(set(found) == set(sets)) if sets else float("nan"),
        "certified": float(bool(certified)),
        "worst_third": min((_worst_third(c, holds, rng) for c in certified), default=float("nan")),
    }


def _worst_third(one: set[int], holds: Callable[[set[int]], bool], rng: random.Random) -> float:
    """The least share of contexts with a set in which it holds, of three thirds of the sizes."""
    others = sorted(set(range(_SOURCES)) - one)
    thirds = np.array_split(range(len(others) + 1), 3)
    shares = []
    for third in thirds:
        drawn = [one | set(rng.sample(others, int(size))) for size in third for _ in range(9)]
        shares.append(float(np.mean([holds(kept) for kept in drawn])))
    return min(shares)


def run_sizes(out: Path | None, worlds: int) -> None:
    """Measure every row of the draws by size, print the table, and write it with the figures.

    Args:
        out: the folder of ``context_sizes.json`` and ``context_sizes.md``.
        worlds: a cell is over so many.
    """
    rows: list[dict[str, Any]] = []
    for name in WORLDS:
        for subsets in _DRAWS:
            found = [measure_sizes(name, subsets, seed) for seed in range(worlds)]
            columns = {key: np.array([one[key] for one in found]) for key in found[0]}
            known = {key: values[~np.isnan(values)] for key, values in columns.items()}
            means = {key: float(np.mean(v)) if len(v) else None for key, v in known.items()}
            most = float(columns["calls"].max())
            rows.append(
                {"world": name, "subsets": subsets, "worlds": worlds, **means, "most": most}
            )
    shares = ("right", "certified", "worst_third")
    cells = [
        [row["world"], row["subsets"], f"{row['calls']:.0f} ({row['most']:.0f})"]
        + ["–" if row[key] is None else f"{100 * row[key]:.0f} %" for key in shares]
        for row in rows
    ]
    head = ["planted", "subsets", "calls", "right", "certified", "hold in their worst third"]
    text = markdown_table(head, cells)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "context_sizes.json", rows)
        write_text(out / "context_sizes.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.explanation.any_answer",
        description=__doc__,
        epilog="example: python -m benchmarks.explanation.any_answer --worlds 5",
    )
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--worlds", type=int, help="means over so many worlds (10; 40 of sizes)")
    parser.add_argument("--sizes", action="store_true", help="draws by size beside uniform ones")
    arguments = parser.parse_args(argv)
    if arguments.sizes:
        return guarded(lambda: run_sizes(arguments.out, arguments.worlds or 40))
    return guarded(lambda: run(arguments.out, arguments.worlds or 10))


if __name__ == "__main__":
    sys.exit(main())
