"""Decoding of padded batches behind a shared beginning, on any device and architecture."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.generation.huggingface.decoding.batches import (
    BatchLimits,
    Continuation,
    Ending,
    PromptBatch,
    Tokens,
    best_tokens,
    no_gradients,
    plan_batches,
    shared_length,
)

Choose = Callable[[Any, Sequence[int]], tuple[Any, Any]]


class Decoder:
    """Continues and scores prompts by a causal language model, many rows at a time.

    Rows are padded on the left, between the shared beginning and their own part. Keys and values
    of the last shared beginning are kept until the call ends, and what the next beginning has in
    common with it is not computed again.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        ending: when an answer ends.
        pad: the token that fills up rows.
    """

    def __init__(self, model: Any, ending: Ending, pad: int) -> None:
        self.model, self.ending, self.pad = model, ending, pad
        self.shareable = _plain_cache(model.config)
        self._parameters = inspect.signature(model.forward).parameters
        self._window = window_of(model.config)

    def generate(
        self,
        prompts: Sequence[Tokens],
        limits: BatchLimits,
        done: Callable[[int], object],
        choose: Choose | None = None,
    ) -> list[Continuation]:
        """Continue prompts.

        Args:
            prompts: token ids, at least one each.
            limits: how much is computed at once.
            done: called with the number of prompts that were finished.
            choose: takes scores of shape (rows, tokens) and the place of each row's prompt; gives
                the next tokens and their log-probabilities, both of shape (rows,). The best token
                by default.

        Raises:
            GenerationError: the model's scores are not numbers.
        """
        from transformers import GenerationConfig

        longest = max(map(len, prompts), default=0) + limits.new_tokens
        batches, beginnings = self._batches(prompts, longest, limits)
        results = [Continuation() for _ in prompts]
        # What the model's folder recommends (sampling, penalties) is not what is measured here.
        blank: Any = GenerationConfig  # untyped
        recommended, self.model.generation_config = self.model.generation_config, blank()
        try:
            for batch in batches:
                chosen = [prompts[row] for row in batch.rows]
                shared = beginnings.repeated(chosen[0][: batch.shared], len(chosen))
                ids, mask = self._padded(chosen, batch.shared)
                step = _TokenChoice(
                    [results[row] for row in batch.rows], batch.rows, self.ending, choose
                )
                self.model.generate(
                    ids,
                    attention_mask=mask,
                    past_key_values=shared,
                    generation_config=blank(
                        max_new_tokens=limits.new_tokens, pad_token_id=self.pad
                    ),
                    logits_processor=[step.choose],
                    stopping_criteria=[step.stop],
                )
                done(len(batch.rows))
        finally:
            self.model.generation_config = recommended
        return results

    def score(
        self, sequences: Sequence[Tokens], starts: Sequence[int], limits: BatchLimits
    ) -> list[float]:
        """The log-probability of the end of each sequence given its beginning.

        Args:
            sequences: token ids.
            starts: where the part begins that is scored; at least 1.
            limits: how much is computed at once.
        """
        import torch

        found = [0.0] * len(sequences)
        longest = max(map(len, sequences), default=0)
        batches, beginnings = self._batches(sequences, longest, replace(limits, new_tokens=0))
        for batch in batches:
            chosen = [sequences[i] for i in batch.rows]
            # The token before the first that is scored is each row's own: it gives its score.
            common = min(batch.shared, *(starts[i] - 1 for i in batch.rows))
            ids, mask = self._padded(chosen, common)
            kept = max(len(sequences[i]) - starts[i] for i in batch.rows)
            arguments: dict[str, Any] = {"input_ids": ids[:, common:], "attention_mask": mask}
            shared = beginnings.repeated(chosen[0][:common], len(chosen))
            if shared is None:
                arguments["use_cache"] = False
            else:
                arguments["past_key_values"] = shared
            if "position_ids" in self._parameters:
                arguments["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, common:]
            if "logits_to_keep" in self._parameters:
                arguments["logits_to_keep"] = kept + 1
            with no_gradients():
                logits = self.model(**arguments).logits.float()
            logits = logits[:, -kept - 1 : -1]
            targets = ids[:, -kept:]
            each = logits.gather(2, targets[..., None])[..., 0] - torch.logsumexp(logits, dim=-1)
            for row, i in enumerate(batch.rows):
                found[i] = float(each[row, -(len(sequences[i]) - starts[i]) :].double().sum())
        return found

    def _batches(
        self, sequences: Sequence[Tokens], longest: int, limits: BatchLimits
    ) -> tuple[list[PromptBatch], _Beginnings]:
        """Which rows are computed together, and what computes the beginnings that they share."""
        # Padding in the middle would move tokens out of a sliding window too early.
        fits = self.shareable and (self._window is None or longest <= self._window)
        rows = limits.rows if self.shareable else 1  # a state would run over the padding
        batches = plan_batches(sequences, replace(limits, rows=rows), share=fits)
        return batches, _Beginnings(self.model)

    def _padded(self, prompts: Sequence[Tokens], shared: int) -> tuple[Any, Any]:
        """Ids and mask of rows that are padded on the left, behind what they share."""
        import torch

        longest = max(len(prompt) for prompt in prompts)
        ids = np.full((len(prompts), longest), self.pad, dtype=np.int64)
        mask: npt.NDArray[np.int64] = np.zeros((len(prompts), longest), dtype=np.int64)
        ids[:, :shared], mask[:, :shared] = prompts[0][:shared], 1
        for row, prompt in enumerate(prompts):
            own = len(prompt) - shared
            ids[row, -own:] = prompt[shared:]
            mask[row, -own:] = 1
        device = self.model.device
        return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


class _Beginnings:
    """Keys and values of the last shared beginning, of which the next one keeps what it can."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        self._model = model
        self._cache: Any = DynamicCache()
        self._tokens: Tokens = np.zeros(0, dtype=np.int64)

    def repeated(self, prefix: Tokens, rows: int) -> Any:
        """Keys and values of a beginning, for each of some rows; None where it is empty."""
        import torch

        if not len(prefix):
            return None
        known = shared_length(self._tokens, prefix)
        if known < len(self._tokens):
            self._cache.crop(known - len(self._tokens))
        if known < len(prefix):
            ids = torch.from_numpy(prefix[known:])[None].to(self._model.device)
            with no_gradients():
                self._model(input_ids=ids, past_key_values=self._cache)
        self._tokens, shared = prefix, copy.deepcopy(self._cache)
        shared.batch_repeat_interleave(rows)
        return shared


