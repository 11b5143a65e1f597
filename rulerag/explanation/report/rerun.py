"""Beyond the retrieved documents: what is answered when an omission rule's are not in the corpus.

Rules speak of the documents that were retrieved. A corpus may hold further copies of what they
say, and retrieval brings them when those are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from rulerag.errors import ExplanationError
from rulerag.explanation.probing import Predicate, matches_answer
from rulerag.explanation.records import correctness, document_of
from rulerag.explanation.report.narrative import AnswerExplanation, Rerun
from rulerag.text import normalize_answer
from rulerag.types import Answer, Document, Query


class Answerer(Protocol):
    """What retrieves and answers: a pipeline."""

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """Return one answer for each query, in order."""
        ...


def rerun_retrieval(
    explanation: AnswerExplanation,
    answer: Answer,
    corpus: Sequence[Document],
    pipeline_over: Callable[[list[Document]], Answerer],
    *,
    predicate: Predicate | None = None,
) -> AnswerExplanation:
    """Take the documents of the first omission rule out of the corpus, retrieve and answer again.

    A rule over sentences or words takes out their whole documents. Where the answer goes by
    itself, or by no removal, there is nothing to take out and the explanation stays as it is.

    Args:
        explanation: of the answer.
        answer: what was explained.
        corpus: every document that can be retrieved.
        pipeline_over: retrieval over the documents given and the same generator; it is called
            once, with the corpus but for those documents, so that nothing of them is left in any
            index or count.
        predicate: the condition of the retention rules, as it was explained.

    Returns:
        The explanation with ``rerun``.

    Raises:
        ExplanationError: the corpus holds none of these documents, or nothing else.
    """
    rule = next((rule for rule in explanation.omitted if rule.names), None)
    if rule is None:
        return explanation
    known = {document.alias for document in explanation.documents}
    own = [name for name in rule.names if document_of(name) in known]
    rest = explanation.together if len(own) < len(rule.names) else ()
    gone = {document_of(name) for name in (*own, *rest)}
    removed = [document for document in explanation.documents if document.alias in gone]
    ids = {document.id for document in removed}
    left = [document for document in corpus if document.id not in ids]
    if not left or len(left) == len(corpus):
        what = f"{'none of' if left else 'nothing but'} the documents {', '.join(sorted(ids))}"
        hint = "give the corpus that the answer's documents were retrieved from"
        raise ExplanationError(f"the corpus holds {what}", hint=hint)
    (again,) = pipeline_over(left).answer([answer.query])
    condition = predicate or matches_answer(explanation.answer)
    before = {document.id for document in explanation.documents}
    newcomers = [one.document for one in again.documents if one.document.id not in before]
    stated = {_statement(document) for document in corpus if document.id in ids}
    right = correctness(again.text, answer.query.answers)
    found = Rerun(
        removed=tuple(document.alias for document in removed),
        removed_ids=tuple(document.id for document in removed),
        answer=again.text,
        holds=bool(condition(again.text)),
        right=right == "right" if right else None,
        newcomers=tuple((document.id, document.text) for document in newcomers),
        copies=tuple(document.id for document in left if _statement(document) in stated),
    )
    return replace(explanation, rerun=found)


def _statement(document: Document) -> object:
    """What a document states, at whatever time; its words where its facts are not known."""
    if document.facts:
        return frozenset((fact.subject, fact.relation, fact.object) for fact in document.facts)
    return normalize_answer(document.text)
