"""Greedy decoding, sampling and scoring of batches whose prompts share their beginnings.

``padded`` runs any architecture; ``packed`` runs known ones on a processor, without padding.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.huggingface.decoding.batches import (
        BatchLimits as BatchLimits,
        Continuation as Continuation,
        Ending as Ending,
        Tokens as Tokens,
        best_tokens as best_tokens,
    )
    from rulerag.generation.huggingface.decoding.packed import PackedDecoder as PackedDecoder
    from rulerag.generation.huggingface.decoding.packed_model import PackedModel as PackedModel
    from rulerag.generation.huggingface.decoding.padded import (
        Decoder as Decoder,
        sampled_tokens as sampled_tokens,
        window_of as window_of,
    )
else:
    __getattr__ = lazy_names(__name__)
