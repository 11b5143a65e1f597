"""Makes `rulerag-nano-encoder`: a dual encoder from scratch, small enough to ship.

Own tokenizer, two layers, one encoder for questions and documents. It learns from generated worlds
and, where folders are named, from the training facts of real graphs: first masked tokens, then
self-made questions with and without rules (:mod:`training.shipped.encoder.pairs`). No benchmark's
question or judgement is used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object, read_text, write_json, write_text
from rulerag.kg import KnowledgeGraph, Verbalizer
from rulerag.ruleqa import BENCHMARKS, GRAPHS, with_held_out
from rulerag.synthetic import World
from training.common.tiny import make_encoder, save_half, train_tokenizer
from training.shipped.arguments import begin_making, maker_parser
from training.shipped.encoder.pairs import CLUSTERS, PairSource
from training.shipped.encoder.stages import Stage, train_masked, train_pairs

HELD_OUT = 10_000
"""Worlds from this seed on are never trained on."""

_REAL_SHARE = 0.7
_REAL_LIMIT = 120_000
_BATCH_SIZE, _TEMPERATURE = 256, 0.03
"""Of the second stage: pairs of a step, and of the loss."""


def sources(
    graphs: Sequence[KnowledgeGraph],
    *,
    worlds: int,
    world_facts: int = 4000,
    limit: int = _REAL_LIMIT,
    seed: int = 0,
) -> list[PairSource]:
    """Worlds of both kinds, then the training facts of the graphs.

    Args:
        graphs: real graphs; only their split ``train`` is read.
        worlds: how many worlds, half of them dated.
        world_facts: facts of one world.
        limit: facts of one graph at most, drawn by seed.
        seed: of the first world.

    Raises:
        ConfigError: a seed of the held-out worlds.
    """
    if seed + worlds > HELD_OUT:
        raise ConfigError(f"worlds from {HELD_OUT:,} on are held out", key="seed", hint="0")
    made = []
    for number in range(worlds):
        kind = ("temporal", "static")[number % 2]
        world = World.generate(world_facts, kind=kind, seed=seed + number)
        made.append(PairSource(world.graph.train, Verbalizer(world.graph)))
    made += [PairSource(graph.train, Verbalizer(graph), limit=limit, seed=seed) for graph in graphs]
    return made


def corpus_graph(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph without the training facts that a RuleQA benchmark made of it asks about.

    RuleQA-N moves 3,000 training facts into F_R and F_G: an encoder that has read them would be
    asked, in fine-tuning and when merge weights are learned, what it has seen.
    """
    held = {GRAPHS[name]: settings.hold_out for name, settings in BENCHMARKS.items()}
    return with_held_out(graph, held.get(graph.name, 0))


def _make(arguments: argparse.Namespace) -> None:
    out, work = begin_making(arguments)
    keys = "worlds vocabulary masked_steps steps learning_rate seed"
    facts: dict[str, Any] = {key: getattr(arguments, key) for key in keys.split()}
    facts |= {"batch_size": _BATCH_SIZE, "temperature": _TEMPERATURE, "pairs": CLUSTERS}
    graphs = [corpus_graph(KnowledgeGraph.load(folder)) for folder in arguments.graph]
    made = sources(graphs, worlds=arguments.worlds, seed=arguments.seed)
    share = _REAL_SHARE if graphs else 0.0
    weights = [(1 - share) / max(1, arguments.worlds)] * arguments.worlds
    weights += [share / len(graphs) for _ in graphs]
    texts = (text for source in made for text in source.texts[:30_000])
    tokenizer = train_tokenizer(texts, vocabulary=arguments.vocabulary)
    encoder = make_encoder(tokenizer, feed_forward=256, seed=arguments.seed)
    settings = fingerprint_object([facts, *map(str, arguments.graph)])

    def stage(name: str, steps: int, batch_size: int, rate: float) -> Stage:
        loop = {
            "state": work / f"{name}.pt",
            "settings": settings,
            "progress": not arguments.quiet,
        }
        return Stage(steps, batch_size, rate, arguments.seed, loop)

    masked = stage("masked", arguments.masked_steps, 96, 1e-3)
    pairs = stage("pairs", arguments.steps, _BATCH_SIZE, arguments.learning_rate)
    masked_losses = train_masked(encoder, made, masked, weights=weights)
    losses = train_pairs(encoder, made, pairs, weights=weights, temperature=_TEMPERATURE)
    save_half(encoder, out)
    facts |= {
        "steps": len(losses),
        "masked_loss": _last_mean(masked_losses),
        "loss": _last_mean(losses),
        "graphs": [graph.name for graph in graphs],
        "train_facts": {graph.name: len(graph.train) for graph in graphs},
    }
    write_json(out / "training.json", facts)
    table = read_text(arguments.table) if arguments.table else ""
    write_text(out / "README.md", nano_card(facts, table))
    sys.stdout.write(f"{facts['steps']:,} steps, loss {facts['loss']:.3f}; written to {out}\n")


def _last_mean(losses: Sequence[float]) -> float:
    return sum(losses[-50:]) / max(1, len(losses[-50:]))


def nano_card(facts: dict[str, Any], table: str) -> str:
    """The model card in Markdown with the Hub's metadata.

    Args:
        facts: what the run wrote to ``training.json``.
        table: the held-out figures in Markdown; empty before they are measured.
    """
    read = [f"- `{name}`: {n:,} facts" for name, n in facts["train_facts"].items()]
    return read_text(Path(__file__).with_name("card.md")).format(
        **facts,
        table=table or "Not measured yet.\n",
        read="\n".join(read) or "- no real graph",
        folders="".join(f"\n  --graph DATA/{name} \\" for name in facts["graphs"]),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = maker_parser(
        "training.shipped.encoder",
        "Make the small dual encoder from scratch; a killed run goes on.",
        "python -m training.shipped.encoder --out runs/nano --steps 300 "
        "--graph ../shared/data/icews14",
    )
    parser.add_argument("--worlds", type=int, default=40, help="how many worlds (40)")
    parser.add_argument("--vocabulary", type=int, default=12000, help="of the tokenizer (12000)")
    parser.add_argument("--masked-steps", type=int, default=200, help="steps of stage one (200)")
    parser.add_argument("--steps", type=int, default=1500, help="steps of stage two (1500)")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="of stage two (2e-3)")
    return guarded(partial(_make, parser.parse_args(argv)))
