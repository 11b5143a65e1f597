"""A generator behind any OpenAI-compatible endpoint: OpenAI, vLLM, Ollama, llama.cpp, transformers.

Read :mod:`~rulerag.generation.openai_compatible.generator` first; ``endpoint`` makes the calls,
``answers`` reads what comes back. How servers differ is in ``docs/servers.md``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.openai_compatible.answers import Reply as Reply, read as read
    from rulerag.generation.openai_compatible.generator import (
        CallSettings as CallSettings,
        OpenAICompatibleGenerator as OpenAICompatibleGenerator,
    )
else:
    __getattr__ = lazy_names(__name__)
