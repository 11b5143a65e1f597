"""Calls among 50 documents where the sets that decide are known, by every way in.

``python -m benchmarks.explanation planted --out benchmarks/results/explanations``. Calls are all
that the answer function got, the repeated whole prompt included. A world is exact where the sets
that always hold are found, no other, and the search says that it is complete; certified where every
set found has a certificate. For sets that have one it is said how often they really hold, in that
third of the sizes of contexts (few, some or most of the other documents kept) where they do so
least.

With ``--sizes`` more worlds are explained, among them some in which no set always holds; by random
subsets that are each as likely, and by those for which the number of documents is drawn first.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import rulerag
from rulerag.cli import main as command_line
from rulerag.evaluation import markdown_table
from rulerag.explanation.explaining import Explanation
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.search import CertifiedMiner
from rulerag.io import prepare_folder, read_records, write_json, write_jsonl, write_text

SOURCES = 50
PLANTED = ((1,), (2, 2), (2, 2, 3, 3))
"""Sizes of the planted sets, which share no document; each is enough."""

_QUESTION, _ANSWER, _NONE = "What is it?", "It is Paris.", "I don't know."
_PER_THIRD = 9  # contexts of each size
_ANSWERER = """
SETS = {sets!r}

def answer(question, documents):
    held = {{int(one["text"].split()[1].strip(".")) for one in documents}}
    return {yes!r} if any(set(one) <= held for one in SETS) else {no!r}
