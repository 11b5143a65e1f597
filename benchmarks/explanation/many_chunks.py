"""What explaining an answer costs among 500 chunks, three of which decide, and in a long document.

``python -m benchmarks.explanation.many_chunks --out benchmarks/results/explanations``. The chunks
are twenty each of 25 documents; planted ones decide. Scores of a retriever rank them among the
first 10 or 50, by chance, or last of all. Calls are those of the answer function, the repeated
whole prompt included; every cell is over so many worlds.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rulerag
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.explanation.any_answer import Why
from rulerag.io import prepare_folder, write_json, write_text

_CHUNKS, _A_DOCUMENT = 500, 20
_PLANTED = {
    "all three together": (3,),
    "any one of three": (1, 1, 1),
    "one, or two together": (1, 2),
}
_QUESTION, _SAID = "What is it?", "It is Paris."
_RANKS: dict[str, int | None] = {
    "nothing": None,
    "scores: among the first 10": 10,
    "scores: among the first 50": 50,
    "scores: by chance": 500,
    "scores: last": 0,
}
_SHOWN_ALONE = ("nothing", "scores: among the first 10")
_LONG, _A_SECTION = 3000, 30


def chunks_of(
    rng: random.Random, decisive: Sequence[int], rank: int | None, *, origins: bool
) -> list[dict[str, Any]]:
    """500 chunks; with scores that put the decisive ones among the first ``rank``, 0 for last.

    Args:
        rng: of the scores.
        decisive: places of the chunks that decide.
        rank: see above; no scores when None.
        origins: the metadata names the document of each chunk.
    """
    chunks: list[dict[str, Any]] = [{"text": f"Chunk {n}."} for n in range(_CHUNKS)]
    if origins:
        for n, chunk in enumerate(chunks):
            chunk["source"] = f"document-{n // _A_DOCUMENT}"
    if rank is not None:
        others = [n for n in range(_CHUNKS) if n not in decisive]
        rng.shuffle(others)
        order = [*others, *decisive]
        if rank:
            for place in sorted(rng.sample(range(rank), len(decisive))):
                order.insert(place, order.pop())
        for place, n in enumerate(order):
            chunks[n]["score"] = 1 - place / _CHUNKS
    return chunks


def explained(chunks: Sequence[Any], planted: Sequence[frozenset[int]], **options: Any) -> Why:
    """The explanation of an answer that the planted sets of chunks decide."""
    places = {chunk["text"]: n for n, chunk in enumerate(chunks)}

    def answer(question: str, lists: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
        held = [{places[chunk["text"]] for chunk in chunks} for chunks in lists]
        return [_SAID if any(one <= h for one in planted) else "I don't know." for h in held]

    return rulerag.explain(
        answer, _QUESTION, chunks, workers=1, batched=True, budget=None, **options
    )


def world(
    sizes: Sequence[int], seed: int, *, near: bool, rank: int | None, each: bool, origins: bool
) -> dict[str, float]:
    """Calls for one world, and whether exactly the planted sets were found and shown."""
    rng = random.Random(seed)
    first = rng.randrange(_CHUNKS // _A_DOCUMENT) * _A_DOCUMENT
    places = rng.sample(range(first, first + _A_DOCUMENT) if near else range(_CHUNKS), sum(sizes))
    chunks = chunks_of(rng, places, rank, origins=origins)
    planted = [frozenset(places.pop() for _ in range(size)) for size in sizes]
    why = explained(chunks, planted, seed=seed, each=each)
    (claim,) = why.claims
    return {
        "calls": why.num_calls,
        "right": float(set(claim.retention) == set(planted) and claim.complete),
    }


def chunk_rows(worlds: int) -> list[dict[str, Any]]:
    """The cells of the table of chunks."""
    ways: list[dict[str, Any]] = [
        {"near": False, "rank": rank, "order": order, "origins": False}
        for order, rank in _RANKS.items()
    ]
    for near in (False, True):
        ways.append({"near": near, "rank": None, "order": "documents in metadata", "origins": True})
    ways.append({"near": True, "rank": None, "order": "nothing", "origins": False})
    rows = []
    for name, sizes in _PLANTED.items():
        for way in ways:
            for each in (False, True):
                if each and way["order"] not in _SHOWN_ALONE:
                    continue
                options = {key: value for key, value in way.items() if key != "order"}
                found = [world(sizes, seed, each=each, **options) for seed in range(worlds)]
                calls = [one["calls"] for one in found]
                rows.append(
                    {
                        "planted": name,
                        **way,
                        "each": each,
                        "worlds": worlds,
                        "calls": float(np.mean(calls)),
                        "most": max(calls),
                        "right": float(np.mean([one["right"] for one in found])),
                    }
                )
                sys.stderr.write(f"{rows[-1]}\n")
    return rows


# --- level by level -------------------------------------------------------------------------------


def _by_groups(seed: int, *, dense: bool, level: str) -> tuple[list[Why], bool]:
    """Three chunks of three documents together; or twenty of one document, any one enough."""
    rng = random.Random(seed)
    first = rng.randrange(_CHUNKS // _A_DOCUMENT) * _A_DOCUMENT
    if dense:
        planted = [frozenset({n}) for n in range(first, first + _A_DOCUMENT)]
    else:
        planted = [frozenset(rng.sample(range(_CHUNKS), 3))]
    chunks = chunks_of(rng, [], None, origins=True)
    why = explained(chunks, planted, seed=seed, level=level)
    steps = [why, why.finer(budget=None)] if level == "group" else [why]
    found = {
        frozenset(int(steps[-1].documents[n].label[1:-1]) - 1 for n in one)
        for one in steps[-1].claims[0].retention
    }
    return steps, found == set(planted)


def _long(seed: int, *, level: str) -> tuple[list[Why], bool]:
    """Three sentences together among 3,000 of one document, 30 to a section."""
    rng = random.Random(seed)
    sentences = [f"Line {n} says a thing." for n in range(_LONG)]
    parts = [
        f"# Part {n // _A_SECTION}\n\n{' '.join(sentences[n : n + _A_SECTION])}"
        for n in range(0, _LONG, _A_SECTION)
    ]
    needed = set(rng.sample(sentences, 3))

    def answer(question: str, lists: Sequence[Sequence[str]]) -> list[str]:
        texts = ["".join(documents) for documents in lists]
        return [_SAID if all(n in text for n in needed) else "I don't know." for text in texts]

    options: dict[str, Any] = {"workers": 1, "batched": True, "budget": None, "seed": seed}
    why = rulerag.explain(answer, _QUESTION, ["\n\n".join(parts)], level=level, **options)
    steps = [why, why.finer(budget=None)] if level == "section" else [why]
    found = [{steps[-1].documents[n].text for n in one} for one in steps[-1].claims[0].retention]
    return steps, found == [needed]


_STEPS: dict[str, Callable[[int], tuple[list[Why], bool]]] = {
    "three chunks together: groups, then chunks": lambda s: _by_groups(
        s, dense=False, level="group"
    ),
    "three chunks together: chunks at once": lambda s: _by_groups(s, dense=False, level="document"),
    "twenty chunks of one document, any: groups, then chunks": lambda s: _by_groups(
        s, dense=True, level="group"
    ),
    "twenty chunks of one document, any: chunks at once": lambda s: _by_groups(
        s, dense=True, level="document"
    ),
    "3,000 sentences, three together: sections, then sentences": lambda s: _long(
        s, level="section"
    ),
    "3,000 sentences, three together: sentences at once": lambda s: _long(s, level="sentence"),
}


def step_rows(worlds: int) -> list[dict[str, Any]]:
    """The cells of the table of levels: calls of each step."""
    rows = []
    for name, explain in _STEPS.items():
        found = [explain(seed) for seed in range(worlds)]
        calls = np.array([[why.num_calls for why in steps] for steps, _ in found])
        rows.append(
            {
                "case": name,
                "worlds": worlds,
                "steps": calls.mean(axis=0).tolist(),
                "calls": float(calls.sum(axis=1).mean()),
                "most": int(calls.sum(axis=1).max()),
                "right": float(np.mean([right for _, right in found])),
            }
        )
        sys.stderr.write(f"{rows[-1]}\n")
    return rows


def run(out: Path | None, worlds: int) -> None:
    """Measure every cell, print the tables, and write them with the figures.

    Args:
        out: the folder of ``many_chunks.json`` and ``many_chunks.md``.
        worlds: a cell is over so many.
    """
    chunks, steps = chunk_rows(worlds), step_rows(worlds)
    cells = [
        [
            row["planted"],
            "in one document" if row["near"] else "anywhere",
            row["order"],
            "each set" if row["each"] else "all sets",
            f"{row['calls']:.0f}",
            f"{row['most']:.0f}",
            f"{100 * row['right']:.0f} %",
        ]
        for row in chunks
    ]
    head = ["planted", "where", "known before", "shown for", "calls", "at most", "right"]
    levels = [
        [
            row["case"],
            " + ".join(f"{one:.0f}" for one in row["steps"]),
            f"{row['calls']:.0f}",
            f"{row['most']:.0f}",
            f"{100 * row['right']:.0f} %",
        ]
        for row in steps
    ]
    text = markdown_table(head, cells)
    head = ["level by level", "calls a step", "calls", "at most", "right"]
    text += "\n" + markdown_table(head, levels)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "many_chunks.json", {"chunks": chunks, "levels": steps})
        write_text(out / "many_chunks.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.explanation.many_chunks",
        description=__doc__,
        epilog="example: python -m benchmarks.explanation.many_chunks --worlds 5",
    )
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--worlds", type=int, default=40, help="a cell is over so many worlds (40)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: run(arguments.out, arguments.worlds))


if __name__ == "__main__":
    sys.exit(main())
