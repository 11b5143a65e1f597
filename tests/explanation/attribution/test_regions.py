from __future__ import annotations

import pytest

from rulerag.errors import ConfigError, ExplanationError, PredicateError
from rulerag.explanation.attribution.regions import explain_regions
from rulerag.types import Completion, Document, Fact, GenerationRequest, Query

TEXTS = (
    "The moon is far away and it is very cold there.",
    "Rome is the capital of Italy. It was founded long ago.",
    "Paris is a town on the river Seine in France today.",
)


class WordReader:
    """Says a word when all the words that it needs stand in the documents."""

    fingerprint = "words"

    def __init__(self, answer: str, *needed: str) -> None:
        self.answer = answer
        self.needed = needed
        self.requests: list[GenerationRequest] = []

    def generate(self, requests):  # type: ignore[no-untyped-def]
        self.requests += requests
        texts = [" ".join(document.text for document in r.documents) for r in requests]
        return [
            Completion(self.answer if all(n in text.split() for n in self.needed) else "unknown")
            for text in texts
        ]


def request(*texts: str) -> GenerationRequest:
    documents = tuple(
        Document(f"d{i}", text, (Fact("a", "b", "c"),), title="t") for i, text in enumerate(texts)
    )
    return GenerationRequest(Query("q", "?"), documents)


def right(output: str) -> bool:
    return output == "Rome"


def test_regions_and_keywords_of_documents() -> None:
    reader = WordReader("Rome", "Rome", "capital")
    asked = request(*TEXTS)
    found = explain_regions(reader, asked, right)
    (region,) = found.regions
    assert "Rome is the capital" in region.text
    assert [group.text for group in region.keywords] == [
        group.text for group in region.keywords if "Rome" in group.text or "capital" in group.text
    ]
    assert len(region.keywords) == 1 + ("capital" not in region.keywords[0].text)
    assert found.num_probes == len(reader.requests) == 3 + 5
    for piece in region.pieces:
        text = asked.documents[piece.document].text
        assert text[piece.start : piece.end] in region.text
    masked = [r for r in reader.requests if any("_" in d.text for d in r.documents)]
    assert len(masked) == 5 and all(d.facts == () for r in masked for d in r.documents)


def test_the_number_of_probes_does_not_depend_on_the_length() -> None:
    for copies in (1, 20):
        reader = WordReader("Rome", "Rome")
        found = explain_regions(reader, request(*(TEXTS[1:2] * copies)), right)
        assert 3 < found.num_probes <= 3 + 5 * len(found.regions) <= 3 + 15


def test_a_whole_document_keeps_its_facts() -> None:
    reader = WordReader("Rome", "Rome")
    explain_regions(reader, request(*(["one two three"] * 3)), right)
    assert all(r.documents[0].facts for r in reader.requests) and len(reader.requests) == 3


def test_no_part_may_be_enough() -> None:
    together = explain_regions(WordReader("Rome", "Rome", "ago."), request(TEXTS[1]), right)
    assert together.regions == () and together.faithfulness(["Rome"]) is None


def test_keywords_of_a_model_are_compared_with_what_it_needs() -> None:
    # Three words a part, one word a group: the first part needs both of its two names.
    reader = WordReader("Rome", "Rome", "Italy")
    found = explain_regions(reader, request("Rome in Italy x x x x x x"), right, groups=3)
    assert [group.text for group in found.regions[0].keywords] == ["Rome", "Italy"]
    assert found.faithfulness(["rome", "Italy"]) == 1
    assert found.faithfulness(["Rome"]) == (1 + 1 / 2) / 2
    assert found.faithfulness(["in"]) == 1 / 2
    assert found.faithfulness(["x", " "]) == found.faithfulness([]) == 0


def test_the_best_region_counts() -> None:
    text = "Rome x x here Rome y z z z"
    reader = WordReader("Rome", "Rome")
    found = explain_regions(reader, request(text), right, groups=3)
    assert len(found.regions) == 2
    assert found.faithfulness(["x"]) == 0.5 and found.faithfulness(["Rome"]) == 1


def test_short_texts_and_bad_arguments() -> None:
    reader = WordReader("Rome", "Rome")
    assert explain_regions(reader, request("Rome"), right).regions[0].text == "Rome"
    with pytest.raises(ExplanationError, match="no word"):
        explain_regions(reader, request(), right)
    for name in ("parts", "groups"):
        with pytest.raises(ConfigError, match=f"key '{name}'"):
            explain_regions(reader, request("Rome"), right, **{name: 0})
    with pytest.raises(PredicateError, match="on the output"):
        explain_regions(reader, request("Rome"), lambda output: bool(1 / 0))


def test_results_print_and_serialise() -> None:
    found = explain_regions(WordReader("Rome", "Rome"), request("Rome in Italy"), right)
    assert str(found).splitlines() == [
        "1 of 3 parts is enough alone (4 probes)",
        "  Rome  [needs Rome]",
    ]
    record = found.to_json()["regions"][0]
    assert record["pieces"] == [[0, 0, 4]] and record["keywords"][0]["text"] == "Rome"
