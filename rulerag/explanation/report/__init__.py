"""Everything about one answer, as a record and in words: rules, documents, sets, numbers."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.report.explain import ExplainSettings, explain_answer
    from rulerag.explanation.report.narrative import REST, AnswerExplanation
    from rulerag.explanation.report.page import marked_regions, regions_page
    from rulerag.explanation.report.pictures import called, parts_played, plain_rule
    from rulerag.explanation.report.progress import Progress
    from rulerag.explanation.report.rerun import rerun_retrieval
else:
    __getattr__ = front_door(__name__)
