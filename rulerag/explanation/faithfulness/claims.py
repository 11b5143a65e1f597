"""Whether the claims of any answer rest on retrieved documents, shown by asking again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rulerag.explanation.explaining import ExplainedClaim, Explanation, claim_lines
from rulerag.explanation.records import Record
from rulerag.text import shortened

_SHOWN = ("exact", "certified")


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
    shown = any(one and one.certificate.kind in _SHOWN for one in claim.retention)
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
