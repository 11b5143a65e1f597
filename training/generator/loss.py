"""The loss of fine-tuning: scores are computed for the answer's tokens alone.

TRL scores every token of the vocabulary at every place of the prompt, and prompts are twenty times
as long as answers. Padded on the left, the answers of a batch stand below one another at its end,
and only these places need scores.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

IGNORED = -100
"""The label of a token that carries no loss."""

BLANK = {"input_ids": [0], "labels": [IGNORED]}
"""An example that carries none."""


class LeftPadded:
    """Puts examples below one another, right-aligned.

    Args:
        tokenizer: names the token that fills up; any will do, as it is masked.
    """

    def __init__(self, tokenizer: Any) -> None:
        pad = tokenizer.pad_token_id
        self.pad = 0 if pad is None else int(pad)

    def __call__(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Tensors of shape (len(rows), longest): ids, labels, mask and positions."""
        longest = max(len(row["input_ids"]) for row in rows)
        shape = (len(rows), longest)
        ids, labels = torch.full(shape, self.pad), torch.full(shape, IGNORED)
        mask = torch.zeros(shape, dtype=torch.long)
        for place, row in enumerate(rows):
            start = longest - len(row["input_ids"])
            ids[place, start:] = torch.tensor(row["input_ids"])
            labels[place, start:] = torch.tensor(row["labels"])
            mask[place, start:] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        return {
            "input_ids": ids,
            "labels": labels,
            "attention_mask": mask,
            "position_ids": positions,
        }


def answer_loss(model: Any, batch: Mapping[str, torch.Tensor], items: Any = None) -> torch.Tensor:
    """The cross entropy of the answer's tokens, a mean over all of a step's.

    Args:
        model: a causal language model, with an adapter or without.
        batch: what :class:`LeftPadded` made.
        items: how many tokens of all the step's batches carry loss; those of this batch if None.
    """
    labels = batch["labels"]
    answers = (labels != IGNORED).any(0).nonzero()
    first = int(answers[0]) if len(answers) else labels.shape[1]
    # The place before a token tells its score. Named one by one, the places are copied: of a slice
    # torch multiplies each row with a copy of the vocabulary's matrix of its own.
    places = torch.arange(first - 1, labels.shape[1] - 1, device=labels.device)
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    inner = getattr(model, "module", model)  # what several processes wrap, takes anything
    inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    accepted = inspect.signature(inner.forward).parameters
    if "position_ids" not in accepted:
        inputs.pop("position_ids", None)
    if "logits_to_keep" in accepted:
        inputs["logits_to_keep"] = places
    logits = model(**inputs, use_cache=False).logits
    if logits.shape[1] != len(places):  # a model that scores every place
        logits = logits[:, places]
    total = torch.nn.functional.cross_entropy(
        logits.float().reshape(-1, logits.shape[-1]),
        labels[:, first:].reshape(-1),
        ignore_index=IGNORED,
        reduction="sum",
    )
    return total / ((labels != IGNORED).sum() if items is None else items)
