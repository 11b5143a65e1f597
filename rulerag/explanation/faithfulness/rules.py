"""Whether the mined rule that an answer claims is the one whose documents it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from rulerag.explanation.explaining import Explanation
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


def rule_faithfulness(explanation: Explanation, claimed: Iterable[str]) -> float | None:
    """The share of an answer's minimal retention sets all of whose documents a claimed rule found.

    An answer that stands whatever is removed needs no document, and so no rule: nothing is
    compared, and nothing is with sets that were not shown to hold. Parts of documents count for
    their documents.

    Args:
        explanation: the explanation of the answer.
        claimed: ids of mined rules, for example from :func:`claimed_rules`.

    Returns:
        None when there is no such set or no claimed rule, so that nothing can be compared.
    """
    found_by, rules = [set(one.rules) for one in explanation.documents], set(claimed)
    sets = [
        one
        for claim in explanation.claims
        for one in claim.retention
        if one and one.certificate.kind in ("exact", "certified")
    ]
    if not (sets and rules):
        return None
    return fmean(all(found_by[place] & rules for place in one) for one in sets)


def mean_rule_faithfulness(
    explained: Iterable[tuple[Answer, Explanation]],
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
