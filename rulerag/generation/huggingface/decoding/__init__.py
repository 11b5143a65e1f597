"""Greedy decoding, sampling and scoring of batches whose prompts share their beginnings.

``padded`` runs any architecture; ``packed`` runs known ones on a processor, without padding.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.huggingface.decoding.batches import (
        BatchLimits,
        Continuation,
        Ending,
        Tokens,
        best_tokens,
    )
    from rulerag.generation.huggingface.decoding.packed import PackedDecoder
    from rulerag.generation.huggingface.decoding.packed_model import PackedModel
    from rulerag.generation.huggingface.decoding.padded import Decoder, sampled_tokens, window_of
else:
    __getattr__ = lazy_names(__name__)
