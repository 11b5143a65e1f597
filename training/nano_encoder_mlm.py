"""The first stage of the small encoder: tell masked tokens (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from training.pairs import PairSource

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["MaskedTokens", "masked_batch"]

_IGNORED = -100


class MaskedTokens(torch.nn.Module):
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
    batch = source.batch(size // 2, random)
    texts = batch.documents + batch.queries
    made = tokenizer(texts, padding=True, truncation=True, return_tensors="np")
    ids, mask = made["input_ids"].astype(np.int64), made["attention_mask"].astype(np.int64)
    special = np.isin(ids, tokenizer.all_special_ids)
    asked = (random.random(ids.shape) < share) & ~special
    if not asked.any():
        asked[0, int(np.argmin(special[0]))] = True
    labels = np.where(asked, ids, _IGNORED)
    dice = random.random(ids.shape)
    other = random.integers(len(tokenizer.all_special_ids), len(tokenizer), ids.shape)
    ids = np.where(asked & (dice < 0.8), tokenizer.mask_token_id, ids)
    ids = np.where(asked & (dice >= 0.9), other, ids)
    return {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(mask),
        "labels": torch.from_numpy(labels),
    }
