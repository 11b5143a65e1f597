"""Greedy decoding, sampling and scoring of batches whose prompts share their beginnings."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.generation.huggingface.decoding.batches import (
        Decoded,
        Ending,
        Limits,
        Tokens,
        best_tokens,
    )
    from rulerag.generation.huggingface.decoding.decoder import Decoder, sampled_tokens
else:
    __getattr__ = front_door(__name__)
