"""Any causal language model of transformers as a generator.

Read :mod:`~rulerag.generation.huggingface.generator` first, then ``load``; ``decoding`` computes.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.huggingface.constrained import entities_in, first_named
    from rulerag.generation.huggingface.generator import HuggingFaceGenerator
    from rulerag.generation.huggingface.load import (
        NANO_LLAMA,
        Loading,
        open_model,
        shipped,
        stated_chat,
        stated_template,
    )
else:
    __getattr__ = lazy_names(__name__)
