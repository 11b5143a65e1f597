"""Prompts as data: templates, few-shot cases, and the way back from a completion to an answer."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.generation.prompts.compact_template import CompactTemplate as CompactTemplate
    from rulerag.generation.prompts.parsing import without_thought as without_thought
    from rulerag.generation.prompts.self_explanation import (
        ExplainedCase as ExplainedCase,
        SelfExplanationTemplate as SelfExplanationTemplate,
        read_self_explanation as read_self_explanation,
    )
    from rulerag.generation.prompts.template import (
        ROWS as ROWS,
        Case as Case,
        Citation as Citation,
        Prompt as Prompt,
        PromptTemplate as PromptTemplate,
        citation_of as citation_of,
    )
else:
    __getattr__ = lazy_names(__name__)
