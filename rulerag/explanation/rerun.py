"""Beyond the retrieved documents: what is answered when an omission rule's are not in the corpus.

Rules speak of the documents that were retrieved. A corpus may hold further copies of what they
say, and retrieval brings them when those are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from rulerag.errors import ExplanationError
from rulerag.explanation.judging import Predicate
from rulerag.explanation.predicates import matches_answer
from rulerag.explanation.telling import capital, verdict
from rulerag.explanation.trace import document_of, expect
from rulerag.explanation.wording import in_words, listing, quoted, runs, shortened
from rulerag.text import normalize_answer
from rulerag.types import Answer, Document, Query

if TYPE_CHECKING:
    from rulerag.explanation.narrative import AnswerExplanation

__all__ = ["Answerer", "Rerun", "rerun_retrieval"]

_MOST_LINES = 5


class Answerer(Protocol):
    """What retrieves and answers: a pipeline."""

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """Return one answer for each query, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Rerun:
    """What is answered without some documents in the corpus.

    Args:
        removed: the documents taken out, by their short names: D1, D2 …
        removed_ids: the same by their ids.
        answer: what is answered then.
        holds: whether the condition of the retention rules holds again.
        right: whether it is an accepted answer; None where none is known.
        newcomers: ids and texts of the documents retrieved then that were not there before.
        copies: ids of further documents of the corpus that state the same as one removed, but for
            its time.
    """

    removed: tuple[str, ...]
    removed_ids: tuple[str, ...]
    answer: str
    holds: bool
    right: bool | None
    newcomers: tuple[tuple[str, str], ...]
    copies: tuple[str, ...]

    def lines(self) -> list[str]:
        """The result in sentences, one a line."""
        gone = listing(runs(self.removed))
        right = {True: ", which is right", False: ", which is wrong", None: ""}[self.right]
        said = quoted(self.answer) + (right if self.answer.strip() else "")
        how = "The answer comes back" if self.holds else "The answer goes"
        lines = [f"{how}: without {gone} in the corpus the generator {said}."]
        one = len(self.newcomers) == 1
        place = f"{in_words(len(self.newcomers))} further document{'' if one else 's'} of the "
        place += f"corpus {'takes' if one else 'take'} "
        place += "its place" if len(self.removed) == 1 else "their place"
        among_new = len(set(self.copies) & {identifier for identifier, _ in self.newcomers})
        states = "document states" if len(self.copies) == 1 else "documents state"
        copies = f"{in_words(len(self.copies))} other {states} the same, at whatever time"
        if self.copies:
            copies += f", {in_words(among_new) if among_new else 'none'} of them among these"
        lines.append(f"{capital(place)}; {copies}.")
        lines += [f"  {shortened(text)}" for _, text in self.newcomers[:_MOST_LINES]]
        if len(self.newcomers) > _MOST_LINES:
            lines.append(f"  … and {len(self.newcomers) - _MOST_LINES} more")
        return lines

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "removed": list(self.removed),
            "removed_ids": list(self.removed_ids),
            "answer": self.answer,
            "holds": self.holds,
            "right": self.right,
            "newcomers": [list(one) for one in self.newcomers],
            "copies": list(self.copies),
            "lines": self.lines(),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Rerun:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return cls(
            removed=tuple(expect(row, "removed", list)),
            removed_ids=tuple(expect(row, "removed_ids", list)),
            answer=expect(row, "answer", str),
            holds=expect(row, "holds", bool),
            right=expect(row, "right", bool | None),
            newcomers=tuple((one[0], one[1]) for one in expect(row, "newcomers", list)),
            copies=tuple(expect(row, "copies", list)),
        )


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
        what = "nothing but" if not left else "none of"
        raise ExplanationError(
            f"the corpus holds {what} the documents {', '.join(sorted(ids))}",
            hint="give the corpus that the answer's documents were retrieved from",
        )
    (again,) = pipeline_over(left).answer([answer.query])
    condition = predicate or matches_answer(explanation.answer)
    before = {document.id for document in explanation.documents}
    newcomers = [one.document for one in again.documents if one.document.id not in before]
    stated = {_statement(document) for document in corpus if document.id in ids}
    right = verdict(again.text, answer.query.answers)
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