"""


@dataclass(frozen=True)
class World:
    """What an answer rests on.

    Args:
        sets: all minimal sets that are enough whatever else is there.
        holds: whether the answer is given on some documents.
        seed: of everything drawn.
    """

    sets: tuple[frozenset[int], ...]
    holds: Callable[[set[int]], bool]
    seed: int


@dataclass(frozen=True)
class PlantedResult:
    """What a way in found.

    Args:
        calls: of the answer function.
        sets: that are enough, with whether each has a certificate.
        complete: whether it says that there is no other.
    """

    calls: int
    sets: Mapping[frozenset[int], bool]
    complete: bool


# --- worlds ----


def _places(seed: int) -> list[int]:
    return random.Random(seed).sample(range(SOURCES), SOURCES)


def disjoint(*sizes: int, seed: int) -> World:
    """Disjoint sets of some sizes, each enough."""
    free = iter(_places(seed))
    sets = tuple(frozenset(next(free) for _ in range(size)) for size in sizes)
    return World(sets, lambda kept: any(one <= kept for one in sets), seed)


def failing(least: int, most: int, *, seed: int) -> World:
    """One document, not enough in contexts of some sizes; all documents together are."""
    one = _places(seed)[0]
    return World((), lambda kept: one in kept and not least <= len(kept) <= most, seed)


def spoilt(size: int, *, seed: int) -> World:
    """One document, unless some others are all there; with one more it is enough always."""
    one, cure, *others = _places(seed)
    against = set(others[:size])
    held = (frozenset({one, cure}),)
    return World(held, lambda kept: one in kept and (cure in kept or not against <= kept), seed)


WORLDS: dict[str, tuple[Callable[..., World], bool]] = {
    "1": (partial(disjoint, 1), False),
    "2 + 2": (partial(disjoint, 2, 2), False),
    "2 + 2 + 3 + 3": (partial(disjoint, 2, 2, 3, 3), False),
    "1, each": (partial(disjoint, 1), True),
    "2 + 2, each": (partial(disjoint, 2, 2), True),
    "2 + 2 + 3 + 3, each": (partial(disjoint, 2, 2, 3, 3), True),
    "20 times 1, each": (partial(disjoint, *[1] * 20), True),
    "1, unless two others are there": (partial(spoilt, 2), False),
    "1, unless seven others are there": (partial(spoilt, 7), False),
    "1, not among 40 to 49": (partial(failing, 40, 49), False),
    "1, not among 40 to 49, each": (partial(failing, 40, 49), True),
    "1, not among 2 to 8": (partial(failing, 2, 8), False),
    "1, not among 2 to 8, each": (partial(failing, 2, 8), True),
}
"""The worlds of ``--sizes`` by name, and whether every set is shown by itself."""


# --- ways in ----


def _documents() -> list[str]:
    return [f"Document {number}." for number in range(SOURCES)]


def by_python(world: World, **options: Any) -> PlantedResult:
    """``rulerag.explain`` of a Python function.

    Args:
        world: what is explained.
        options: of the explanation.
    """
    documents = _documents()

    def answer(question: str, kept: Sequence[str]) -> str:
        held = {documents.index(one) for one in kept}
        return _ANSWER if world.holds(held) else _NONE

    options = {"workers": 1, "seed": world.seed, **options}
    why = rulerag.explain(answer, _QUESTION, documents, **options)
    return _found(why.explanation)


def by_command(world: World, *flags: str) -> PlantedResult:
    """``rulerag explain`` with a function in a file, in this process; calls are of its record."""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        module = folder / f"planted_{folder.name}.py"  # one module is imported once by its name
        sets = [sorted(one) for one in world.sets]
        text = _ANSWERER.format(sets=sets, yes=_ANSWER, no=_NONE)
        write_text(module, text)
        write_jsonl(folder / "documents.jsonl", [{"text": one} for one in _documents()])
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            command_line(
                [
                    *("explain", _QUESTION, "--documents", str(folder / "documents.jsonl")),
                    *("--answerer", f"{module}:answer"),
                    *("--out", str(folder / "why.jsonl"), "--seed", str(world.seed), *flags),
                ]
            )
        (explanation,) = read_records(folder / "why.jsonl", Explanation.from_json)
    return _found(explanation)


def by_miner(world: World) -> PlantedResult:
    """``CertifiedMiner`` on a probe engine."""

    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if world.holds(set(kept)) else "no" for kept in batch]

    engine = ProbeEngine.from_function(answer, num_sources=SOURCES)
    rules = CertifiedMiner("retention", seed=world.seed).mine(engine, lambda text: text == "yes")
    sets = {rule.sources: rule.certified for rule in rules.rules}
    return PlantedResult(engine.num_probes, sets, rules.complete)


def _found(explanation: Explanation) -> PlantedResult:
    (claim,) = explanation.claims
    sets = {frozenset(one): one.certificate.kind == "certified" for one in claim.retention}
    return PlantedResult(explanation.num_calls, sets, claim.complete)


WAYS: dict[str, Callable[[World], PlantedResult]] = {
    "rulerag.explain": by_python,
    "rulerag.explain, hurry=True": partial(by_python, workers=8, hurry=True),
    "rulerag explain": by_command,
    "rulerag.explain, each=True": partial(by_python, each=True),
    "rulerag explain --each": lambda world: by_command(world, "--each"),
    "CertifiedMiner": by_miner,
}


# --- tables ----


def measure(
    make: Callable[..., World], way: Callable[[World], PlantedResult], worlds: int
) -> dict[str, float | None]:
    """Calls, in how many of some worlds the sets are exact and certified, and how far those hold.

    Args:
        make: a world of a seed.
        way: what explains it.
        worlds: how many.
    """
    calls, exact, certified, worst = list[int](), 0, 0, list[float]()
    for seed in range(worlds):
        world = make(seed=seed)
        found = way(world)
        calls.append(found.calls)
        exact += found.complete and set(found.sets) == set(world.sets)
        shown = [set(one) for one, has_certificate in found.sets.items() if has_certificate]
        certified += bool(shown) and len(shown) == len(found.sets)
        rng = random.Random(seed)
        worst += [min(_worst_third(one, world.holds, rng) for one in shown)] if shown else []
    row: dict[str, float | None] = {"worlds": worlds, "calls": fmean(calls), "most": max(calls)}
    row |= {"exact": exact, "certified": certified}
    return row | {"worst_third": fmean(worst) if worst else None}


def _worst_third(one: set[int], holds: Callable[[set[int]], bool], rng: random.Random) -> float:
    """The least share of contexts with a set in which it holds, of three thirds of the sizes."""
    others = sorted(set(range(SOURCES)) - one)
    shares = []
    for third in np.array_split(range(len(others) + 1), 3):
        sizes = [int(size) for size in third for _ in range(_PER_THIRD)]
        shares.append(fmean(holds(one | set(rng.sample(others, size))) for size in sizes))
    return min(shares)


def run(*, out: Path | None = None, worlds: int = 30, sizes: bool = False) -> None:
    """Calls among 50 documents by every way in.

    Args:
        out: the folder of ``planted`` or ``context_sizes``, each ``.json`` and ``.md``.
        worlds: a row is over so many.
        sizes: subsets drawn by size beside uniform ones, in place of the ways in.
    """
    cases: list[tuple[str, str, Callable[..., World], Callable[[World], PlantedResult]]]
    if sizes:
        cases = [
            (subsets, name, make, partial(by_python, each=each, subsets=subsets))
            for name, (make, each) in WORLDS.items()
            for subsets in ("uniform", "by-size")
        ]
    else:
        cases = [
            (name, " + ".join(map(str, planted)), partial(disjoint, *planted), way)
            for name, way in WAYS.items()
            for planted in PLANTED
        ]
    rows = list[dict[str, Any]]()
    for way_in, name, make, way in cases:
        rows.append({"planted": name, "way": way_in, **measure(make, way, worlds)})
        sys.stderr.write(f"{rows[-1]}\n")
    head = ["planted", "subsets" if sizes else "way in", "calls", "at most", "exact", "certified"]
    cells = [
        [row["planted"], row["way"], f"{row['calls']:.0f}", str(row["most"])]
        + [f"{row[key]} of {worlds}" for key in ("exact", "certified")]
        + ["–" if row["worst_third"] is None else f"{100 * row['worst_third']:.0f} %"]
        for row in rows
    ]
    text = markdown_table([*head, "hold in their worst third"], cells)
    sys.stdout.write(text)
    if out is not None:
        stem = "context_sizes" if sizes else "planted"
        write_json(prepare_folder(out) / f"{stem}.json", rows)
        write_text(out / f"{stem}.md", text)
