"""Generators: they answer a question from documents and rules.

``symbolic_reader`` and ``candidate_reader`` need no model, ``huggingface`` runs one in this
process, ``openai_compatible`` asks a server, ``hybrid`` joins two and ``verified_thought`` holds
the chain-of-thought baselines. ``prompts`` is how requests become text.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.candidate_reader import answers_by_relation as answers_by_relation
    from rulerag.generation.hybrid import HybridReader as HybridReader
    from rulerag.generation.openai_compatible import (
        OpenAICompatibleGenerator as OpenAICompatibleGenerator,
    )
    from rulerag.generation.symbolic_reader import SymbolicReader as SymbolicReader
else:
    __getattr__ = lazy_names(__name__)
