"""The pictures of one explained answer: what found what, which documents are enough, values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rulerag.explanation.lattice import mask_of
from rulerag.explanation.records import DocumentTrace, document_of, strongest
from rulerag.explanation.views import (
    Link,
    Picture,
    bars_picture,
    lattice_picture,
    rule_flow_picture,
)
from rulerag.explanation.wording import in_words, shortened

if TYPE_CHECKING:
    from rulerag.explanation.report.narrative import AnswerExplanation

Part = Literal["supporting", "removable", "idle"]
_IDLE_DRAWN = 4
_FEWEST, _MOST = 2, 5  # sources of a lattice whose cells have room for their names
_QUOTED = 90


def parts_played(explanation: AnswerExplanation) -> dict[str, Part]:
    """What each document does, by its short name.

    Sentences and words count for the document that they are in; rules that were not shown to hold
    count for nothing.

    Returns:
        ``supporting`` (in a set that is enough), ``removable`` (only in a set without which the
        answer goes) or ``idle``.
    """
    known = [document.alias for document in explanation.documents]
    played: dict[str, Part] = dict.fromkeys(known, "idle")
    families: tuple[tuple[Part, tuple[str, ...]], ...] = (
        ("removable", tuple(n for r in strongest(explanation.omitted) for n in r.names)),
        ("supporting", tuple(n for r in strongest(explanation.retained) for n in r.names)),
    )
    for part, names in families:
        played |= {alias: part for alias in map(document_of, names) if alias in played}
    return played


def called(document: DocumentTrace) -> str:
    """A document by its short name, its title and the first words of its text."""
    quote = f"“{shortened(document.text, _QUOTED)}”" if document.text.strip() else "(empty)"
    return " ".join(part for part in (document.alias, document.title, quote) if part)


def plain_rule(text: str) -> str:
    """A rule without brackets: ``Entity 1 advises Entity 2 → Entity 1 works at Entity 2``."""
    body, leads, head = text.partition(" leads to ")
    if not leads:
        return text
    return " → ".join(
        side.replace("] and [", " and ").strip("[]").replace(", ", " ") for side in (body, head)
    )


def flow_of(explanation: AnswerExplanation) -> Picture | None:
    """Which rule found which document, and which documents the answer rests on.

    Documents that make no difference are pale, and few of them are drawn. None without documents.
    """
    if not explanation.documents:
        return None
    texts = {rule.alias: f"{rule.alias} {plain_rule(rule.text)}" for rule in explanation.rules}
    found = [name for document in explanation.documents for name in document.rules]
    finders = [name for name in texts if name in found]
    finders += [name for name in dict.fromkeys(found) if name is not None and name not in texts]
    words = [texts.get(name, f"{name}, which is not among the guiding rules") for name in finders]
    places: dict[str | None, int] = {name: place for place, name in enumerate(finders)}
    if None in found and finders:  # a column that says nothing but "the question" is left out
        places[None] = len(words)
        words.append("the question alone")
    played = parts_played(explanation)
    links = []
    for number, document in enumerate(explanation.documents):
        links += [Link(places[name], number, "found") for name in document.rules if name in places]
        if played[document.alias] != "idle":
            links.append(Link(number, 0, "drives"))
    contributors = sum(part != "idle" for part in played.values())
    return rule_flow_picture(
        words,
        [called(document) for document in explanation.documents],
        [explanation.answer or "(no answer)"],
        links,
        title="From rule to document to answer",
        most=contributors + _IDLE_DRAWN,
    )


def lattice_of(explanation: AnswerExplanation) -> Picture | None:
    """Which subsets of the sources that matter give the answer.

    Only where every subset is decided by a rule: exact rules of both kinds that fit each other.
    Sources in no rule change nothing there, so that they are left out. None where not every subset
    is decided, and where fewer than two sources or more than five matter.
    """
    if explanation.duality is None or not explanation.duality.dual:
        return None
    if not all(r.certificate.always for r in (*explanation.retained, *explanation.omitted)):
        return None
    enough = [frozenset(rule.names) for rule in explanation.retained]
    names = [name for name in explanation.sources if any(name in one for one in enough)]
    if not _FEWEST <= len(names) <= _MOST:
        return None
    place = {name: index for index, name in enumerate(names)}
    minimal = [mask_of(place[name] for name in one) for one in enough]
    values = {mask: any(one & ~mask == 0 for one in minimal) for mask in range(1 << len(names))}
    documents = {document.alias: called(document) for document in explanation.documents}
    picture = lattice_picture([documents.get(n, n) for n in names], values, minimal)
    idle = len(explanation.sources) - len(names)
    return _noted(picture, names, idle)


def _noted(picture: Picture, names: list[str], idle: int) -> Picture:
    """The picture, saying what its numbers are and what is left out."""
    numbers = ", ".join(f"{number} is {name}" for number, name in enumerate(names, start=1))
    note = f"From all kept (top) to none (bottom): {numbers}."
    if idle:
        which = "source makes" if idle == 1 else "sources make"
        note += f" {in_words(idle).capitalize()} further {which} no difference in any of these."
    return replace(picture, note=note)


def bars_of(explanation: AnswerExplanation) -> tuple[Picture, ...]:
    """What each source counts, a picture for each attribution that was asked for."""
    documents: Mapping[str, str] = {one.alias: called(one) for one in explanation.documents}
    return tuple(
        bars_picture(
            [documents.get(name, name) for name in one.names],
            one.values,
            errors=one.errors,
            title=f"How much each document counts: {one.method}",
        )
        for one in explanation.attributions
    )
