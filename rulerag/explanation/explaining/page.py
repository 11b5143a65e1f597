"""An explained answer as blocks of a page: alone, in a notebook, or one of many in a report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rulerag.explanation.attribution import Attribution, KeywordFit, Region, keyword_spans
from rulerag.explanation.explaining.records import ExplainedClaim, Explanation
from rulerag.explanation.explaining.text import (
    claim_heading,
    claim_lines,
    rule_aliases,
    what_was_shown,
    why_lines,
)
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.units import Passage
from rulerag.text import contains_answer, shortened
from rulerag.views import (
    AnswerText,
    Block,
    Highlights,
    Kind,
    Link,
    Mark,
    MarkedText,
    Node,
    Page,
    Picture,
    Piece,
    Section,
    Table,
    Text,
    bars_picture,
    flow_picture,
    lattice_picture,
    percent,
    shaded,
)

_ACCEPTED, _SEARCHES, _SETS, _FEWEST, _MOST = 3, 3, 100, 2, 5
"""Accepted answers and searches that are named, sets in a table, documents of a lattice."""
_ANCHOR = "rulerag-d"
_TAGS: dict[Kind, str] = {
    "enough": "enough alone",
    "part": "enough with others",
    "against": "speaks against it",
    "needed": "needed",
}


def page(explanation: Explanation) -> Page:
    """A page of one answer, which fetches nothing."""
    return Page(explanation.question, explanation_blocks(explanation))


def explanation_blocks(explanation: Explanation, anchor: str = _ANCHOR) -> tuple[Block, ...]:
    """Notes, the answer, what its claims rest on, how sure that is, and pictures of it.

    Args:
        explanation: what was found.
        anchor: the beginning of the ids of its documents, one for each answer of a page.
    """
    blocks: list[Block] = [Text(explanation.notes, "note")] if explanation.notes else []
    blocks.append(_answer(explanation, anchor))
    blocks += [Text((line,), "small") for line in [accepted_line(explanation)] if line]
    if explanation.regions is not None:
        blocks += _region_blocks(explanation)
    else:
        blocks += _claim_blocks(explanation)
        blocks.append(context(explanation, anchor=anchor))
        if explanation.claims and explanation.documents:
            blocks.append(flow(explanation))
        blocks += [one for claim in explanation.claims for one in _pictures(claim, explanation)]
    blocks += _pipeline_blocks(explanation)
    return tuple(blocks)


def accepted_line(explanation: Explanation) -> str:
    """For a wrong answer, the accepted ones and where they stand; else nothing."""
    if explanation.right is not False:
        return ""
    accepted = explanation.accepted
    holding = [one.label for one in explanation.documents if contains_answer(one.text, accepted)]
    where = f"stands in {', '.join(holding)}" if holding else "stands in no document that was read"
    more = f" or {len(accepted) - _ACCEPTED} others" if len(accepted) > _ACCEPTED else ""
    return f"Accepted: {', '.join(accepted[:_ACCEPTED])}{more}; it {where}."


def plain_rule(text: str) -> str:
    """A rule without brackets: ``Entity 1 advises Entity 2 → Entity 1 works at Entity 2``."""
    body, leads, head = text.partition(" leads to ")
    if not leads:
        return text
    sides = (one.replace("] and [", " and ").strip("[]").replace(", ", " ") for one in (body, head))
    return " → ".join(sides)


# --- pictures ----


def flow(explanation: Explanation) -> Picture:
    """What the claims rest on and what speaks against them, and the rules that found it."""
    documents, aliases = explanation.documents, rule_aliases(explanation)
    texts = {rule.id: rule.text for rule in explanation.rules}
    finders = [_finders(document) for document in documents]
    rules = list(dict.fromkeys(rule for several in finders for rule in several))
    nodes = [
        Node(plain_rule(texts.get(rule, rule)), aliases.get(rule, ""))
        if rule
        else Node("the question alone")
        for rule in rules
    ]
    links = [
        Link(0, rules.index(rule), n, "found") for n, one in enumerate(finders) for rule in one
    ]
    for place, claim in enumerate(explanation.claims):
        links += [Link(1, index, place, "drives") for index in claim.sources]
        links += [Link(1, index, place, "against") for index in _against(claim)]
    return flow_picture(
        {
            "rules": nodes if any(rules) else [],
            "documents": [Node(document.called) for document in documents],
            "claims": [Node(claim.text or "(no answer)") for claim in explanation.claims],
        },
        links if any(rules) else [link for link in links if link.column],
        title="Which documents drive which claim",
        idle="no claim rests on it",
    )


def context(
    explanation: Explanation, claim: int | None = None, anchor: str = _ANCHOR
) -> Highlights:
    """The documents, or their parts, with what they are to one claim, or to each.

    Args:
        explanation: what was found.
        claim: its place; None for all of them.
        anchor: the beginning of the ids of the documents.
    """
    places = range(len(explanation.claims)) if claim is None else [claim]
    several = len(places) > 1
    kinds: dict[int, dict[Kind, list[int]]] = {}
    for place in places:
        for index, kind in _kinds(explanation.claims[place]):
            kinds.setdefault(index, {}).setdefault(kind, []).append(place + 1)

    def marks(index: int) -> list[Mark]:
        roles = []
        for kind, claims in kinds.get(index, {}).items():
            of = f"claim{'s' if len(claims) > 1 else ''} {', '.join(map(str, claims))}: "
            roles.append(Mark(0, 0, kind, f"{of if several else ''}{_TAGS[kind]}"))
        return roles

    about = "each claim rests" if several else "the claim rests"
    title = f"What {about} on" if explanation.claims else "The documents"
    return Highlights(title, tuple(_texts(explanation, marks, anchor)))


def shades(explanation: Explanation, values: Attribution, claim: str) -> Highlights:
    """The documents shaded by how much they count for one claim.

    Args:
        explanation: what was found.
        values: a number for each document with a text.
        claim: in words.
    """
    marks, legend = shaded(values.values, values.errors)
    by_place = dict(zip(_with_text(explanation), marks, strict=True))
    texts = _texts(explanation, lambda index: [one for one in [by_place.get(index)] if one], "")
    title = f"How much each document counts for “{claim}”"
    note = f"The number is its value ({values.method}); what has no mark counts less."
    return Highlights(title, tuple(texts), note, legend)


def bars(explanation: Explanation, values: Attribution, claim: str) -> Picture:
    """The same numbers as bars."""
    names = [explanation.documents[place].called for place in _with_text(explanation)]
    title = f"How much each document counts for “{claim}” ({values.method})"
    return bars_picture(names, values.values, errors=values.errors, title=title)


def exact_lattice(claim: ExplainedClaim, explanation: Explanation) -> Picture | None:
    """Which subsets of the few documents that matter make a claim.

    None where not every subset is decided by an exact set, or too few documents matter, or many.
    """
    sets = (*claim.retention, *claim.omission)
    places = sorted(set[int]().union(*sets))
    certain = claim.complete and explanation.complete and all(s.certificate.always for s in sets)
    if not (certain and _FEWEST <= len(places) <= _MOST):
        return None
    enough, needed = (
        [mask_of(places.index(index) for index in one) for one in family]
        for family in (claim.retention, claim.omission)
    )
    values = {}
    for mask in range(1 << len(places)):
        values[mask] = any(one & ~mask == 0 for one in enough)
        if values[mask] == any(one & mask == 0 for one in needed):
            return None
    documents = [explanation.documents[place] for place in places]
    title = f"Which documents are enough for “{claim.text}”"
    picture = lattice_picture([one.called for one in documents], values, enough, title=title)
    numbers = ", ".join(f"{number} is {one.label}" for number, one in enumerate(documents, 1))
    rest = len(_with_text(explanation)) - len(places)
    others = f" The other {rest} make no difference." if rest else ""
    return replace(picture, note=f"From all kept (top) to none (bottom): {numbers}.{others}")


# --- parts of the page ----


def _answer(explanation: Explanation, anchor: str) -> AnswerText:
    parts = []
    for claim in explanation.claims:
        labels = [(explanation.documents[n].label, f"{anchor}{n + 1}") for n in claim.sources]
        style = "unsupported" if claim.unsupported else "claim"
        labels = [(" no source", "")] if claim.unsupported else labels
        parts.append((claim.start, claim.end, Piece("", style, tuple(labels))))
    return AnswerText.of(explanation.text, parts, explanation.verdict)


def _claim_blocks(explanation: Explanation) -> Iterator[Block]:
    """What each claim rests on, in words and set by set, and on what all of it stands."""
    for claim in explanation.claims:
        lines = Text(tuple(claim_lines(claim, explanation)), "list")
        yield Section(claim_heading(claim), (lines,), "card")
    if not explanation.claims:
        yield Text(("The answer says nothing that could rest on a document.",))
    basis = what_was_shown(explanation).splitlines()
    if explanation.empty:
        basis.append(f"Without any document: “{shortened(explanation.empty, 160)}”")
    yield Text(tuple(filter(None, (*basis, explanation.chain))), "small")
    rows = list(_set_rows(explanation))
    if rows:
        note = f"The first {_SETS} of {len(rows):,} sets." if len(rows) > _SETS else ""
        headings = ("claim", "documents", "shown on", "answer then")
        table = Table(headings, tuple(rows[:_SETS]), note)
        yield Section("Every set of documents, with what was shown about it", (table,), "folded")


def _set_rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    for number, claim in enumerate(explanation.claims, start=1):
        for family, verb in ((claim.retention, "stays with"), (claim.omission, "goes without")):
            for one in sorted(family, key=len):
                labels = ", ".join(explanation.documents[n].label for n in sorted(one))
                output = "–" if one.output is None else one.output or "(nothing)"
                then = output if family is claim.omission else ""
                yield f"{number} {verb}", labels or "nothing", str(one.certificate), then


def _pictures(claim: ExplainedClaim, explanation: Explanation) -> Iterator[Block]:
    lattice = exact_lattice(claim, explanation)
    if lattice is not None:
        yield lattice
    for values in claim.attributions:
        yield bars(explanation, values, claim.text)
        marked = shades(explanation, values, claim.text)
        yield Section(f"{values.method} in the documents", (marked,), "folded")


def _region_blocks(explanation: Explanation) -> Iterator[Block]:
    """The text with the parts that are enough, the words that they need, and a model's keywords."""
    regions, fit = explanation.regions, explanation.keywords
    if regions is None:
        return
    yield Text(tuple(why_lines(explanation)[len(explanation.notes) :]), "list")
    marks: dict[int, list[Mark]] = {document.index: [] for document in explanation.documents}

    def mark(spans: Sequence[tuple[int, int, int]], kind: Kind, tag: str) -> None:
        for number, (place, start, end) in enumerate(spans):
            marks[place].append(Mark(start, end, kind, f"{tag}, goes on" if number else tag))

    for number, region in enumerate(regions.regions, start=1):
        mark(region.spans, "enough", f"region {number}: enough alone")
        for group in region.keywords:
            mark(group.spans, "needed", "needed")
    words = [keyword for keyword, _ in fit.keywords] if fit else []
    texts = []
    for one in explanation.documents:
        bold = [Mark(*span, "keyword") for span in keyword_spans(one.text, words)]
        texts.append(MarkedText(one.label, _title(one), one.text, (*marks[one.index], *bold)))
    yield Highlights("What is enough, and what it needs", tuple(texts))
    if fit is not None and fit.regions:
        yield _fit_table(regions.regions, fit)