class _TokenChoice:
    """Chooses the tokens of one step of transformers' generation, and says which rows end.

    Args:
        results: of the rows; grow with each step.
        places: of the rows' prompts.
        ending: when a row ends.
        choose: see :meth:`Decoder.generate`.
    """

    def __init__(
        self,
        results: Sequence[Continuation],
        places: Sequence[int],
        ending: Ending,
        choose: Choose | None,
    ) -> None:
        self.results, self.places, self.ending, self._choose = results, places, ending, choose
        self.ended = [False] * len(results)

    def choose(self, _: Any, logits: Any) -> Any:
        """Scores that leave the chosen tokens alone (a logits processor)."""
        import torch

        found = self._choose(logits, self.places) if self._choose else best_tokens(logits)
        self.tokens, self.scores = found
        alone = torch.full_like(logits, -torch.inf)
        return alone.scatter_(1, self.tokens[:, None], 0.0)

    def stop(self, ids: Any, _: Any) -> Any:
        """Which rows end (a stopping criterion)."""
        import torch

        pairs = zip(self.tokens.tolist(), self.scores.tolist(), strict=True)
        for row, (token, score) in enumerate(pairs):
            if not self.ended[row]:
                self.ended[row] = not self.ending.take(self.results[row], token, score)
        return torch.tensor(self.ended, device=ids.device)


def sampled_tokens(seeds: Sequence[int], temperature: float) -> Choose:
    """Samples from the model's whole distribution (no top-k, no top-p), by each prompt's own seed.

    Scores are log-probabilities at temperature 1.
    """
    import torch

    # On the processor: a seed draws the same there whatever the model runs on.
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(logits: Any, places: Sequence[int]) -> tuple[Any, Any]:
        best_tokens(logits)  # refuses scores that are not numbers
        weights = torch.softmax(logits.float() / temperature, dim=-1).cpu()
        drawn = [
            torch.multinomial(row, 1, generator=generators[place])
            for row, place in zip(weights, places, strict=True)
        ]
        chosen = torch.cat(drawn).to(logits.device)
        scores = torch.log_softmax(logits.float(), dim=-1)
        return chosen, scores.gather(1, chosen[:, None])[:, 0]

    return choose


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
