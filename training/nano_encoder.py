"""Makes `rulerag-nano-encoder`: a dual encoder from scratch, small enough to ship.

Own tokenizer, two layers, one encoder for questions and documents. It learns from generated worlds
and, where folders are named, from the training facts of real graphs, by self-made questions with
and without rules (:mod:`training.pairs`); no benchmark's judgement is used.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm

from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.kg.worlds import World
from training.losses import contrastive_loss
from training.pairs import PairSource
from training.tiny import make_encoder, train_tokenizer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["embed", "main", "sources", "train_pairs"]

_HELD_OUT = 10_000
"""Worlds from this seed on are never trained on."""


def sources(
    graphs: Sequence[KnowledgeGraph], *, worlds: int, world_facts: int = 4000, seed: int = 0
) -> list[PairSource]:
    """Worlds of both kinds, then the training facts of the graphs.

    Args:
        graphs: real graphs; only their split ``train`` is read.
        worlds: how many worlds, half of them dated.
        world_facts: facts of one world.
        seed: of the first world.

    Raises:
        ConfigError: a seed of the held-out worlds.
    """
    if seed + worlds > _HELD_OUT:
        raise ConfigError(f"worlds from {_HELD_OUT:,} on are held out", key="seed", hint="0")
    made = []
    for number in range(worlds):
        kind = ("temporal", "static")[number % 2]
        world = World.generate(world_facts, kind=kind, seed=seed + number)
        made.append(PairSource(world.graph.train, Verbalizer(world.graph)))
    made += [PairSource(graph.train, Verbalizer(graph), seed=seed) for graph in graphs]
    return made


def embed(encoder: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    """Vectors with gradients, shape (len(texts), dim)."""
    features = encoder.preprocess(list(texts))
    moved = {k: v.to(encoder.device) for k, v in features.items() if isinstance(v, torch.Tensor)}
    vectors: torch.Tensor = encoder(moved)["sentence_embedding"]
    return vectors


def train_pairs(
    encoder: SentenceTransformer,
    made: Sequence[PairSource],
    *,
    weights: Sequence[float] | None = None,
    steps: int = 500,
    minutes: float | None = None,
    batch_size: int = 256,
    learning_rate: float = 2e-3,
    temperature: float = 0.03,
    seed: int = 0,
    progress: bool = False,
) -> list[float]:
    """Train both sides of the encoder; return the loss of every step.

    Args:
        encoder: trained in place.
        made: where batches come from, one source a batch.
        weights: how often each source is drawn; equally when None.
        steps: optimizer steps.
        minutes: stop after this time, if given; then the number of steps depends on the machine.
        batch_size: pairs of a step.
        learning_rate: of AdamW at its peak, falling to zero.
        temperature: of the softmax.
        seed: of batches.
        progress: show a progress bar.
    """
    chances = np.asarray(weights if weights is not None else [1.0] * len(made), dtype=float)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=learning_rate, weight_decay=0.01)
    encoder.train()
    losses: list[float] = []
    started = time.monotonic()
    for step in tqdm(range(steps), "steps", disable=not progress):
        done = step / steps
        if minutes is not None:
            done = max(done, (time.monotonic() - started) / 60 / minutes)
            if done >= 1:
                break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 50) * (1 - done)
        random = np.random.default_rng([seed, step])
        source = made[random.choice(len(made), p=chances / chances.sum())]
        batch = source.batch(batch_size, random)
        queries, documents = embed(encoder, batch.queries), embed(encoder, batch.documents)
        loss = contrastive_loss(
            queries,
            documents,
            torch.arange(len(batch.queries), device=queries.device),
            torch.from_numpy(batch.excluded).to(queries.device),
            temperature=temperature,
            frozen=False,
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    encoder.eval()
    return losses


def held_out_figures(encoder: SentenceTransformer, *, worlds: int = 3) -> dict[str, float]:
    """Pair accuracy on worlds that no training saw: how often the pair's document comes first.

    Among the 256 documents of a batch, those that answer too left out; plain questions, and
    questions with a made-up rule.
    """
    figures = {}
    for name, share in (("plain", 0.0), ("with rule", 1.0)):
        right = []
        for number in range(worlds):
            kind = ("temporal", "static")[number % 2]
            graph = World.generate(4000, kind=kind, seed=_HELD_OUT + number).graph
            source = PairSource(graph.train, Verbalizer(graph))
            batch = source.batch(256, np.random.default_rng(number), guided=share)
            with torch.no_grad():
                left, below = embed(encoder, batch.queries), embed(encoder, batch.documents)
            unit = torch.nn.functional.normalize
            scores = unit(left, dim=1) @ unit(below, dim=1).T
            scores[torch.from_numpy(batch.excluded)] = -2
            # A document drawn twice is as good as itself.
            best = scores.argmax(1).tolist()
            right += [batch.documents[b] == batch.documents[n] for n, b in enumerate(best)]
        figures[name] = sum(right) / len(right)
    return figures


def _make(arguments: argparse.Namespace) -> None:
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    out = prepare_folder(arguments.out)
    graphs = [_graph(folder, arguments.twin) for folder in arguments.graph]
    made = sources(graphs, worlds=arguments.worlds, seed=arguments.seed)
    tokenizer = train_tokenizer(
        (text for source in made for text in source.texts), vocabulary=arguments.vocabulary
    )
    encoder = make_encoder(tokenizer, seed=arguments.seed)
    share = 0.5 if graphs else 0.0
    weights = [(1 - share) / max(1, arguments.worlds)] * arguments.worlds
    weights += [share / len(graphs)] * len(graphs) if graphs else []
    losses = train_pairs(
        encoder,
        made,
        weights=weights,
        steps=arguments.steps,
        minutes=arguments.minutes,
        seed=arguments.seed,
        progress=not arguments.quiet,
    )
    figures = held_out_figures(encoder)
    encoder.save(str(out), create_model_card=False)
    facts: dict[str, Any] = {
        "steps": len(losses),
        "loss": sum(losses[-20:]) / max(1, len(losses[-20:])),
        "held_out_worlds": figures,
        "graphs": [graph.name for graph in graphs],
        "worlds": arguments.worlds,
        "seed": arguments.seed,
    }
    write_json(out / "training.json", facts)
    write_text(out / "README.md", _card(facts))
    sys.stdout.write(f"{len(losses)} steps, loss {facts['loss']:.3f}; unseen worlds: {figures}\n")


def _graph(folder: Path, twin: bool) -> KnowledgeGraph:
    graph = KnowledgeGraph.load(folder)
    if not twin:
        return graph
    from benchmarks.validation import validation_graph

    return validation_graph(graph)


def _card(facts: dict[str, Any]) -> str:
    graphs = ", ".join(facts["graphs"]) or "none"
    rows = "\n".join(f"| {k} | {100 * v:.1f} % |" for k, v in facts["held_out_worlds"].items())
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
license: apache-2.0
---
# rulerag-nano-encoder

A dual encoder from scratch: byte-level BPE, two layers, width 128, mean pooling, cosine. One
encoder for questions and documents. Made by `python -m training.nano_encoder` from
{facts["worlds"]} generated worlds and the training facts of: {graphs}; {facts["steps"]} steps, seed
{facts["seed"]}. No benchmark question or judgement was used.

First place among 256 documents of worlds that it has not seen:

| question | right |
| --- | ---: |
{rows}

Meant for trying things offline; use a published encoder for real work.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.nano_encoder",
        description="Make the small dual encoder from scratch.",
        epilog="example: python -m training.nano_encoder --out runs/nano --minutes 8 "
        "--graph ../shared/data/icews14",
    )
    parser.add_argument("--out", required=True, type=Path, help="the folder to write")
    parser.add_argument("--graph", type=Path, action="append", default=[], help="a graph folder")
    parser.add_argument("--twin", action="store_true", help="only the validation twins' facts")
    parser.add_argument("--worlds", type=int, default=40, help="how many worlds (40)")
    parser.add_argument("--vocabulary", type=int, default=8000, help="size of the tokenizer (8000)")
    parser.add_argument("--steps", type=int, default=1000, help="optimizer steps (1000)")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--seed", type=int, default=0, help="of weights, worlds and batches (0)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _make(arguments))


if __name__ == "__main__":
    sys.exit(main())
