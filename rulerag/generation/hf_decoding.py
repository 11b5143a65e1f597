"""Decoding of padded batches behind a shared beginning, on any device and architecture."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import GenerationError
from rulerag.generation.hf_batches import Batch, Tokens, plan_batches, shared_length
from rulerag.generation.hf_cache import roomy_cache

__all__ = ["Decoded", "Decoder", "Ending", "Limits", "best_tokens", "window_of"]

Choose = Callable[[Any, Sequence[int]], tuple[Any, Any]]


@dataclass(slots=True)
class Decoded:
    """What a model wrote after one prompt.

    Args:
        tokens: the new tokens, without the one that ends the text.
        log_probability: of the tokens and of the end, natural logarithm.
    """

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is computed at once.

    Args:
        rows: the most rows of a batch.
        tokens: the most tokens of a batch, answers included; one row is always allowed.
        new_tokens: how many tokens an answer may have.
        share: whether beginnings are shared.
    """

    rows: int
    tokens: int
    new_tokens: int
    share: bool = True


@dataclass(frozen=True, slots=True)
class Ending:
    """When an answer ends.

    Args:
        tokens: those that end a text.
        piece: the text of one token; a line break after some text ends an answer.
    """

    tokens: frozenset[int]
    piece: Callable[[int], str]

    def take(self, result: Decoded, token: int, score: float) -> bool:
        """Add a token to a result; False when it ends the text."""
        result.log_probability += score
        if token in self.tokens:
            return False
        before, broken, _ = self.piece(token).partition("\n")
        begun = before.strip() or any(self.piece(t).strip() for t in result.tokens)
        result.tokens.append(token)
        return not (broken and begun)


