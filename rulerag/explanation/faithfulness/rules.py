"""Whether the mined rule that an answer claims is the one whose documents it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from rulerag.explanation.records import document_of, strongest
from rulerag.explanation.report import REST, AnswerExplanation
from rulerag.types import Answer


@dataclass(frozen=True, slots=True)
class FaithfulnessSummary:
    """The mean rule faithfulness of some answers.

    Args:
        mean: the mean score; None when no answer can be compared.
        compared: how many answers it is of.
        right: how many of these are accepted answers.
        wrong: how many are not; the others have no accepted answer to compare with.
    """

    mean: float | None
    compared: int
    right: int
    wrong: int

    def __str__(self) -> str:
        """The mean per cent, and beside it how many of the answers are wrong."""
        if self.mean is None:
            return "rule faithfulness: no answer can be compared"
        unknown = self.compared - self.right - self.wrong
        words = ("right", "wrong", "without an accepted answer to compare with")
        numbers = zip((self.right, self.wrong, unknown), words, strict=True)
        parts = ", ".join(f"{number} {word}" for number, word in numbers if number)
        answers = f"{self.compared} answer{'' if self.compared == 1 else 's'}"
        return (
            f"rule faithfulness {100 * self.mean:.1f} % of {answers} ({parts}): how often the "
            "rule that an answer claims found what it needs, whether or not the answer is right"
        )


def claimed_rules(answer: Answer) -> tuple[str, ...]:
    """The mined rules that an answer says it follows.

    Those that the generator names with its best candidate; otherwise the first guiding rule, the
    one that the pipeline ranked highest.
    """
    candidates = answer.completion.candidates
    if candidates and candidates[0].rule_ids:
        return candidates[0].rule_ids
    return tuple(rule.id for rule in answer.rules[:1])


def rule_faithfulness(explanation: AnswerExplanation, claimed: Iterable[str]) -> float | None:
    """The share of an answer's minimal retention rules all of whose documents a claimed rule found.

    An answer that stands whatever is removed needs no document, and so no rule: nothing is
    compared, and nothing is with retention rules that were not shown to hold. Sentences and words
    count for their documents; documents that were kept or removed as one count as found by a rule
    when it found all of them.

    Args:
        explanation: the explanation of the answer.
        claimed: ids of mined rules, for example from :func:`claimed_rules`.

    Returns:
        None when there is no such rule or no claim, so that nothing can be compared.
    """
    ids = {trace.alias: trace.id for trace in explanation.rules}
    of_document = {
        document.alias: {ids.get(rule, rule) for rule in document.rules if rule is not None}
        for document in explanation.documents
    }
    names = (*explanation.sources, *explanation.together)
    found_by = {name: of_document.get(document_of(name), set()) for name in names}
    together = [found_by[name] for name in explanation.together]
    found_by[REST] = set.intersection(*together) if together else set()
    claims = set(claimed)
    rules = [rule.names for rule in strongest(explanation.retained) if rule.names]
    if not (rules and claims):
        return None
    return fmean(all(found_by[name] & claims for name in names) for names in rules)


def mean_rule_faithfulness(
    explained: Iterable[tuple[Answer, AnswerExplanation]],
) -> FaithfulnessSummary:
    """The mean score of many answers, and how many of those compared are right or wrong."""
    scored = [
        (rule_faithfulness(explanation, claimed_rules(answer)), explanation.right)
        for answer, explanation in explained
    ]
    scores = [score for score, _ in scored if score is not None]
    rights = [right for score, right in scored if score is not None]
    mean = fmean(scores) if scores else None
    return FaithfulnessSummary(mean, len(scores), rights.count(True), rights.count(False))
