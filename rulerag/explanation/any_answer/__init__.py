"""Why any answer came out: three lines around the RAG system that people already have.

Read :mod:`~rulerag.explanation.any_answer.front` first, then ``session`` (what is asked and known),
``search`` (which documents a claim rests on), ``asking`` (calls beside each other), ``records`` and
``words`` (what is returned, and its English).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.any_answer.asking import AskedFunction
    from rulerag.explanation.any_answer.estimates import estimate
    from rulerag.explanation.any_answer.front import explain, started
    from rulerag.explanation.any_answer.records import DocumentSet, Explained, ExplainedClaim
    from rulerag.explanation.any_answer.session import Event
    from rulerag.explanation.any_answer.why import Why
    from rulerag.explanation.any_answer.words import claim_lines, what_was_shown
else:
    __getattr__ = front_door(__name__)
