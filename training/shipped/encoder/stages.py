"""The two stages of the small encoder as one loop that can be killed and goes on.

The first tells masked tokens (Devlin et al. 2019, section 3.1), the second learns from pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from training.common.loop import descend, run_steps
from training.retriever.loss import contrastive_loss
from training.shipped.encoder.pairs import PairSource

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast


_WARMUP = 50
_GROUPS = 4
_IGNORED = -100


@dataclass(frozen=True)
class Stage:
    """How long and how a stage learns.

    Args:
        steps: optimizer steps.
        batch_size: texts, or pairs, of a step.
        learning_rate: of AdamW at its peak, falling to zero by a cosine.
        seed: of batches.
        loop: where its state is saved, and whether progress is shown: options of
            :func:`~training.common.loop.run_steps`.
    """

    steps: int = 500
    batch_size: int = 256
    learning_rate: float = 2e-3
    seed: int = 0
    loop: Mapping[str, Any] = field(default_factory=dict)


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


class _MaskedTokens(torch.nn.Module):
    """A BERT with a head that tells masked tokens; its output matrix is the token embedding.

    Args:
        bert: the transformer; trained in place.
    """

    def __init__(self, bert: Any) -> None:
        super().__init__()
        width = bert.config.hidden_size
        self.bert = bert
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.head = torch.nn.Sequential(
                torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)
            )

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """The mean cross-entropy over the masked tokens.

        Args:
            input_ids: shape (n, length).
            attention_mask: the same shape.
            labels: the same shape; -100 where nothing is asked.
        """
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        asked = labels != _IGNORED
        table = self.bert.get_input_embeddings().weight
        logits = self.head(hidden[asked]) @ table.T
        return torch.nn.functional.cross_entropy(logits, labels[asked])


def masked_batch(
    source: PairSource,
    tokenizer: PreTrainedTokenizerFast,
    size: int,
    random: np.random.Generator,
    *,
    share: float = 0.2,
) -> dict[str, torch.Tensor]:
    """Documents and questions of a source with some tokens masked.

    Of the chosen tokens 80 % become ``[MASK]``, 10 % any token, 10 % stay.

    Args:
        source: where texts come from; half are documents, half questions with and without rules.
        tokenizer: of the encoder.
        size: texts.
        random: what draws.
        share: of the tokens that are asked for.
    """
    from transformers import DataCollatorForLanguageModeling

    batch = source.batch(size // 2, random)
    tokens = [tokenizer(text, truncation=True) for text in batch.documents + batch.queries]
    mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        masked = mask(tokens)
    return {name: masked[name] for name in ("input_ids", "attention_mask", "labels")}


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
    model = _MaskedTokens(first.auto_model)
    tokenizer: Any = encoder.tokenizer

    def loss_of(source: PairSource, random: np.random.Generator) -> torch.Tensor:
        loss: torch.Tensor = model(**masked_batch(source, tokenizer, stage.batch_size, random))
        return loss

    return _train(model, made, stage, loss_of, weights, "masked tokens")


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

    def loss_of(source: PairSource, random: np.random.Generator) -> torch.Tensor:
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

    return _train(encoder, made, stage, loss_of, weights, "pairs")


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

    def step_of(step: int) -> dict[str, float]:
        # Each step draws from a seed of its own: a run that goes on sees the same batches.
        random = np.random.default_rng([stage.seed, step])
        loss = loss_of(made[int(random.choice(len(made), p=chances / chances.sum()))], random)
        falling = 0.5 * (1 + math.cos(math.pi * step / stage.steps))
        descend(optimizer, loss, stage.learning_rate * min(1.0, (step + 1) / _WARMUP) * falling)
        return {"loss": float(loss.detach())}

    model.train()
    rows = run_steps(
        step_of, {"model": model, "optimizer": optimizer}, stage.steps, name=name, **stage.loop
    )
    model.eval()
    return [row["loss"] for row in rows]