def _fit_table(regions: Sequence[Region], fit: KeywordFit) -> Table:
    rows = []
    for number, (region, score) in enumerate(zip(regions, fit.regions, strict=True), start=1):
        shares = (score.sufficient, score.necessary, score.mean)
        words = ("not defined" if share is None else percent(share) for share in shares)
        rows.append((f"{number}. {shortened(region.text, 80)}", *words))
    headings = ("region", "a keyword in it", "necessary groups with a keyword", "mean of both")
    return Table(headings, tuple(rows), "How the keywords that the model named fit each region.")


def _pipeline_blocks(explanation: Explanation) -> Iterator[Block]:
    """The rules that guided the search, and what the documents state."""
    if explanation.rules:
        lines = [
            f"{rule.alias} {plain_rule(rule.text)}" + (f" ({rule.quality})" if rule.quality else "")
            for rule in explanation.rules
        ]
        many = "" if len(lines) == 1 else "s"
        note = "Confidence: of the cases in which the left side held, the share in which the right "
        note += "side held too. Support: how many these were."
        blocks = (Text((note,), "small"), Text(tuple(lines), "list"))
        yield Section(f"{len(lines)} rule{many} that guided the search", blocks, "folded")
    if explanation.statements:
        yield Section("Stated", (Text(explanation.statements, "list"),), "folded")


