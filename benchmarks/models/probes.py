"""What the probes of a lattice cost on a local model, and what they have in common.

``python -m benchmarks.models.probes lattice --out benchmarks/results/models`` measures
the exact explanation of ten documents (1,024 subsets) in seconds of one processor, beside single
calls in the same process. ``… layout`` counts the tokens that are read with and without a cache of
prompt beginnings, for each layout of the prompt; it runs no model.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import rulerag
from rulerag import Document, GenerationRequest, HuggingFaceGenerator, ProbeEngine, Query
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.explanation.lattice import indices_of
from rulerag.io import prepare_folder, write_json, write_text

_BLOCK = 16
"""Tokens that servers such as vLLM keep together."""

_SINGLE = 150
_ORDERS = ("paper", "shared", "question-first")
QUESTION = "In which year was the town hall of Hexham finished, and who designed it?"
TEXTS = (
    "Hexham is a market town on the south bank of the river Tyne, formed by two streams.",
    "The town hall of Hexham was finished in 1866; it has a clock tower of four storeys.",
    "John Johnstone designed the town halls of Hexham and Newcastle, and died in 1884.",
    "Hexham Abbey was founded in 674 by Wilfrid, who brought masons from the continent.",
    "The railway between Newcastle and Carlisle reached Hexham in March 1835.",
    "The racecourse lies two miles south of the town, eight hundred feet above the sea.",
    "A moot hall from the fourteenth century stands on the east side of the market place.",
    "The old gaol was built in 1333 and is held to be the oldest prison of its kind in England.",
    "Corbridge, four miles to the east, was a supply town of the Romans near their wall.",
    "Hexham won a prize as the best market town of the country in 2005.",
)


def _requests(subsets: Sequence[Sequence[int]], texts: Sequence[str] = TEXTS) -> list[Any]:
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    query = Query("q", QUESTION)
    return [GenerationRequest(query, tuple(documents[n] for n in kept)) for kept in subsets]


# --- seconds of one processor ----


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def lattice(out: Path | None, model: str, single: int) -> None:
    """The exact explanation of ten documents beside single calls.

    Args:
        out: the folder of ``lattice.json`` and ``lattice.md``.
        model: a model by name.
        single: so many single calls are measured, of the whole prompt and of random subsets.
    """
    import torch

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for dtype in ("fast", "float32"):
        rows += _measured(model, dtype, single)
    cells = [
        [
            row["dtype"],
            row["what"],
            f"{row['calls']:,}",
            f"{row['seconds']:.1f}",
            f"{1000 * row['seconds'] / row['calls']:.0f}",
            f"{row['single_calls']:.0f}",
            "" if row["equal"] is None else f"{100 * row['equal']:.0f} %",
        ]
        for row in rows
    ]
    head = ["dtype", "asked", "calls", "CPU seconds", "ms a call", "in single calls", "as alone"]
    text = markdown_table(head, cells)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "lattice.json", {"model": model, "rows": rows})
        write_text(out / "lattice.md", text)


def _measured(model: str, dtype: str, single: int) -> list[dict[str, Any]]:
    """Single calls, and all subsets; how many of the outputs are those that come alone."""
    generator = HuggingFaceGenerator(model, template="open", dtype=dtype, max_new_tokens=16)
    whole = _requests([range(len(TEXTS))])[0]
    generator.generate([whole])  # what is made at the first call
    rng = random.Random(0)
    kept = [tuple(indices_of(rng.getrandbits(len(TEXTS)))) for _ in range(single)]
    alone: list[str] = []

    def one_by_one(requests: Sequence[Any]) -> None:
        alone[:] = [generator.generate([one])[0].text for one in requests]

    named = str(generator.model.dtype).removeprefix("torch.")
    rows: list[dict[str, Any]] = []

    def timed(what: str, calls: int, work: Callable[[], object]) -> None:
        seconds = _seconds(work)
        base = rows[0]["seconds"] / single if rows else seconds / single
        share = {"single_calls": seconds / base, "of_150": seconds / base / _SINGLE}
        rows.append({"dtype": named, "what": what, "calls": calls, "seconds": seconds, **share})
        rows[-1]["equal"] = None
        sys.stderr.write(f"{rows[-1]}\n")

    timed("the whole prompt", single, lambda: one_by_one([whole] * single))
    timed("random subsets", single, lambda: one_by_one(_requests(kept)))
    engine = ProbeEngine.from_generator(generator, whole)
    every = range(1 << len(TEXTS))
    timed("all 1,024 subsets", len(every), lambda: engine.probe(every))
    same = sum(a == b for a, b in zip(alone, engine.probe(kept), strict=True))
    rows[-1]["equal"] = same / single
    return rows


# --- tokens read ----


def read_tokens(prompts: Sequence[Sequence[int]], block: int) -> int:
    """Tokens that are read of prompts in their order, where whole blocks of beginnings are kept.

    Args:
        prompts: token ids.
        block: tokens that are kept together; the last token of a prompt is always read.
    """
    kept: set[tuple[int, ...]] = set()
    read = 0
    for prompt in prompts:
        ends = range(block, len(prompt), block)
        known = 0
        for end in ends:
            if tuple(prompt[:end]) not in kept:
                break
            known = end
        kept.update(tuple(prompt[:end]) for end in ends)
        read += len(prompt) - known
    return read


def _search_subsets(count: int) -> list[tuple[int, ...]]:
    """What an explanation of so many documents asks, in the order of its calls."""
    asked: list[tuple[int, ...]] = []

    def answer(question: str, places: list[str]) -> str:
        kept = {int(place) for place in places}
        asked.append(tuple(sorted(kept)))
        return "It is Paris." if {7, 20} <= kept or {31, 44} <= kept else "I don't know."

    rulerag.explain(answer, QUESTION, [str(n) for n in range(count)], workers=1)
    return asked


def layout(out: Path | None, model: str) -> None:
    """Tokens read for each layout of the prompt.

    Args:
        out: the folder of ``layout.json`` and ``layout.md``.
        model: whose tokens are counted.
    """
    fifty = [f"{text} ({place})" for place in range(5) for text in TEXTS]
    lattices = {
        "all subsets of ten documents": _requests([indices_of(m) for m in range(1024)]),
        "a search among 50 documents": _requests(_search_subsets(50), fifty),
    }
    rows: list[dict[str, Any]] = []
    for what, requests in lattices.items():
        for order in _ORDERS:
            template = {"type": "open", "order": order}
            generator = HuggingFaceGenerator(model, template=template)
            prompts = [tokens.tolist() for _, tokens in generator.encode(requests)]
            total, read = sum(map(len, prompts)), read_tokens(prompts, _BLOCK)
            rows.append(
                {"asked": what, "order": order, "prompts": len(prompts), "all": total, "read": read}
            )
    cells = [
        [
            str(row["asked"]),
            str(row["order"]),
            f"{row['prompts']:,}",
            f"{row['all']:,}",
            f"{row['read']:,}",
            f"{100 * (1 - row['read'] / row['all']):.0f} %",
        ]
        for row in rows
    ]
    head = ["asked", "order", "prompts", "tokens", "read with a cache", "saved"]
    text = markdown_table(head, cells)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "layout.json", rows)
        write_text(out / "layout.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models.probes",
        description=__doc__,
        epilog="example: python -m benchmarks.models.probes lattice --single 20",
    )
    parser.add_argument("what", choices=("lattice", "layout"), help="what is measured")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="by name")
    parser.add_argument("--single", type=int, default=30, help="single calls measured (30)")
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    arguments = parser.parse_args(argv)

    def work() -> None:
        if arguments.what == "lattice":
            lattice(arguments.out, arguments.model, arguments.single)
        else:
            layout(arguments.out, arguments.model)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
