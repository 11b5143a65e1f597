"""Pretrained models: what may be fetched by name, and GGUF files as folders.

Read :mod:`~rulerag.models.fetch` first, then :mod:`~rulerag.models.gguf`. The two small models of
the library's own lie in folders beside these files; what made them is in ``training/shipped``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.models.disk import saving as saving
    from rulerag.models.download import download_file as download_file
    from rulerag.models.fetch import (
        SHIPPED as SHIPPED,
        fetch_model as fetch_model,
        find_model as find_model,
        known_models as known_models,
        model_folder as model_folder,
        model_source as model_source,
    )
    from rulerag.models.gguf import (
        SOURCE as SOURCE,
        gguf_info as gguf_info,
        is_gguf as is_gguf,
        opened_gguf as opened_gguf,
        save_gguf as save_gguf,
    )
    from rulerag.models.linear import with_fast_linear as with_fast_linear
    from rulerag.models.quiet import (
        bars_on_terminals as bars_on_terminals,
        quiet_transformers as quiet_transformers,
    )
else:
    __getattr__ = lazy_names(__name__)
