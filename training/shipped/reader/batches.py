"""Batches of the nano reader: prompts, expected completions, and which documents fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from rulerag.generation.prompts import Citation, CompactTemplate
from training.shipped.reader.episodes import Episode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


IGNORED = -100


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of tokens, padded on the right.

    Args:
        ids: shape (n, length).
        labels: shape (n, length): the token that should follow each place, :data:`IGNORED` where
            nothing is asked.
        starts: shape (n,): the place behind which the completion begins.
        rows: shape (m,): the row of each document end.
        places: shape (m,): the place of each document's end, the mark of the next line.
        signs: shape (m, 5): what is true of that document, 0 or 1; the last column says whether a
            rule fires on it.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    starts: torch.Tensor
    rows: torch.Tensor
    places: torch.Tensor
    signs: torch.Tensor


def encode(
    episodes: Sequence[Episode], template: CompactTemplate, tokenizer: PreTrainedTokenizerFast
) -> Batch:
    """Episodes as one batch.

    Args:
        episodes: what is read.
        template: puts requests and citations into words.
        tokenizer: of the model; the marks of lines are one token each.
    """
    prompts = [template.render(episode.request).text for episode in episodes]
    answers = [template.completion(e.answer, Citation(*e.fact, e.inverse)) for e in episodes]
    heads = tokenizer(prompts)["input_ids"]
    tails = tokenizer(answers, add_special_tokens=False)["input_ids"]
    marks = tokenizer.convert_tokens_to_ids(["\n=", "\n:"])
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    longest = max(len(h) + len(t) for h, t in zip(heads, tails, strict=True))
    ids = np.full((len(episodes), longest), pad, dtype=np.int64)
    labels = np.full((len(episodes), longest), IGNORED, dtype=np.int64)
    rows, places, signs = [], [], []
    for row, (episode, head, tail) in enumerate(zip(episodes, heads, tails, strict=True)):
        ids[row, : len(head) + len(tail)] = head + tail
        labels[row, len(head) - 1 : len(head) + len(tail)] = [*tail, end]
        ends = np.flatnonzero(np.isin(head, marks))[-len(episode.fires) :]
        rows += [row] * len(ends)
        places += ends.tolist()
        signs += [(*s, f) for s, f in zip(episode.signs, episode.fires, strict=True)]
    return Batch(
        torch.from_numpy(ids),
        torch.from_numpy(labels),
        torch.tensor([len(head) - 1 for head in heads]),
        torch.tensor(rows),
        torch.tensor(places),
        torch.tensor(signs, dtype=torch.float32),
    )
