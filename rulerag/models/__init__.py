"""Pretrained models: what may be fetched by name, and GGUF files as folders.

Read :mod:`~rulerag.models.fetch` first, then :mod:`~rulerag.models.gguf`. The two small models of
the library's own lie in folders beside these files; what made them is in ``training/shipped``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.models.disk import saving
    from rulerag.models.download import download_file
    from rulerag.models.fetch import (
        SHIPPED,
        fetch_model,
        find_model,
        known_models,
        model_folder,
        model_source,
    )
    from rulerag.models.gguf import SOURCE, gguf_info, is_gguf, opened_gguf, save_gguf
    from rulerag.models.linear import with_fast_linear
    from rulerag.models.quiet import bars_on_terminals, quiet_transformers
else:
    __getattr__ = lazy_names(__name__)
