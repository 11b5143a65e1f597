"""Makes `rulerag-nano-llama`: a LLaMA reader from scratch, small enough to ship.

Own tokenizer, a few layers, trained on invented reading episodes with ever new names
(:mod:`training.shipped.reader.episodes`). Real graphs, where folders are named, lend the spelling
of their entities and relations, never a fact; no benchmark's question or answer is used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rulerag.console import guarded
from rulerag.io import read_text, write_json, write_text
from rulerag.kg import KnowledgeGraph
from training.shipped.arguments import begin_making, maker_parser
from training.shipped.reader.model import make_reader, tokenizer_texts, train_reader_tokenizer
from training.shipped.reader.names import NameSource
from training.shipped.reader.training import STAGES, ReaderSettings, ReaderTraining

_MOST_LABELS = 20_000


def name_source(graphs: Sequence[KnowledgeGraph]) -> NameSource:
    """The spelling of real graphs, at most 20,000 entities of each."""
    entities = [label for graph in graphs for label in graph.entities.labels[:_MOST_LABELS]]
    return NameSource(entities, [graph.relations.labels for graph in graphs])


def begin(
    names: NameSource, settings: ReaderSettings, *, vocabulary: int = 4096, layers: int = 5
) -> ReaderTraining:
    """Tokenizer and weights at the beginning of a run.

    Args:
        names: what episodes are about.
        settings: how it is trained.
        vocabulary: tokens at most.
        layers: of the model.
    """
    texts = tokenizer_texts(names, seed=settings.seed)
    tokenizer = train_reader_tokenizer(texts, vocabulary=vocabulary)
    model = make_reader(tokenizer, layers=layers, seed=settings.seed)
    return ReaderTraining(model, tokenizer, names, settings)


def export(
    training: ReaderTraining, out: Path, graphs: Sequence[str], table: str = "", note: str = ""
) -> None:
    """Write the model folder: weights, tokenizer, the prompt's name, card and facts.

    Args:
        training: the run.
        out: the folder.
        graphs: names of the graphs whose spelling was lent.
        table: held-out figures for the card.
        note: a remark for the card.
    """
    training.model.save_pretrained(out)
    training.tokenizer.save_pretrained(out)
    write_json(out / "prompt.json", {"type": "compact"})
    facts = {
        "settings": asdict(training.settings),
        "steps": training.settings.steps,
        "stage": training.curriculum.stage,
        "stages": len(STAGES),
        "entered": training.curriculum.entered,
        "parameters": sum(p.numel() for p in training.model.parameters()),
        "vocabulary": len(training.tokenizer),
        "graphs": list(graphs),
    }
    write_json(out / "training.json", facts)
    write_text(out / "README.md", reader_card(facts, table, note))


def reader_card(facts: dict[str, Any], table: str, note: str = "") -> str:
    """The model card in Markdown with the Hub's metadata.

    Args:
        facts: what the run wrote to ``training.json``.
        table: the held-out figures in Markdown; empty before they are measured.
        note: what a reader of the commands must know of this run.
    """
    return read_text(Path(__file__).with_name("card.md")).format(
        **facts,
        last_stage=facts["stage"] + 1,
        lent=", ".join(f"`{name}`" for name in facts["graphs"]) or "no real graph",
        folders=" ".join(f"--graph DATA/{name}" for name in facts["graphs"]),
        measured=table or "Not measured yet.\n",
        remark=f"\n{note}\n" if note else "",
    )


def _make(arguments: argparse.Namespace) -> None:
    out, work = begin_making(arguments)
    graphs = [KnowledgeGraph.load(folder) for folder in arguments.graph]
    settings = ReaderSettings(steps=arguments.steps, seed=arguments.seed)
    training = begin(name_source(graphs), settings)
    training.run(work / "state.pt", progress=not arguments.quiet)
    table = read_text(arguments.table) if arguments.table else ""
    export(training, out, [folder.name for folder in arguments.graph], table, arguments.note)
    reached = training.curriculum
    right = ""
    if reached.recent:  # it begins anew with each stage
        shown = sum(reached.recent) / len(reached.recent)
        right = f", {100 * shown:.1f} % of the last episodes cited right"
    stage = f"stage {reached.stage + 1} of {len(STAGES)}"
    sys.stdout.write(f"{settings.steps:,} steps, {stage}{right}; written to {out}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = maker_parser(
        "training.shipped.reader",
        "Make the small reader from scratch; a killed run goes on.",
        "python -m training.shipped.reader --out runs/nano-llama --steps 500 "
        "--graph ../shared/data/icews14",
    )
    parser.add_argument("--steps", type=int, default=ReaderSettings().steps, help="how many (900)")
    parser.add_argument("--note", default="", help="a remark for the card")
    work = partial(_make, parser.parse_args(argv))
    return guarded(work, interrupted="interrupted; run it again to go on")
