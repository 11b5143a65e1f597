"""Extraction from sentences written by hand: ten everyday relations, each seen in one wording.

The sentences of ``everyday.toml`` say these relations otherwise, or say something else. A fact
counts that stands in its own sentence.

    python -m benchmarks.extraction.everyday --encoder all-minilm-l6-v2 --out FOLDER
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded
from rulerag.extraction import TripleExtractor
from rulerag.io import read_text, write_json
from rulerag.protocols import Encoder
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.types import Document, Fact

FILE = Path(__file__).with_name("everyday.toml")


def measured(encoder: Encoder | None = None) -> dict[str, float]:
    """Precision, recall and F1 of the facts of the sentences, fractions, and how many there are.

    Args:
        encoder: compares meanings as well; none to read by patterns and the thesaurus.
    """
    given = tomllib.loads(read_text(FILE))
    seeds, documents = [], []
    for relation, one in given["relations"].items():
        for subject, object_ in one["seeds"]:
            seeds.append(Fact(subject, relation, object_))
            said = one["said"].format(x=subject, y=object_)
            documents.append(Document(f"seed-{len(seeds)}", said))
    told = {f"told-{n}": one for n, one in enumerate(given["sentences"])}
    documents += [Document(name, one["text"]) for name, one in told.items()]
    found: dict[str, set[Fact]] = defaultdict(set)
    for triple in TripleExtractor(seeds, encoder=encoder).extract(documents).triples:
        found[triple.document_id].add(triple.fact)
    stated = {name: {Fact(*fact) for fact in one.get("facts", ())} for name, one in told.items()}
    right = sum(len(stated[name] & found[name]) for name in told)
    facts, read = sum(map(len, stated.values())), sum(len(found[name]) for name in told)
    precision, recall = right / max(read, 1), right / max(facts, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-12)
    return {"facts": facts, "precision": precision, "recall": recall, "f1": f1}


def _run(arguments: argparse.Namespace) -> None:
    rows = {"patterns": measured()}
    if arguments.encoder:
        rows["encoder"] = measured(load_encoder(arguments.encoder))
    for name, row in rows.items():
        figures = "  ".join(f"{key} {100 * row[key]:.1f}" for key in ("precision", "recall", "f1"))
        sys.stdout.write(f"{name:8}  {figures}  ({row['facts']:g} facts)\n")
    if arguments.out:
        write_json(arguments.out / "everyday.json", rows)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extraction.everyday",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--encoder", help="a folder or name; no meanings without one")
    parser.add_argument("--out", type=Path, help="a folder for the figures")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
