"""Any causal language model of transformers as a generator.

Read :mod:`~rulerag.generation.huggingface.generator` first, then ``load``; ``decoding`` computes.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.huggingface.constrained import (
        entities_in as entities_in,
        first_named as first_named,
    )
    from rulerag.generation.huggingface.generator import (
        HuggingFaceGenerator as HuggingFaceGenerator,
    )
    from rulerag.generation.huggingface.load import (
        NANO_LLAMA as NANO_LLAMA,
        Loading as Loading,
        open_model as open_model,
        shipped as shipped,
        stated_chat as stated_chat,
        stated_template as stated_template,
    )
else:
    __getattr__ = lazy_names(__name__)
