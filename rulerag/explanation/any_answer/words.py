"""An explained answer in plain English: what it rests on, becomes, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.explanation.any_answer.records import DocumentSet, Explained, ExplainedClaim
from rulerag.explanation.levels import LEVELS, Passage
from rulerag.explanation.records import percent
from rulerag.explanation.wording import in_words, listing, shortened

_MOST_SETS, _MOST_NAMED = 4, 6


def explained_lines(explained: Explained) -> list[str]:
    """Everything in sentences: notes first, four lines a claim at most, then what was shown."""
    lines = list(explained.notes)
    for claim in explained.claims:
        lines.append(f"“{shortened(claim.text, 200)}”")
        lines += [f"  {line}" for line in claim_lines(claim, explained)]
    if not explained.claims:
        lines.append("The answer says nothing that could rest on a document.")
    lines.append(what_was_shown(explained))
    return [*lines, explained.frozen] if explained.frozen else lines


def claim_lines(claim: ExplainedClaim, explained: Explained) -> list[str]:
    """What one claim rests on, what it becomes, what else is enough, what speaks against it."""
    documents = explained.documents
    if claim.unsupported:
        what = "no answer is given" if claim.refusal else "it is said"
        lines = [f"rests on no document: {what} without any of them, too."]
        if not claim.refusal:
            lines[0] = f"{lines[0][:-1]} (known to the model, or made up)."
        return [*lines, *_against(claim, documents)]
    if not claim.retention:
        if not explained.complete:
            return ["not looked into to the end: budget or time was up before a set was found."]
        return ["no small set of documents was found that is enough for it."]
    first, *others = claim.retention
    lines = [f"rests on {_together(first, documents)}."]
    lines += _becomes(claim, documents)
    if others:
        shown = [_together(one, documents, short=True) for one in others[:_MOST_SETS]]
        more = len(others) - _MOST_SETS
        shown += [f"{in_words(more)} more"] if more > 0 else []
        lines.append(f"also enough: {'; '.join(shown)}.")
    return [*lines, *_against(claim, documents)]


def _becomes(claim: ExplainedClaim, documents: Sequence[Passage]) -> list[str]:
    said = [one for one in claim.omission if one.output is not None]
    if not said:
        return []
    parts = []
    for one in said[:2]:
        labels = [documents[i].label for i in sorted(one)]
        if len(labels) > _MOST_NAMED:
            labels = [*labels[:_MOST_NAMED], f"{len(labels) - _MOST_NAMED} others"]
        names = listing(labels)
        parts.append(f"{_quoted(one.output)} without {names}")
    more = len(claim.omission) - len(parts)
    if more > 0:
        ways = "way takes" if more == 1 else "ways take"
        parts.append(f"{in_words(more)} more {ways} it away")
    return [f"becomes {'; '.join(parts)}."]


def _against(claim: ExplainedClaim, documents: Sequence[Passage]) -> list[str]:
    lines = []
    anyway = [one for one in claim.spoilers if not one.enough]
    if anyway:
        said = [
            f"{listing([documents[i].called for i in one.documents])} alone ({_quoted(one.output)})"
            for one in anyway[:2]
        ]
        more = len(anyway) - len(said)
        said += [f"{in_words(more)} more"] if more > 0 else []
        lines.append(f"is said without any document, too, but not with {listing(said, 'or')}.")
    rest = [one for one in claim.spoilers if one.enough]
    for one in rest[:2]:
        against = listing([documents[i].called for i in one.documents])
        enough = listing([documents[i].label for i in one.enough])
        verb = "is" if len(one.enough) < 2 else "are"
        lines.append(
            f"speaks against it: {against}; with {enough} alone the answer is "
            f"{_quoted(one.output)}, where {enough} {verb} enough otherwise."
        )
    more = len(rest) - 2
    if more > 0:
        word = "combination was" if more == 1 else "combinations were"
        lines.append(f"{in_words(more)} more such {word} seen.")
    return lines


def _together(one: DocumentSet, documents: Sequence[Passage], *, short: bool = False) -> str:
    indices = sorted(one)
    names = [documents[i].label if short else documents[i].called for i in indices]
    if len(names) > _MOST_NAMED:
        names = [*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} others"]
    return names[0] if len(names) == 1 else f"{listing(names)} together"


def _quoted(output: str | None) -> str:
    return f"“{shortened(output, 90)}”" if output and output.strip() else "empty"


def what_was_shown(explained: Explained) -> str:
    """On what all of it stands, what it cost, and what it means that something is left out."""
    shown = _shown(explained)
    if explained.settings.get("removal") != "replace":
        return shown
    neutral = shortened(str(explained.settings["neutral"]), 60)
    return (
        f"{shown} What is left out is replaced by neutral text of about the same length "
        f"(“{neutral}”), so that everything else keeps its position."
    )


def counted(documents: Sequence[Passage]) -> str:
    """What is kept or removed, in words: ``the 12 sentences and 48 documents``."""
    levels = [one.level or "document" for one in documents if one.text.strip()]
    counts = {level: levels.count(level) for level in LEVELS if level in levels}
    nouns = [
        f"{in_words(number)} {'group' if level == 'group' else level}{'s' if number > 1 else ''}"
        f"{' of documents' if level == 'group' else ''}"
        for level, number in counts.items()
    ]
    return f"the {listing(nouns)}"


def _shown(explained: Explained) -> str:
    certificates = [
        one.certificate for c in explained.claims for one in (*c.retention, *c.omission)
    ]
    count = sum(bool(document.text.strip()) for document in explained.documents)
    parts = counted(explained.documents)
    calls = f"{explained.num_calls:,} call{'' if explained.num_calls == 1 else 's'}"
    cost = f"{calls}, {explained.seconds:,.1f} s"
    if not certificates or not count:
        return f"{cost}."
    if all(one.always for one in certificates):
        every = f"All {1 << count:,} subsets of {parts} were decided"
        return f"{every}; {cost}." if explained.complete else f"Certain so far; {cost}."
    if explained.settings.get("each"):
        certificates = [one.certificate for c in explained.claims for one in c.retention]
        shown = [one for one in certificates if one.kind == "certified"]
        what = "each set" if len(shown) == len(certificates) else f"{len(shown)} of the sets"
        if not shown:
            return f"Found and not tested: budget or time was up; deepen() goes on. {cost}."
        drawn = max(one.samples for one in shown)
        return (
            f"Shown for {what} by itself: with it the claim is made in at least "
            f"{percent(shown[0].validity)} of the subsets of {parts} "
            f"(confidence {percent(shown[0].confidence)} for all of them, at most {drawn:,} random "
            f"subsets each); {cost}."
        )
    weakest = min(certificates, key=lambda one: (one.kind == "certified", one.bound))
    if weakest.kind == "certified":
        return (
            f"Shown for each claim: these sets say for at least {percent(weakest.validity)} of the "
            f"subsets of {parts} whether it is made (confidence "
            f"{percent(weakest.confidence)}; {weakest.successes:,} of {weakest.samples:,} random "
            f"subsets were predicted right); {cost}."
        )
    if weakest.kind == "tested":
        return (
            f"Not certain: of {weakest.samples:,} random subsets {weakest.failures:,} came out "
            f"otherwise than these sets say; {cost}."
        )
    return f"Found and not tested: budget or time was up; deepen() goes on. {cost}."


def cited(explained: Explained) -> str:
    """The answer with the documents behind each claim as superscripts.

    A claim that no document drives is marked ``[no source]``.
    """
    text, position, parts = explained.text, 0, []
    placed = [c for c in explained.claims if c.start is not None and c.end is not None]
    for claim in sorted(placed, key=lambda one: one.start or 0):
        if (claim.start or 0) < position:
            continue
        parts += [text[position : claim.start], claim.text, _marks(claim, explained.documents)]
        position = claim.end or 0
    return "".join([*parts, text[position:]])


def _marks(claim: ExplainedClaim, documents: Sequence[Passage]) -> str:
    if claim.unsupported:
        return " [no source]"
    return "".join(documents[index].label for index in claim.sources)
