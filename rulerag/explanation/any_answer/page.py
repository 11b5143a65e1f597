"""An explained answer as one HTML page that opens offline, and as a fragment for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rulerag.explanation.any_answer.records import Explained, ExplainedClaim
from rulerag.explanation.any_answer.words import claim_lines, what_was_shown
from rulerag.explanation.views import Link, Picture, rendered, rule_flow_picture


def page(explained: Explained) -> str:
    """A whole page: answer, claims and documents, with nothing fetched from elsewhere."""
    return _rendered("why.html.j2", explained)


def fragment(explained: Explained) -> str:
    """The same without a page around it."""
    return _rendered("why_fragment.html.j2", explained)


def flow(explained: Explained) -> Picture:
    """What the claims rest on and what speaks against them, and the rules that found it."""
    rules = list(dict.fromkeys(rule for one in explained.documents for rule in one.rules))
    links = [
        Link(rules.index(rule), place, "found")
        for place, document in enumerate(explained.documents)
        for rule in document.rules
    ]
    for place, claim in enumerate(explained.claims):
        against = {index for one in claim.spoilers for index in one.documents}
        links += [Link(index, place, "drives") for index in claim.sources]
        links += [Link(index, place, "against") for index in sorted(against)]
    return rule_flow_picture(
        rules,
        [document.called for document in explained.documents],
        [claim.text for claim in explained.claims],
        links,
        title="Which documents drive which claim",
    )


def _rendered(template: str, explained: Explained) -> str:
    claims = [_claim(claim, explained) for claim in explained.claims]
    roles: dict[int, list[str]] = {document.index: [] for document in explained.documents}
    for number, claim in enumerate(explained.claims, start=1):
        against = {index for one in claim.spoilers for index in one.documents}
        for index in claim.sources:
            roles[index].append(f"claim {number} rests on it")
        for index in sorted(against):
            roles[index].append(f"speaks against claim {number}")
    return rendered(
        __package__,
        template,
        explained=explained,
        pieces=list(_pieces(explained)),
        claims=claims,
        roles=roles,
        shown=what_was_shown(explained),
        whole=template == "why.html.j2",
        flow=flow(explained).to_html() if explained.claims and explained.documents else "",
    )


def _claim(claim: ExplainedClaim, explained: Explained) -> dict[str, Any]:
    return {"claim": claim, "lines": claim_lines(claim, explained)}


def _pieces(explained: Explained) -> Iterator[tuple[str, int | None, ExplainedClaim | None]]:
    """The answer in order, as texts with the number of the claim that each is, if any."""
    position = 0
    for number, claim in enumerate(explained.claims, start=1):
        if claim.start is None or claim.end is None or claim.start < position:
            continue
        if explained.text[position : claim.start]:
            yield explained.text[position : claim.start], None, None
        yield explained.text[claim.start : claim.end], number, claim
        position = claim.end
    if explained.text[position:]:
        yield explained.text[position:], None, None
