"""Why an answer came out, for any system: three lines around the RAG that people already have.

Read :mod:`~rulerag.explanation.explaining.front` first, then ``run`` (what is asked and known),
``records`` (what is returned), ``text`` (its English) and ``page``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.explaining.front import (
        explain as explain,
        explain_answer as explain_answer,
        prepare as prepare,
    )
    from rulerag.explanation.explaining.page import (
        accepted_line as accepted_line,
        explanation_blocks as explanation_blocks,
        plain_rule as plain_rule,
    )
    from rulerag.explanation.explaining.records import (
        ExplainedClaim as ExplainedClaim,
        Explanation as Explanation,
        RuleTrace as RuleTrace,
    )
    from rulerag.explanation.explaining.run import Event as Event, EventHook as EventHook
    from rulerag.explanation.explaining.settings import (
        ExplainSettings as ExplainSettings,
        estimate as estimate,
    )
    from rulerag.explanation.explaining.text import (
        claim_lines as claim_lines,
        explanation_lines as explanation_lines,
        what_was_shown as what_was_shown,
    )
    from rulerag.explanation.explaining.why import Why as Why
else:
    __getattr__ = lazy_names(__name__)
