"""The two stages of the small encoder as one loop that can be killed and goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm

from rulerag.io import atomic_write
from training.losses import contrastive_loss
from training.nano_encoder_mlm import MaskedTokens, masked_batch
from training.pairs import PairSource

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["Stage", "embed", "train_masked", "train_pairs"]

_WARMUP = 50
_GROUPS = 4


@dataclass(frozen=True)
class Stage:
    """How long and how a stage learns.

    Args:
        steps: optimizer steps.
        minutes: stop after this time, if given; then the number of steps depends on the machine.
        batch_size: texts, or pairs, of a step.
        learning_rate: of AdamW at its peak, falling to zero by a cosine.
        seed: of batches.
        every: steps between two saved states.
        state: the file of the saved state; none is written when None.
        progress: show a progress bar.
    """

    steps: int = 500
    minutes: float | None = None
    batch_size: int = 256
    learning_rate: float = 2e-3
    seed: int = 0
    every: int = 100
    state: Path | None = None
    progress: bool = False


def embed(encoder: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    """Vectors with gradients, shape (len(texts), dim); texts of like length go together."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    parts = []
    for group in np.array_split(np.asarray(order), _GROUPS):
        if len(group):
            features = encoder.preprocess([texts[n] for n in group.tolist()])
            moved = {
                key: value.to(encoder.device)
                for key, value in features.items()
                if isinstance(value, torch.Tensor)
            }
            parts.append(encoder(moved)["sentence_embedding"])
    place = torch.empty(len(texts), dtype=torch.long)
    place[torch.tensor(order)] = torch.arange(len(texts))
    vectors: torch.Tensor = torch.cat(parts)[place.to(encoder.device)]
    return vectors


def train_masked(
    encoder: SentenceTransformer,
    made: Sequence[PairSource],
    stage: Stage,
    *,
    weights: Sequence[float] | None = None,
) -> list[float]:
    """Train the transformer to tell masked tokens; return the loss of every step.

    Args:
        encoder: trained in place.
        made: where texts come from, one source a batch.
        stage: how long.
        weights: how often each source is drawn; equally when None.
    """
    first: Any = encoder[0]
    model = MaskedTokens(first.auto_model)
    tokenizer: Any = encoder.tokenizer

    def loss(source: PairSource, random: np.random.Generator) -> torch.Tensor:
        told: torch.Tensor = model(**masked_batch(source, tokenizer, stage.batch_size, random))
        return told

    return _train(model, made, stage, loss, weights, "masked tokens")


def train_pairs(
    encoder: SentenceTransformer,
    made: Sequence[PairSource],
    stage: Stage,
    *,
    weights: Sequence[float] | None = None,
    temperature: float = 0.03,
    guided: float = 0.5,
) -> list[float]:
    """Train both sides of the encoder on pairs; return the loss of every step.

    Args:
        encoder: trained in place.
        made: where batches come from, one source a batch.
        stage: how long.
        weights: how often each source is drawn; equally when None.
        temperature: of the softmax.
        guided: share of the questions with a rule.
    """

    def loss(source: PairSource, random: np.random.Generator) -> torch.Tensor:
        batch = source.batch(stage.batch_size, random, guided=guided)
        queries, documents = embed(encoder, batch.queries), embed(encoder, batch.documents)
        return contrastive_loss(
            queries,
            documents,
            torch.arange(len(batch.queries), device=queries.device),
            torch.from_numpy(batch.excluded).to(queries.device),
            temperature=temperature,
            frozen=False,
        )

    return _train(encoder, made, stage, loss, weights, "pairs")


def _train(
    model: torch.nn.Module,
    made: Sequence[PairSource],
    stage: Stage,
    loss_of: Callable[[PairSource, np.random.Generator], torch.Tensor],
    weights: Sequence[float] | None,
    name: str,
) -> list[float]:
    chances = np.asarray(weights if weights is not None else [1.0] * len(made), dtype=float)
    optimizer = torch.optim.AdamW(model.parameters(), lr=stage.learning_rate, weight_decay=0.01)
    losses: list[float] = []
    before = 0.0
    if stage.state is not None and stage.state.exists():
        state = torch.load(stage.state, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses, before = list(state["losses"]), float(state["seconds"])
    model.train()
    started = time.monotonic() - before
    bar = tqdm(desc=name, initial=len(losses), total=stage.steps, disable=not stage.progress)
    for step in range(len(losses), stage.steps):
        seconds = time.monotonic() - started
        share = max(step / stage.steps, seconds / 60 / stage.minutes if stage.minutes else 0.0)
        if share >= 1:
            break
        for group in optimizer.param_groups:
            falling = 0.5 * (1 + math.cos(math.pi * share))
            group["lr"] = stage.learning_rate * min(1.0, (step + 1) / _WARMUP) * falling
        # Each step draws from a seed of its own: a run that goes on sees the same batches.
        random = np.random.default_rng([stage.seed, step])
        source = made[int(random.choice(len(made), p=chances / chances.sum()))]
        loss = loss_of(source, random)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
        bar.update()
        done = step + 1
        if stage.state is not None and (done % stage.every == 0 or done == stage.steps):
            with atomic_write(stage.state, "wb") as file:
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "losses": losses,
                        "seconds": time.monotonic() - started,
                    },
                    file,
                )
    bar.close()
    model.eval()
    return losses