# --- documents ----


def _kinds(claim: ExplainedClaim) -> Iterator[tuple[int, Kind]]:
    """What the documents are to a claim; the strongest of what excludes each other first."""
    for index in claim.sources:
        yield index, "enough" if frozenset({index}) in claim.retention else "part"
        if all(index in one for one in claim.retention):
            yield index, "needed"
    for index in _against(claim):
        yield index, "against"


def _against(claim: ExplainedClaim) -> list[int]:
    return sorted({index for one in claim.spoilers for index in one.documents})


def _with_text(explanation: Explanation) -> list[int]:
    """The documents that can count."""
    return [one.index for one in explanation.documents if one.text.strip()]


def _texts(
    explanation: Explanation, marks: Callable[[int], list[Mark]], anchor: str
) -> Iterator[MarkedText]:
    """Each document with its marks; neighbouring parts of one as one text."""
    notes = _notes(explanation)
    ids = [f"{anchor}{number}" if anchor else "" for number in range(1, len(notes) + 1)]
    for _, group in itertools.groupby(explanation.documents, key=_whole):
        parts, text, highlights = list(group), "", list[Mark]()
        for before, one in zip([None, *parts], parts, strict=False):
            if before is not None:
                gap = one.spans[0][1] - before.spans[0][2]
                text += "" if gap <= 0 else " " if gap == 1 else "\n"
            start, text = len(text), text + one.text
            place = ids[one.index] if len(parts) > 1 else ""
            for mark in marks(one.index):
                highlights.append(replace(mark, start=start, end=len(text), anchor=place))
                place = ""
        first = parts[0]
        yield MarkedText(
            first.label if len(parts) == 1 else f"[{str(first.part).partition('.')[0]}]",
            _title(first),
            text,
            tuple(highlights),
            "; ".join(dict.fromkeys(note for one in parts for note in notes[one.index])),
            ids[first.index] if len(parts) == 1 else "",
        )


