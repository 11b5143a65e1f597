"""Explained answers in a report: right ones beside wrong ones, then each in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rulerag.explanation.explaining import (
    ExplainedClaim,
    Explanation,
    accepted_line,
    explanation_blocks,
)
from rulerag.text import shortened
from rulerag.views import AnswerText, Block, Columns, Section, Text

_ROOM, _FRAME = 900, 25
"""Of a page, and of what stands around an answer, in documents; one takes about a kilobyte."""

_QUOTE, _QUOTED = 240, 2
"""Letters of a document where it is quoted, and quotes of an answer."""

_HEADS = {"right": "Right", "wrong": "Wrong", "": "No accepted answer is known"}


def explained_blocks(explanations: Sequence[Explanation]) -> Iterator[Block]:
    """The answers side by side where there are several, and each with all that is known of it.

    Of very many, the first that a page has room for.
    """
    fitting = _that_fit(explanations)
    several = len(explanations) > 1
    if several:
        words = f"The first {len(fitting)} of {len(explanations)}: a page has no room for more. "
        words += "The records hold all (--out)."
        note = Text((words,) if len(fitting) < len(explanations) else (), "small")
        columns = Columns(tuple(_columns(fitting)))
        yield Section("Answers, right beside wrong", (note, columns), anchor="answers")
    details = [
        Section(
            one.question,
            explanation_blocks(one, f"answer-{number}-d"),
            "open" if number == 1 else "folded",
            f"answer-{number}",
            one.verdict,
        )
        for number, one in enumerate(fitting, start=1)
    ]
    if details:
        title = "Each answer, explained" if several else "An answer, explained"
        yield Section(title, tuple(details), anchor="explained")


def explained_glance(explanations: Sequence[Explanation]) -> tuple[tuple[str, str], ...]:
    """The first screen of several explained answers."""
    counts = Counter(one.verdict or "with no accepted answer to compare" for one in explanations)
    whole = sum(one.complete for one in explanations)
    alone = sum(any(map(_certain_alone, one.claims)) for one in explanations)
    calls = sum(one.num_calls for one in explanations)
    seconds = sum(one.seconds for one in explanations)
    total = len(explanations)
    return (
        ("asked", f"{total} questions"),
        ("answered", ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))),
        ("why", f"{alone} of {total} stand as long as one document is kept; see below"),
        ("how sure", f"{whole} of {total} searches came to their end; see each answer"),
        ("cost", f"{calls:,} subsets asked of the generator, {seconds:.2f} s"),
    )


def _certain_alone(claim: ExplainedClaim) -> bool:
    """Whether a claim was shown to stand with one document, whatever others are removed."""
    alone = (one.certificate.kind for one in claim.retention if len(one) == 1)
    return any(kind in ("exact", "certified") for kind in alone)


def _that_fit(explanations: Sequence[Explanation]) -> list[Explanation]:
    """The first of the answers, as many as a page of two megabytes holds; one at least."""
    room = _ROOM
    fitting: list[Explanation] = []
    for one in explanations:
        room -= _FRAME + len(one.documents)
        if fitting and room < 0:
            break
        fitting.append(one)
    return fitting


def _columns(explanations: Sequence[Explanation]) -> Iterator[Section]:
    for word, head in _HEADS.items():
        cards = [
            _card(number, one)
            for number, one in enumerate(explanations, start=1)
            if one.verdict == word
        ]
        if cards:
            yield Section(f"{head} ({len(cards)})", tuple(cards))


def _card(number: int, explanation: Explanation) -> Section:
    """An answer in short: what was asked and answered, and the documents that it rests on."""
    quotes = [
        f"{f'{one.label} {one.title}'.strip()} “{shortened(one.text, _QUOTE)}”"
        for one in explanation.supporting[:_QUOTED]
    ]
    accepted = accepted_line(explanation)
    blocks: list[Block] = [AnswerText.of(explanation.text, (), explanation.verdict)]
    blocks += [Text((accepted,), "small")] if accepted else []
    blocks.append(Text(tuple(quotes or ["It rests on no single document."])))
    cost = f"{explanation.num_calls:,} subsets asked, {explanation.seconds:.2f} s"
    blocks.append(Text((cost,), "small"))
    return Section(explanation.question, tuple(blocks), "card", link=f"answer-{number}")
