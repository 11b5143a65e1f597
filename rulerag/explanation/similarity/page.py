"""Similarity attribution as pictures: shaded documents, the answer's flow to them, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from rulerag.arrays import Doubles
from rulerag.explanation.levels import Passage
from rulerag.explanation.views import Node, Scale, folded, percent, pieces, rendered, sankey
from rulerag.explanation.wording import shortened

if TYPE_CHECKING:
    from rulerag.explanation.similarity.records import SimilarityAttribution

_DRAWN = 12  # of answer sentences and of documents in the flow
_OPEN = 12  # documents that stand open on the page
_ROWS = 40  # of a table
_NAMED = 5  # documents beside a sentence of the answer
_WIDE, _NARROW = 960, 350


def page(record: SimilarityAttribution) -> str:
    """A whole page that opens offline."""
    return _rendered("similarity.html.j2", record)


def fragment(record: SimilarityAttribution) -> str:
    """The same without a page around it, for notebooks."""
    return _rendered("similarity_fragment.html.j2", record)


def flow_picture(record: SimilarityAttribution, width: float = _WIDE) -> Markup:
    """Bands from the sentences of the answer to the documents, as wide as their shares.

    At most twelve of each are drawn; the others are one band together.

    Args:
        record: the numbers.
        width: in pixels.
    """
    table = record.document_shares.copy()
    undecided = list(record.undecided)
    table[undecided] = 0.0
    lost = np.zeros((len(table), 1))
    lost[undecided] = 1.0
    kept, flows = folded(table, _DRAWN)
    totals = [percent(total / (table.sum() or 1.0)) for total in flows.sum(axis=0).tolist()]
    right = [
        Node(record.documents[k].label, _name(record.documents[k]), note)
        for k, note in zip(kept, totals, strict=False)
    ]
    if others := len(record.documents) - len(kept):
        right.append(Node("", f"{others} other documents", totals[-1], rest=True))
    if undecided:
        right.append(Node("", "nothing is closer than anything else", rest=True))
        flows = np.column_stack([flows, lost])
    left, flows = _left(record, flows)
    caption = (
        f"Similarity of {len(record.sentences)} sentences of the answer (left) to "
        f"{len(record.documents)} documents (right); a table of it stands beside it. "
        "Similarity is not causation."
    )
    titles = ("the answer", "documents, mean share" if width >= _WIDE else "documents")
    return sankey(left, right, flows, titles=titles, caption=caption, width=width)


def _left(record: SimilarityAttribution, flows: Doubles) -> tuple[list[Node], Doubles]:
    """The sentences of the answer, those behind the first eleven together where there are many."""
    count = len(record.sentences)
    drawn = count if count <= _DRAWN else _DRAWN - 1
    nodes = [
        Node(str(place + 1), " ".join(sentence.text.split()))
        for place, sentence in enumerate(record.sentences[:drawn])
    ]
    if drawn == count:
        return nodes, flows
    nodes.append(Node("…", f"{count - drawn} further sentences", rest=True))
    return nodes, np.vstack([flows[:drawn], flows[drawn:].sum(axis=0)])


def _rendered(template: str, record: SimilarityAttribution) -> str:
    scale = record.scale
    shown = record.document_ranking[:_OPEN]
    documents = [_document(record, index, scale) for index in range(len(record.documents))]
    return rendered(
        __package__,
        template,
        record=record,
        answer=list(pieces(record.answer, [(s.start, s.end) for s in record.sentences])),
        legend=scale.legend(),
        even=percent(scale.even),
        documents=[one for one in documents if one["passage"].index in shown],
        folded=[one for one in documents if one["passage"].index not in shown],
        sentences=_sentence_rows(record),
        flows=_flow_rows(record),
        alike=not any(map(scale.shade, record.values)),
        flow=flow_picture(record),
        narrow=flow_picture(record, _NARROW),
        rows=_ROWS,
    )


def _document(record: SimilarityAttribution, index: int, scale: Scale) -> dict[str, Any]:
    """A document in shaded pieces."""
    passage = record.documents[index]
    places = [n for n, source in enumerate(record.sources) if source.document == index]
    spans = [(record.sources[n].start, record.sources[n].end) for n in places]
    shaded = []
    for text, part in pieces(passage.text, spans):
        value = 0.0 if part is None else record.values[places[part]]
        shaded.append((text, scale.shade(value), percent(value)))
    return {
        "passage": passage,
        "value": percent(record.document_values[index]),
        "pieces": shaded,
    }


def _sentence_rows(record: SimilarityAttribution) -> list[dict[str, Any]]:
    """The sentences that count most, each with the sentence of the answer that it is closest to."""
    scores = np.asarray(record.scores)
    rows = []
    for place in record.ranking[:_ROWS]:
        closest = int(scores[:, place].argmax())
        source = record.sources[place]
        rows.append(
            {
                "share": percent(record.values[place]),
                "label": record.documents[source.document or 0].label,
                "text": source.text,
                "closest": closest + 1,
                "score": f"{scores[closest, place]:.3f}",
            }
        )
    return rows


def _flow_rows(record: SimilarityAttribution) -> list[dict[str, Any]]:
    """Each sentence of the answer with the documents that have most of it, and the others."""
    rows = []
    for number, sentence in enumerate(record.sentences):
        shares = record.document_shares[number].tolist()
        ranked = sorted(range(len(shares)), key=shares.__getitem__, reverse=True)
        named = [k for k in ranked[:_NAMED] if shares[k] >= 0.005]
        rest = 1 - sum(shares[k] for k in named)
        rows.append(
            {
                "number": number + 1,
                "text": sentence.text,
                "undecided": number in record.undecided,
                "shares": [(record.documents[k].label, percent(shares[k])) for k in named],
                "others": percent(rest) if rest >= 0.0005 else "",
            }
        )
    return rows


def _name(passage: Passage) -> str:
    return passage.title or shortened(passage.text, 90)
