"""An explained answer as one HTML page that opens offline, and as a fragment for notebooks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulerag.explanation.any_answer.records import Explained, ExplainedClaim
from rulerag.explanation.any_answer.words import COUNTED, claim_lines, what_was_shown
from rulerag.explanation.levels import Passage
from rulerag.explanation.views import (
    Curve,
    Highlights,
    Kind,
    Link,
    Mark,
    MarkedText,
    Picture,
    certainty_picture,
    percent,
    rendered,
    rule_flow_picture,
    scale_legend,
    shaded,
)
from rulerag.explanation.wording import listing

if TYPE_CHECKING:
    from rulerag.explanation.attribution import Attribution


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


def certainty(explained: Explained) -> Picture:
    """How the guaranteed shares grew with the calls, and when each set was found.

    Raises:
        ConfigError: nothing of it is known, as in records of older versions.
    """
    several = len(explained.claims) > 1
    points: dict[str, list[tuple[int, float]]] = {}
    marks: dict[tuple[int, str], list[str]] = {}
    for one in explained.growth:
        claim = f"claim {(one.claim or 0) + 1}" if several else "the claim"
        named = _labels(one.documents or (), explained)
        if one.share is None:
            what = "against" if one.kind == "against" else "enough for"
            marks.setdefault((one.calls, f"{what} {claim}"), []).append(named)
            continue
        about = {
            "tried": "of all combinations were tried",
            "together": f"of all combinations: the sets found tell if {claim} is made",
            "alone": f"of the combinations that hold {named}: {claim} is made",
        }[one.kind]
        points.setdefault(about, []).append((one.calls, one.share))
    exact = any(one.kind == "tried" for one in explained.growth)
    counted = COUNTED.get(explained.settings.get("subsets", ""), "")
    sampled = (
        f"Shares are of all combinations{counted and f', {counted}'}. Each point by itself is true "
        f"with {percent(explained.settings.get('confidence', 0.95))} confidence; a share "
        "can fall when another combination shows that a set was missing."
    )
    return certainty_picture(
        [Curve(name, tuple(grown)) for name, grown in points.items()],
        [(calls, f"{what}: {'; '.join(sets)}") for (calls, what), sets in marks.items()],
        last=explained.num_calls,
        aim=None if exact else explained.settings.get("validity"),
        note="What was tried is certain."
        if exact
        else sampled
        if points
        else "Nothing was tested.",
    )


def context(explained: Explained, claim: int | None = None) -> Highlights:
    """The documents, or their parts, with what they are to one claim, or to each.

    Args:
        explained: what was found.
        claim: its place; None for all of them.
    """
    chosen = range(len(explained.claims)) if claim is None else [claim]
    several = len(chosen) > 1
    roles: dict[int, dict[Kind, list[int]]] = {}
    for place in chosen:
        for index, kind in _kinds(explained.claims[place]):
            roles.setdefault(index, {}).setdefault(kind, []).append(place + 1)

    def marks(index: int) -> list[Mark]:
        found = []
        for kind, claims in roles.get(index, {}).items():
            of = f"claim{'s' if len(claims) > 1 else ''} {', '.join(map(str, claims))}: "
            found.append(Mark(0, 0, kind, f"{of if several else ''}{_TAGS[kind]}"))
        lowest = [mark for mark in found if mark.kind != "needed"]
        if len(lowest) > 1:  # the strongest is drawn, all are said
            said = "; ".join(mark.tag for mark in lowest)
            found = [replace(lowest[0], tag=said), *(m for m in found if m.kind == "needed")]
        return found

    legend = tuple(
        (kind, words) for kind, words in _LEGEND if any(kind in r for r in roles.values())
    )
    about = "each claim rests" if several else "the claim rests"
    title = f"What {about} on" if explained.claims else "The documents"
    return Highlights(title, tuple(_texts(explained, marks)), legend=legend)


def shades(explained: Explained, values: Attribution, claim: str) -> Highlights:
    """The documents shaded by how much they count for one claim.

    Args:
        explained: what was found.
        values: a number for each document with a text.
        claim: in words.
    """
    places = [one.index for one in explained.documents if one.text.strip()]
    made = dict(zip(places, shaded(values.values, values.errors), strict=True))
    told = dict(zip(places, values.values, strict=True))

    def marks(index: int) -> list[Mark]:
        found = made.get(index)
        return [found] if found else []

    legend = scale_legend(values.values) if any(told.values()) else ()
    title = f"How much each document counts for “{claim}”"
    note = f"The number is its value ({values.method}); what has no mark counts less."
    return Highlights(title, tuple(_texts(explained, marks)), note, legend)


_TAGS: dict[Kind, str] = {
    "enough": "enough alone",
    "part": "enough with others",
    "against": "speaks against it",
    "needed": "needed",
}
_LEGEND: tuple[tuple[Kind, str], ...] = (
    ("enough", "enough alone: with it the claim is made"),
    ("part", "enough together with the others of its set"),
    ("needed", "needed: it stands in every set that was found"),
    ("against", "speaks against it: the claim goes where it is there"),
)


def _kinds(claim: ExplainedClaim) -> Iterator[tuple[int, Kind]]:
    """What the documents are to a claim; the strongest of what excludes each other first."""
    for index in claim.sources:
        yield index, "enough" if frozenset({index}) in claim.retention else "part"
        if all(index in one for one in claim.retention):
            yield index, "needed"
    for index in sorted({index for one in claim.spoilers for index in one.documents}):
        yield index, "against"


def _texts(explained: Explained, marks: Callable[[int], list[Mark]]) -> Iterator[MarkedText]:
    """Each document with its marks; neighbouring parts of one as one text."""
    roles = _roles(explained)
    for _, group in itertools.groupby(explained.documents, key=_whole):
        parts, text, found = list(group), "", list[Mark]()
        for before, one in zip([None, *parts], parts, strict=False):
            if before is not None:
                gap = one.spans[0][1] - before.spans[0][2]
                text += "" if gap <= 0 else " " if gap == 1 else "\n"
            start, text = len(text), text + one.text
            anchor = f"rulerag-d{one.index + 1}" if len(parts) > 1 else ""
            for mark in marks(one.index):
                found.append(replace(mark, start=start, end=len(text), anchor=anchor))
                anchor = ""
        said = dict.fromkeys(role for one in parts for role in roles[one.index])
        first = parts[0]
        yield MarkedText(
            first.label if len(parts) == 1 else f"[{str(first.part).partition('.')[0]}]",
            first.title,
            text,
            tuple(found),
            "; ".join(said) or "no claim rests on it",
            f"rulerag-d{first.index + 1}" if len(parts) == 1 else "",
        )


def _whole(one: Passage) -> tuple[str, int]:
    """What neighbouring parts of a document share; a whole document and a group are alone."""
    if len(one.spans) == 1 and one.level not in (None, "group", "document"):
        return "part", one.spans[0][0]
    return "whole", one.index


def _roles(explained: Explained) -> dict[int, list[str]]:
    """What each document is to the claims, in words."""
    roles: dict[int, list[str]] = {document.index: [] for document in explained.documents}
    for number, claim in enumerate(explained.claims, start=1):
        against = {index for one in claim.spoilers for index in one.documents}
        for index in claim.sources:
            roles[index].append(f"claim {number} rests on it")
        for index in sorted(against):
            roles[index].append(f"speaks against claim {number}")
    return roles


def _labels(documents: Sequence[int], explained: Explained) -> str:
    return listing([explained.documents[index].label for index in documents]) or "no document"


def _rendered(template: str, explained: Explained) -> str:
    claims = [_claim(claim, explained) for claim in explained.claims]
    return rendered(
        __package__,
        template,
        explained=explained,
        pieces=list(_pieces(explained)),
        claims=claims,
        shown=what_was_shown(explained),
        whole=template == "why.html.j2",
        flow=flow(explained) if explained.claims and explained.documents else "",
        context=context(explained),
        certainty=certainty(explained) if explained.growth else "",
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
