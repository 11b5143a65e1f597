"""Answers explained by regions as one page: marked text, what it cost, what was not found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.attribution import KeywordFit, RegionExplanation, keyword_spans
from rulerag.explanation.report.narrative import AnswerExplanation
from rulerag.explanation.views import (
    Highlights,
    Kind,
    Mark,
    MarkedText,
    folded_table,
    percent,
    rendered,
)
from rulerag.explanation.wording import in_words, listing, shortened

_LEGEND: tuple[tuple[Kind, str], ...] = (
    ("enough", "a sufficient region: it is enough alone"),
    ("needed", "necessary words: without them it is not"),
    ("keyword", "a keyword that the model named"),
)
_PLACES = {
    "straddles": "stands across the border of two groups or parts, and counts for neither",
    "elsewhere": "stands only in a part that is not enough",
    "absent": "is not in the text",
}
_MOST = 12
"""So many keywords are named in a line."""


def regions_page(
    explanations: Sequence[AnswerExplanation], about: Sequence[tuple[str, str]] = ()
) -> str:
    """One page that opens offline: for each answer its marked text first, then cost and gaps.

    Args:
        explanations: of the explainer ``regions``.
        about: names and values of what the page says about itself.

    Raises:
        ConfigError: there is none, or one explains by rules.
    """
    if not explanations:
        raise ConfigError("there is no explanation to show", key="explanations")
    return rendered(
        __package__,
        "regions.html.j2",
        answers=[_answer(one) for one in explanations],
        about=list(about),
    )


def marked_regions(explanation: AnswerExplanation) -> Highlights:
    """The text of an answer with sufficient regions, necessary words, and the model's keywords.

    Raises:
        ConfigError: it explains by rules.
    """
    regions = _regions(explanation)
    marks: dict[int, list[Mark]] = {}
    for number, region in enumerate(regions.regions, start=1):
        tag = f"region {number}: enough alone"
        for piece in region.pieces:
            marks.setdefault(piece.document, []).append(Mark(piece.start, piece.end, "enough", tag))
            tag = f"region {number} goes on"
        for group in region.keywords:
            for piece in group.pieces:
                tag = "needed" if piece == group.pieces[0] else "needed, goes on"
                needed = Mark(piece.start, piece.end, "needed", tag)
                marks.setdefault(piece.document, []).append(needed)
    named = [word for word, _ in explanation.keywords.keywords] if explanation.keywords else []
    texts = []
    for place, document in enumerate(explanation.documents):
        found = keyword_spans(document.text, named) if named else []
        bold = [Mark(start, end, "keyword") for start, end in found]
        texts.append(
            MarkedText(document.alias, document.id, document.text, (*marks.get(place, ()), *bold))
        )
    kinds = {mark.kind for one in texts for mark in one.marks}
    legend = tuple((kind, words) for kind, words in _LEGEND if kind in kinds)
    return Highlights("What is enough, and what it needs", tuple(texts), legend=legend)


def _regions(explanation: AnswerExplanation) -> RegionExplanation:
    if explanation.regions is None:
        what = f"the answer to {explanation.query_id!r} is explained by rules, not by regions"
        raise ConfigError(what, key="explainer", hint="explain it with the explainer 'regions'")
    return explanation.regions


def _answer(explanation: AnswerExplanation) -> dict[str, Any]:
    regions, fit = _regions(explanation), explanation.keywords
    return {
        "it": explanation,
        "sentence": regions.sentence,
        "context": marked_regions(explanation),
        "cost": _cost(explanation, regions),
        "missing": _missing(regions, fit),
        "score": fit.score if fit else None,
        "tables": _tables(regions, fit) if fit and fit.keywords else [],
    }


def _cost(explanation: AnswerExplanation, regions: RegionExplanation) -> list[str]:
    """What was asked, and how much of what could have been."""
    asked, most = explanation.num_probes, regions.most_probes()
    words = f"{asked:,} request{'' if asked == 1 else 's'}"
    lines = [
        f"{words} in {explanation.seconds:.2f} s: at most {most:,} for {regions.parts} parts of "
        f"{regions.groups} groups (1 for the whole text, {regions.parts} for the parts alone, "
        f"{regions.groups} for each part that is enough, with one group masked in each)."
    ]
    if not regions.complete:
        lines.append("The budget ran out: not every part, or not every group, was asked.")
    return lines


def _missing(regions: RegionExplanation, fit: KeywordFit | None) -> list[str]:
    """What was looked for and not found, in sentences."""
    lines = []
    if not regions.regions:
        lines.append(
            f"No sufficient region: none of the {in_words(regions.parts)} parts that were asked "
            "is enough alone. That is no score of 0: there is nothing to compare with."
            if regions.complete
            else "No sufficient region among the parts that were asked."
        )
    for number, region in enumerate(regions.regions, start=1):
        if not region.keywords:
            asked = "" if regions.complete else " that was asked"
            lines.append(
                f"Region {number} has no necessary words: it stays enough with any one of its "
                f"groups masked{asked}. Its share of necessary groups is not defined."
            )
    if fit is None:
        lines.append("The model named no keywords: its prompt asks for none.")
        return lines
    if not fit.keywords:
        lines.append("The model was asked for keywords and named none.")
    for place, words in _PLACES.items():
        named = [f"“{shortened(word, 60)}”" for word, at in fit.keywords if at == place]
        if named:
            more = len(named) - _MOST
            said = listing([*named[:_MOST], *([f"{more} more"] if more > 0 else [])])
            lines.append(f"{said}: {words}.")
    return lines


def _tables(regions: RegionExplanation, fit: KeywordFit) -> list[str]:
    """How the keywords fit each region, and where each stands."""
    scores = [
        (
            f"{number}. {shortened(region.text, 80)}",
            percent(score.sufficient),
            "not defined" if score.necessary is None else percent(score.necessary),
            "not defined" if score.mean is None else percent(score.mean),
        )
        for number, (region, score) in enumerate(zip(regions.regions, fit.regions, strict=True), 1)
    ]
    headings = ("region", "a keyword in it", "necessary groups with a keyword", "mean of both")
    words = {
        "necessary": "in a necessary group",
        "sufficient": "in a sufficient region, not necessary there",
        **_PLACES,
    }
    placed = [(shortened(keyword, 120), words[place]) for keyword, place in fit.keywords]
    tables: list[str] = [
        folded_table(("keyword", "where it stands"), placed, "Where each keyword stands")
    ]
    if scores:
        tables.insert(0, folded_table(headings, scores, "How the keywords fit each region"))
    return tables
