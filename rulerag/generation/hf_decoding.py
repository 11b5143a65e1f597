"""Greedy decoding of batches behind a shared beginning, with the log-probability of each answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import GenerationError
from rulerag.generation.hf_batches import Tokens, shared_length
from rulerag.generation.hf_cache import roomy_cache

__all__ = ["Decoded", "Decoder"]


@dataclass(slots=True)
class Decoded:
    """What a model wrote after one prompt.

    Args:
        tokens: the new tokens, without the one that ends the text.
        log_probability: of the tokens and of the end, natural logarithm.
    """

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0


class Decoder:
    """Runs a causal language model greedily, many rows at a time.

    Rows are padded on the left, between the shared beginning and their own part. Keys and values
    of the last shared beginning are kept until :meth:`forget`, and what the next beginning has in
    common with it is not computed again.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        ends: the tokens that end a text.
        pad: the token that fills up rows.
        piece: the text of one token; a line break after some text ends an answer.
        new_tokens: how many tokens an answer may have.
    """

    def __init__(
        self,
        model: Any,
        *,
        ends: frozenset[int],
        pad: int,
        piece: Callable[[int], str],
        new_tokens: int,
    ) -> None:
        self.model, self.ends, self.pad, self.piece = model, ends, pad, piece
        self.new_tokens = new_tokens
        parameters = inspect.signature(model.forward).parameters
        self._positions = "position_ids" in parameters
        self._last_only = "logits_to_keep" in parameters
        self.shareable = _plain_cache(model.config)
        self._window = _window(model.config)
        self._stored: Tokens = np.zeros(0, dtype=np.int64)
        self._layers: list[tuple[Any, Any]] = []

    def can_share(self, length: int) -> bool:
        """Whether rows of this length, answer included, may stand behind a shared beginning."""
        # Padding in the middle would move tokens out of a sliding window too early.
        return self.shareable and (self._window is None or length <= self._window)

    def forget(self) -> None:
        """Free the kept beginning; needed when the weights change."""
        self._stored, self._layers = np.zeros(0, dtype=np.int64), []

    def decode(self, prompts: Sequence[Tokens], shared: int) -> list[Decoded]:
        """Continue prompts greedily.

        Args:
            prompts: token ids, each longer than ``shared``.
            shared: how many first tokens are the same in all of them; 0 for none.

        Raises:
            GenerationError: the model's scores are not numbers.
        """
        import torch

        with torch.inference_mode():
            cache = None
            if shared:
                self._advance(prompts[0][:shared])
            if self.shareable:
                capacity = max(map(len, prompts)) + self.new_tokens
                layers = self._layers if shared else ()
                cache = roomy_cache(layers, len(prompts), capacity)
            return self._greedy(prompts, shared, cache)

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

    def _forward(self, ids: Any, mask: Any, positions: Any, cache: Any) -> Any:
        arguments: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "past_key_values": cache,
            "use_cache": True,
        }
        if self._positions:
            arguments["position_ids"] = positions
        if self._last_only:
            arguments["logits_to_keep"] = 1
        return self.model(**arguments)

    def _greedy(self, prompts: Sequence[Tokens], shared: int, cache: Any) -> list[Decoded]:
        import torch

        ids, mask = self._padded(prompts, shared)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, shared:]
        results = [Decoded() for _ in prompts]
        rows = list(range(len(prompts)))  # of the batch that is still computed
        going = set(rows)
        for step in range(self.new_tokens):
            output = self._forward(ids, mask, positions, cache)
            cache = output.past_key_values
            chosen, scores = _best(output.logits[:, -1, :])
            for row, token, score in zip(rows, chosen.tolist(), scores.tolist(), strict=True):
                if row in going and not self._take(results[row], token, score):
                    going.discard(row)
            if not going or step == self.new_tokens - 1:
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

    def _take(self, result: Decoded, token: int, score: float) -> bool:
        """Add a token to a result; False when it ends the text."""
        result.log_probability += score
        if token in self.ends:
            return False
        before, broken, _ = self.piece(token).partition("\n")
        begun = before.strip() or any(self.piece(t).strip() for t in result.tokens)
        result.tokens.append(token)
        return not (broken and begun)


def _best(logits: Any) -> tuple[Any, Any]:
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


def _window(config: Any) -> int | None:
    """The sliding window of attention, where there is one."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    window = getattr(text, "sliding_window", None)
    used = getattr(text, "use_sliding_window", True)
    return int(window) if window and used else None