def _title(document: Passage) -> str:
    return document.title or document.id


def _whole(one: Passage) -> tuple[str, int]:
    """What neighbouring parts of a document share; a whole document and a group are alone."""
    if len(one.spans) == 1 and one.level not in (None, "group", "document"):
        return "part", one.spans[0][0]
    return "whole", one.index


def _notes(explanation: Explanation) -> dict[int, list[str]]:
    """What each document is to the claims, and what found it, in words."""
    notes: dict[int, list[str]] = {document.index: [] for document in explanation.documents}
    for number, claim in enumerate(explanation.claims, start=1):
        for index in claim.sources:
            notes[index].append(f"claim {number} rests on it")
        for index in _against(claim):
            notes[index].append(f"speaks against claim {number}")
    aliases = rule_aliases(explanation)
    for document in explanation.documents:
        words = notes[document.index]
        if not words:
            words.append("no claim rests on it")
        words += [f"wanted by the scorer {reason}" for reason in document.reasons[:1]]
        searches = [
            f"{aliases.get(hit.rule, hit.rule) if hit.rule else 'the question'} (rank {hit.rank}, "
            f"score {hit.score:.4g})"
            for hit in document.found_by
        ]
        more = [f"{len(searches) - _SEARCHES} more"] if len(searches) > _SEARCHES else []
        words += [f"found by {', '.join([*searches[:_SEARCHES], *more])}"] if searches else []
    return notes


def _finders(document: Passage) -> list[str]:
    """The rules that found a document, and an empty one where the question did."""
    alone = any(hit.rule is None for hit in document.found_by)
    return [*document.rules, *([""] if alone else [])]
