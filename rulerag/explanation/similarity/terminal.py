"""Similarity attribution in a terminal: the documents with what is similar marked, by rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulerag.explanation.views import percent, pieces, printable

if TYPE_CHECKING:
    from rulerag.explanation.similarity.records import SimilarityAttribution

# Not by colour alone: the number stands behind each, and shades differ in weight and lines too.
_STYLES = {0: "", 1: "underline", 2: "bold underline", 3: "bold reverse"}
_DRAWN = 12


def rendered(record: SimilarityAttribution) -> Any:
    """What rich prints: notes, a legend, and the documents with most of the answer, in order."""
    from rich.console import Group
    from rich.text import Text

    scale = record.scale
    lines = [Text(note, style="italic") for note in record.notes]
    legend = Text("share: ")
    for shade, told in scale.legend():
        legend.append(told, style=_STYLES[shade]).append("  ")
    lines.append(legend)
    for index in sorted(record.document_ranking[:_DRAWN]):
        passage = record.documents[index]
        value = percent(record.document_values[index])
        lines.append(Text(f"\n{passage.label} {printable(passage.title)} {value}", "bold"))
        places = [n for n, source in enumerate(record.sources) if source.document == index]
        spans = [(record.sources[n].start, record.sources[n].end) for n in places]
        shown = Text()
        for text, part in pieces(passage.text, spans):
            share = 0.0 if part is None else record.values[places[part]]
            shade = scale.shade(share)
            shown.append(printable(text), style=_STYLES[shade])
            if shade:
                shown.append(f" {percent(share)}", style="dim")
        lines.append(shown)
    rest = len(record.documents) - _DRAWN
    if rest > 0:
        lines.append(Text(f"\nand {rest} other documents, none with a larger share"))
    return Group(*lines)
