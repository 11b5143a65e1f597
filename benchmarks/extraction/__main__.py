"""Facts read out of sentences written or marked by hand: by known facts, patterns, or a model.

*known facts*: which facts of a graph that has them all the texts state. *patterns*: learned from
the seeds. *open*: no seeds, relations are called by their own words. *model*: patterns, and what a
language model chooses for the words that end with none; it sees the marked sentences alone.

    python -m benchmarks.extraction --out benchmarks/results/extraction
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.extraction.sentences import Sentences, compared, everyday, hotpotqa
from rulerag.assembly import make_generator, preset
from rulerag.console import guarded
from rulerag.evaluation.tables import markdown_table
from rulerag.extraction import ModelExtractor, TripleExtractor, with_known_facts
from rulerag.io import write_json, write_text
from rulerag.linking import link_mentions
from rulerag.types import Document

SETS = {"everyday": everyday, "hotpotqa": hotpotqa}


def by_known_facts(given: Sentences) -> dict[str, float]:
    """How many marked facts of known relations are recognised where a graph has them all."""
    marked = [one for rows in given.marked.values() for _, facts in rows for one in facts]
    facts = [*given.seeds, *(one.known for one in marked if one.known is not None)]
    names = {end: (end,) for fact in facts for end in (fact.subject, fact.object)}
    texts = with_known_facts(link_mentions(given.documents, names), facts, names)
    found = [
        (fact, text.id, span)
        for text in texts
        for span, _ in given.marked.get(text.id, ())
        for fact in text.facts
    ]
    return compared(found, given, open_=False)


def by_patterns(given: Sentences, *, open_: bool = False) -> dict[str, float]:
    """How many marked facts are found by patterns, or by relations of their own words."""
    found = TripleExtractor([] if open_ else given.seeds).extract(given.documents)
    triples = [(one.fact, one.document_id, one.span) for one in found.triples]
    return compared(triples, given, open_=open_)


def by_model(given: Sentences, model: ModelExtractor) -> dict[str, float]:
    """How many are found by patterns and a model, which is asked of the marked sentences alone."""
    extractor = TripleExtractor(given.seeds)
    extractor.learn(given.documents)
    texts = {one.id: one.text for one in given.documents}
    alone, places = [], {}
    for name, sentences in given.marked.items():
        for number, (span, _) in enumerate(sentences):
            alone.append(Document(f"{name}#{number}", texts[name][slice(*span)]))
            places[alone[-1].id] = name, span
    found = extractor.extract(alone, learn=False, model=model)
    return compared(
        [(one.fact, *places[one.document_id]) for one in found.triples], given, open_=False
    )


def _model(name: str) -> ModelExtractor:
    config = preset(Path(), generator=name, model_settings=ModelExtractor.PROMPT)
    return ModelExtractor(make_generator(config))


def _run(arguments: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for name in arguments.sets:
        given = SETS[name]()
        ways: dict[str, Callable[[Sentences], dict[str, float]]] = {
            "known facts": by_known_facts,
            "patterns": by_patterns,
        }
        if name == "hotpotqa":
            ways["open"] = partial(by_patterns, open_=True)
        if arguments.generator:
            model = _model(arguments.generator)
            ways[f"model: {arguments.generator}"] = partial(by_model, model=model)
        for way, measured in ways.items():
            started = time.perf_counter()
            row = measured(given)
            seconds = round(time.perf_counter() - started, 1)
            rows.append({"sentences": name, "by": way, **row, "seconds": seconds})
    sys.stdout.write(_table(rows) + "\n")
    if arguments.out:
        write_json(arguments.out / "extraction.json", rows)
        write_text(arguments.out / "extraction.md", _table(rows) + "\n")


def _table(rows: Sequence[dict[str, Any]]) -> str:
    shares = ("precision", "recall", "f1")
    counts = ("stated", "found", "right")
    cells = [
        [
            row["sentences"],
            row["by"],
            *(str(row[key]) for key in counts),
            *(f"{100 * row[key]:.1f}" for key in shares),
        ]
        for row in rows
    ]
    return markdown_table(("sentences", "by", *counts, *shares), cells, "llrrrrrr")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extraction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--generator", help="a language model, asked as well; minutes to an hour")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
