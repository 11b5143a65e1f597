"""Similarity attribution shown: shaded documents, the answer's flow to them, in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.text import shortened
from rulerag.views import (
    AnswerText,
    Highlights,
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
    flow_picture,
    percent,
)

if TYPE_CHECKING:
    from rulerag.explanation.similarity.records import SimilarityAttribution

_DRAWN, _ROWS, _LEAST = 12, 40, 0.005
"""Documents that stand open and are drawn, rows of a table, and the least share with a band."""


def page(record: SimilarityAttribution) -> Page:
    """A page that opens offline: the documents shaded, and the flow of the answer to them."""
    pieces = [
        (one.start, one.end, Piece("", labels=((str(number), ""),)))
        for number, one in enumerate(record.sentences, start=1)
    ]
    sizes = len(record.sentences), len(record.sources), len(record.documents)
    window = f", {record.window} neighbours at a time" if record.window > 1 else ""
    together = "mean" if record.aggregate == "mean" else "largest share"
    how = (
        f"Sentences of the answer ({sizes[0]}) against sentences ({sizes[1]}) of documents "
        f"({sizes[2]}), by {record.scorer}{window}; softmax at temperature "
        f"{record.temperature:g}, then the {together} over the answer's sentences."
    )
    most_similar, rest = highlights(record)
    return Page(
        "What the answer reads like",
        (
            Text(record.notes, "note"),
            AnswerText.of(record.answer, pieces),
            Text((how,), "small"),
            most_similar,
            *([Section(rest.title, (rest,), "folded")] if rest.texts else []),
            Section("The sentences that count most", (_table(record),), "folded"),
            flow(record),
        ),
    )


def highlights(record: SimilarityAttribution) -> tuple[Highlights, Highlights]:
    """The documents shaded by the shares of their sentences: the most similar, and the others."""
    scale, texts = record.scale, list[MarkedText]()
    for place, document in enumerate(record.documents):
        marks = []
        for source, value in zip(record.sources, record.values, strict=True):
            kind = scale.kind(value) if source.document == place else None
            marks += [Mark(source.start, source.end, kind, percent(value))] if kind else []
        share = percent(record.document_values[place])
        texts.append(MarkedText(document.label, document.title, document.text, tuple(marks), share))
    first = sorted(record.document_ranking[:_DRAWN])
    others = [place for place in range(len(texts)) if place not in first]
    note = f"Not marked: less; each has {percent(scale.even)} if all are alike."
    title = "The documents, shaded by similarity"
    rest = f"{len(others)} other documents, none with a larger share"
    return (
        Highlights(title, tuple(texts[place] for place in first), note, scale.legend()),
        Highlights(rest, tuple(texts[place] for place in others), legend=scale.legend()),
    )


def flow(record: SimilarityAttribution) -> Picture:
    """Bands from the sentences of the answer to the documents, as wide as their shares."""
    documents = [
        Node(one.title or shortened(one.text, 90), one.label, percent(value))
        for one, value in zip(record.documents, record.document_values, strict=True)
    ]
    nothing = [Node("nothing is closer than anything else")] if record.undecided else []
    links = []
    for row, shares in enumerate(record.document_shares.tolist()):
        shares = [0.0] * len(shares) + [1.0] if row in record.undecided else shares
        links += [
            Link(0, row, place, "share", share, percent(share))
            for place, share in enumerate(shares)
            if share >= _LEAST
        ]
    return flow_picture(
        {
            "the answer": [
                Node(" ".join(one.text.split()), str(number))
                for number, one in enumerate(record.sentences, start=1)
            ],
            "documents": [*documents, *nothing],
        },
        links,
        title="From the answer to the documents",
        note="A band is as wide as the share of a sentence of the answer that a document has; its "
        "number says where it comes from. Less than half a per cent has none.",
        most=_DRAWN,
    )


def terminal(record: SimilarityAttribution) -> Any:
    """What rich prints: notes, a legend, and the documents with most of the answer, in order."""
    from rich.console import Group
    from rich.text import Text as Line

    most_similar, rest = highlights(record)
    more = [Line(f"\nand {rest.title}")] if rest.texts else []
    return Group(*(Line(note, "italic") for note in record.notes), most_similar, *more)


def _table(record: SimilarityAttribution) -> Table:
    """The sentences that count most, each with the sentence of the answer that it is closest to."""
    scores, rows = np.asarray(record.scores), []
    for place in record.ranking[:_ROWS]:
        source, closest = record.sources[place], int(scores[:, place].argmax())
        label = record.documents[source.document or 0].label
        score = f"{scores[closest, place]:.3f}"
        rows.append((percent(record.values[place]), label, source.text, str(closest + 1), score))
    note = f"{len(rows)} of {len(record.sources)} sentences of the documents, with the closest "
    note += "sentence of the answer and the score before the softmax."
    return Table(("share", "document", "sentence", "closest", "score"), tuple(rows), note)
