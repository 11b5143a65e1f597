"""Prompts as data: templates, few-shot cases, and the way back from a completion to an answer."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.prompts.compact_template import CompactTemplate
    from rulerag.generation.prompts.parsing import without_thought
    from rulerag.generation.prompts.self_explanation import (
        ExplainedCase,
        SelfExplanationTemplate,
        read_self_explanation,
    )
    from rulerag.generation.prompts.template import (
        ROWS,
        Case,
        Citation,
        Prompt,
        PromptTemplate,
        citation_of,
    )
else:
    __getattr__ = lazy_names(__name__)
