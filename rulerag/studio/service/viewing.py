"""What is shown in words: an explanation in sentences, and what two answers differ in."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

from rulerag.explanation.any_answer import (
    DocumentSet,
    Explained,
    ExplainedClaim,
    claim_lines,
    what_was_shown,
)
from rulerag.explanation.probing import OutputPredicate
from rulerag.io import fingerprint_object
from rulerag.studio.service.records import ClaimView, Goal, Rule, SourceMove
from rulerag.studio.systems import Source

_NOISE = "The answers vary:"
_WORDS = re.compile(r"\s*\S+|\s+")
_MOST_WORDS = 2_000
Part = tuple[Literal["same", "added", "removed"], str]


def claims_of(
    explained: Explained, goal: Goal, condition: OutputPredicate | None
) -> tuple[ClaimView, ...]:
    """What each claim, or the target condition, rests on."""
    target = str(condition) if goal == "target" and condition is not None else ""
    return tuple(_claim(one, explained, target) for one in explained.claims)


def notes_of(explained: Explained, goal: Goal) -> tuple[str, ...]:
    """What has to be known first.

    A condition that the whole prompt does not meet is no noise: there is just no rule.
    """
    never = goal == "target" and all(one.stable == 0 for one in explained.claims)
    return tuple(note for note in explained.notes if not (never and note.startswith(_NOISE)))


def shown_of(explained: Explained) -> str:
    """On what all of it stands, and what it cost."""
    return what_was_shown(explained)


def _claim(claim: ExplainedClaim, explained: Explained, target: str) -> ClaimView:
    names = [
        _name(one.title or textwrap.shorten(one.text, 60, placeholder="…"), place)
        for place, one in enumerate(explained.documents, start=1)
    ]
    what = f"{target}" if target else f"the answer says “{claim.text}”"
    against = [
        line for line in claim_lines(claim, explained) if line.startswith("speaks against it")
    ]
    return ClaimView(
        text=target or claim.text,
        start=claim.start,
        end=claim.end,
        enough=tuple(_rule(one, _enough(one, names, what)) for one in claim.retention),
        gone=tuple(_rule(one, _gone(one, names, what)) for one in claim.omission),
        against=tuple(against),
        complete=claim.complete,
    )


def _rule(one: DocumentSet, sentence: str) -> Rule:
    return Rule(
        sources=tuple(sorted(one)),
        sentence=sentence,
        certificate=str(one.certificate),
        output=one.output,
    )


def _enough(one: DocumentSet, names: Sequence[str], what: str) -> str:
    if not one:
        return f"Even without any source {what}, whatever is read."
    verb = "is" if len(one) == 1 else "are"
    return f"Whenever {_listed(one, names)} {verb} read, {what}, whatever else is read."


def _gone(one: DocumentSet, names: Sequence[str], what: str) -> str:
    if not one:
        return f"With no choice of these sources: {what}."
    return f"Without {_listed(one, names)} it never comes that {what}."


def _listed(one: DocumentSet, names: Sequence[str]) -> str:
    parts = [names[place] for place in sorted(one)]
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _name(title: str, place: int) -> str:
    return f"source {place} (“{title}”)" if title else f"source {place}"


def word_changes(before: str, now: str) -> tuple[Part, ...]:
    """What two answers share and what is new or gone, in reading order.

    Args:
        before: the one answer.
        now: the other; the parts that are not ``removed`` make it up.
    """
    old, new = (_WORDS.findall(text) for text in (before, now))
    if max(len(old), len(new)) > _MOST_WORDS:  # the comparison is quadratic
        return (("same", now),) if old == new else (("removed", before), ("added", now))
    parts: list[Part] = []
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(("same", "".join(new[k:m])))
            continue
        if i < j:
            parts.append(("removed", "".join(old[i:j])))
        if k < m:
            parts.append(("added", "".join(new[k:m])))
    return tuple(parts)


def remembered(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Sources whose texts are fingerprints: enough to tell later what was changed."""
    return tuple(one.model_copy(update={"text": fingerprint_object(one.text)}) for one in sources)


def source_moves(before: Sequence[Source], now: Sequence[Source]) -> tuple[SourceMove, ...]:
    """The sources that are read at another place than before, with another text, or no more.

    Args:
        before: what was read, as it is or :func:`remembered`.
        now: what is read, likewise.
    """
    old = {one.id: (place, one) for place, one in enumerate(before, start=1)}
    new = {one.id: (place, one) for place, one in enumerate(now, start=1)}
    moves = []
    for name in dict.fromkeys((*new, *old)):
        was, source = old.get(name), new.get(name)
        here = (source or was or (0, None))[1]
        assert here is not None  # noqa: S101 - it stands in one of the two
        places = None if was is None else was[0], None if source is None else source[0]
        edited = bool(was and source and was[1].text != source[1].text)
        if places[0] != places[1] or edited:
            moves.append(
                SourceMove(
                    title=here.title or here.id, before=places[0], now=places[1], edited=edited
                )
            )
    return tuple(moves)