class Decoder:
    """Runs a causal language model, many rows at a time; greedily unless told otherwise.

    Rows are padded on the left, between the shared beginning and their own part. Keys and values
    of the last shared beginning are kept until :meth:`forget`, and what the next beginning has in
    common with it is not computed again.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        ending: when an answer ends.
        pad: the token that fills up rows.
        choose: takes scores of shape (rows, tokens) and the place of each row's prompt; gives the
            next tokens and their log-probabilities, both of shape (rows,).
    """

    def __init__(self, model: Any, ending: Ending, pad: int, choose: Choose | None = None) -> None:
        self.model, self.ending, self.pad = model, ending, pad
        self._choose = choose or (lambda logits, _: best_tokens(logits))
        parameters = inspect.signature(model.forward).parameters
        self._positions = "position_ids" in parameters
        self._last_only = "logits_to_keep" in parameters
        self.shareable = _plain_cache(model.config)
        self._window = window_of(model.config)
        self._stored: Tokens = np.zeros(0, dtype=np.int64)
        self._layers: list[tuple[Any, Any]] = []

    def generate(
        self, prompts: Sequence[Tokens], limits: Limits, done: Callable[[int], object]
    ) -> list[Decoded]:
        """Continue prompts.

        Args:
            prompts: token ids, at least one each.
            limits: how much is computed at once.
            done: told how many prompts were finished.

        Raises:
            GenerationError: the model's scores are not numbers.
        """
        longest = max(map(len, prompts), default=0) + limits.new_tokens
        # Padding in the middle would move tokens out of a sliding window too early.
        fits = self.shareable and (self._window is None or longest <= self._window)
        batches = plan_batches(
            prompts,
            batch_size=limits.rows if self.shareable else 1,
            max_batch_tokens=limits.tokens,
            new_tokens=limits.new_tokens,
            share=limits.share and fits,
        )
        results: list[Decoded] = [Decoded() for _ in prompts]
        for batch in batches:
            found = self._decode(prompts, batch, limits.new_tokens)
            for row, result in zip(batch.rows, found, strict=True):
                results[row] = result
            done(len(batch.rows))
        # The weights may change before the next call, as they do while a model is trained.
        self._stored, self._layers = np.zeros(0, dtype=np.int64), []
        return results

    def score(
        self, sequences: Sequence[Tokens], starts: Sequence[int], limits: Limits
    ) -> list[float]:
        """The log-probability of the end of each sequence given its beginning.

        Args:
            sequences: token ids.
            starts: where the part begins that is scored; at least 1.
            limits: how much is computed at once.
        """
        import torch

        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        found = [0.0] * len(sequences)
        while order:
            longest = len(sequences[order[-1]])
            count = min(limits.rows, max(1, limits.tokens // longest), len(order))
            rows, order = order[-count:], order[:-count]
            if not self.shareable:  # a state would run over the padding
                rows, order = rows[-1:], [*order, *rows[:-1]]
            chosen = [sequences[i] for i in rows]
            ids, mask = self._padded(chosen, 0)
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            kept = max(len(sequences[i]) - starts[i] for i in rows)
            with torch.inference_mode():
                logits = self._forward(ids, mask, positions, None, keep=kept + 1).logits.float()
            logits = logits[:, -kept - 1 : -1]
            targets = ids[:, -kept:]
            each = logits.gather(2, targets[..., None])[..., 0] - torch.logsumexp(logits, dim=-1)
            for row, i in enumerate(rows):
                found[i] = float(each[row, -(len(sequences[i]) - starts[i]) :].double().sum())
        return found

    def _decode(self, whole: Sequence[Tokens], batch: Batch, new_tokens: int) -> list[Decoded]:
        """Continue one batch, whose first tokens are the same."""
        import torch

        prompts, shared = [whole[place] for place in batch.rows], batch.shared
        with torch.inference_mode():
            cache = None
            if shared:
                self._advance(prompts[0][:shared])
            if self.shareable:
                capacity = max(map(len, prompts)) + new_tokens
                layers = self._layers if shared else ()
                cache = roomy_cache(layers, len(prompts), capacity)
            return self._continue(prompts, batch, cache, new_tokens)

    def _advance(self, prefix: Tokens) -> None:
        """Make the kept beginning this one, computing only what is new."""
        import torch
        from transformers import DynamicCache

        # One token is always computed: a pass over nothing is not possible.
        known = min(shared_length(self._stored, prefix), len(prefix))
        layers = [(k[..., :known, :], v[..., :known, :]) for k, v in self._layers]
        if known < len(prefix):
            cache = DynamicCache()
            for place, (keys, values) in enumerate(layers if known else []):
                cache.update(keys, values, place)
            device = self.model.device
            ids = torch.from_numpy(prefix[known:])[None].to(device)
            mask = torch.ones((1, len(prefix)), dtype=torch.long, device=device)
            positions = torch.arange(known, len(prefix), device=device)[None]
            self._forward(ids, mask, positions, cache)
            filled: list[Any] = list(cache.layers)
            layers = [(layer.keys, layer.values) for layer in filled]
        self._stored, self._layers = prefix.copy(), layers

    def _forward(self, ids: Any, mask: Any, positions: Any, cache: Any, *, keep: int = 1) -> Any:
        arguments: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "past_key_values": cache,
            "use_cache": keep == 1,
        }
        if self._positions:
            arguments["position_ids"] = positions
        if self._last_only:
            arguments["logits_to_keep"] = keep
        return self.model(**arguments)

    def _continue(
        self, prompts: Sequence[Tokens], batch: Batch, cache: Any, new_tokens: int
    ) -> list[Decoded]:
        import torch

        ids, mask = self._padded(prompts, batch.shared)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, batch.shared :]
        results = [Decoded() for _ in prompts]
        rows = list(range(len(prompts)))  # of the batch that is still computed
        going = set(rows)
        for step in range(new_tokens):
            output = self._forward(ids, mask, positions, cache)
            cache = output.past_key_values
            places = [batch.rows[row] for row in rows]
            chosen, scores = self._choose(output.logits[:, -1, :], places)
            for row, token, score in zip(rows, chosen.tolist(), scores.tolist(), strict=True):
                if row in going and not self.ending.take(results[row], token, score):
                    going.discard(row)
            if not going or step == new_tokens - 1:
                break
            keep = [place for place, row in enumerate(rows) if row in going]
            if self.shareable and 2 * len(keep) <= len(rows):
                index = torch.tensor(keep, device=ids.device)
                cache.batch_select_indices(index)
                mask, positions, chosen = mask[index], positions[index], chosen[index]
                rows = [rows[place] for place in keep]
            ids = chosen[:, None]
            mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
            positions = positions[:, -1:] + 1
        return results

    def _padded(self, prompts: Sequence[Tokens], shared: int) -> tuple[Any, Any]:
        """Ids of the rows' own parts, padded on the left, and the mask over everything."""
        import torch

        longest = max(len(prompt) for prompt in prompts)
        ids = np.full((len(prompts), longest - shared), self.pad, dtype=np.int64)
        mask: npt.NDArray[np.int64] = np.zeros((len(prompts), longest), dtype=np.int64)
        mask[:, :shared] = 1
        for row, prompt in enumerate(prompts):
            own = len(prompt) - shared
            ids[row, -own:] = prompt[shared:]
            mask[row, -own:] = 1
        device = self.model.device
        return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def best_tokens(logits: Any) -> tuple[Any, Any]:
    """The best token of each row and its log-probability."""
    import torch

    logits = logits.float()
    top, chosen = logits.max(dim=-1)
    scores = top - torch.logsumexp(logits, dim=-1)
    if not bool(torch.isfinite(scores).all()):
        raise GenerationError(
            "the model's scores are not numbers",
            provider="huggingface",
            hint="load it with dtype='float32', and check that its training did not diverge",
        )
    return chosen, scores


def _plain_cache(config: Any) -> bool:
    """Whether every layer keeps keys and values alone, so that rows can share a beginning."""
    kinds = getattr(config.get_text_config(), "layer_types", None) or ()
    plain = {"full_attention", "sliding_attention"}
    return config.model_type not in {"mamba", "mamba2", "rwkv"} and set(kinds) <= plain


def window_of(config: Any) -> int | None:
    """The sliding window of attention, where there is one."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    window = getattr(text, "sliding_window", None)
    used = getattr(text, "use_sliding_window", True)
    return int(window) if window and used else None
