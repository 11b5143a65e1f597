"""Whether an answer rests on its documents, and on the rule that it claims.

The claims of any answer are looked at by asking again without documents; of an answer of ours, also
whether the mined rule that it names is the one whose documents it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import fmean

from rulerag.explanation.explaining import ExplainedClaim, Explanation, claim_lines
from rulerag.explanation.records import Record
from rulerag.text import shortened
from rulerag.types import Answer


@dataclass(frozen=True)
class ClaimFaithfulness(Record):
    """How much of an answer rests on retrieved documents.

    Args:
        score: the share of its claims that do, from 0 to 1; None where it makes no claim.
        reason: each claim and what it rests on, in words.
    """

    score: float | None
    reason: str


def rests_on_documents(claim: ExplainedClaim) -> bool:
    """Whether a retention rule of at least one document was shown for a claim.

    A set of documents is such a rule when the claim is made with all of them, whatever else is
    there (Rorseth et al. 2025, arXiv:2510.22689, Definition 6), for every subset or, where subsets
    are drawn at random, with the certificate that the explanation asks for. A claim that is made
    without any document rests on none, even where a document says the same.
    """
    shown = any(one and one.certificate.valid for one in claim.retention)
    return shown and not claim.unsupported


def claim_faithfulness(explained: Explanation, anyway: Collection[int] = ()) -> ClaimFaithfulness:
    """The share of an answer's claims that rest on retrieved documents.

    It says what the system did: :func:`rests_on_documents` asks whether the documents decide that
    a claim is made, not whether they say so, which measures of entailment judge. It is another
    thing than :func:`~rulerag.explanation.faithfulness.rule_faithfulness`, which asks whether the
    mined rule that an answer names found these documents.

    A system may say what it knows as soon as there is any document, and nothing without one: then
    each document alone is a retention rule, and none of them matters. Such claims are known by
    asking with documents that say nothing of the question (``anyway``), and rest on none.

    Refusals are no claims. A claim that is not made again with all documents rests on none, and so
    does one whose sets are untested or were refuted, because budget or time was up or the system
    is too noisy; the reason says which.

    Args:
        explained: an explained answer, ``rulerag.explain(…).explanation``.
        anyway: places of the claims that are also made with documents that say nothing of the
            question.
    """
    claims = {n: claim for n, claim in enumerate(explained.claims) if not claim.refusal}
    if not claims:
        return ClaimFaithfulness(None, "The answer makes no claim that could rest on a document.")
    resting = {n for n, c in claims.items() if rests_on_documents(c) and n not in anyway}
    verb = "rests" if len(resting) == 1 else "rest"
    count = f"{len(resting)} of {len(claims)} claims {verb} on retrieved documents."
    lines = [*explained.notes, count]
    for n, claim in claims.items():
        why = _why(claim, explained, anyway=n in anyway, rests=n in resting)
        lines.append(f"“{shortened(claim.text, 200).rstrip('.')}” {why}")
    return ClaimFaithfulness(len(resting) / len(claims), " ".join(lines))


def _why(claim: ExplainedClaim, explained: Explanation, *, anyway: bool, rests: bool) -> str:
    if not claim.stable:
        return "is not said again with all documents."
    if claim.unsupported or rests or not claim.retention:
        return claim_lines(claim, explained)[0]
    if anyway:
        return "is said with documents about something else, too."
    return "may rest on documents, but the sets found were refuted or not tested."


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
        if one and one.certificate.valid
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
