from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import ConfigError, ExplanationError, PredicateError, ProbeBudgetError
from rulerag.explanation.attribution import MaskedRegions, RegionExplanation, explain_regions
from rulerag.explanation.attribution.regions import region_words
from rulerag.explanation.probing import AnswerCache, CachedGenerator
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
    assert RegionExplanation.from_json(found.to_json()) == found


def texts_of(cut: MaskedRegions, masks: list[int]) -> list[list[str]]:
    count = len(cut.sources)
    return [[d.text for d in cut.keep([i for i in range(count) if m >> i & 1])] for m in masks]


def test_a_group_is_replaced_by_one_underscore_in_each_document() -> None:
    cut = MaskedRegions(request("a b  c, d", "e f", " ", "g h").documents, parts=2, groups=2)
    assert texts_of(cut, cut.parts) == [["a b  c, d"], ["e f", "g h"]]
    assert texts_of(cut, cut.masked(0)) == [["_  c, d"], ["a b  _"]]
    assert texts_of(cut, cut.masked(1)) == [["_", "g h"], ["e f", "_"]]
    assert texts_of(cut, [0, (1 << 4) - 1]) == [[], ["a b  c, d", "e f", " ", "g h"]]
    across = MaskedRegions(request("a b", "c d").documents, parts=1, groups=1)
    assert texts_of(across, [0]) == [[]]
    three = MaskedRegions(request("a b", "c d e f").documents, parts=1, groups=2)
    assert texts_of(three, three.masked(0)) == [["_", "_ d e f"], ["a b", "c _"]]


def test_parts_and_groups_are_as_equal_as_they_can_be() -> None:
    cut = MaskedRegions(request(" ".join("abcdefghijk")).documents, 3, 5)
    assert [cut.text_of(part) for part in cut.members] == ["a b c d", "e f g", "h i j k"]
    assert [source.text for source in cut.sources] == list("abcdefghijk")
    few = MaskedRegions(request("one").documents, 3, 5)
    assert few.parts == [1] and few.masked(0) == [0]


def test_the_budget_holds_and_what_was_found_is_kept() -> None:
    asked = request("Rome in Italy x x x Rome y y")
    for budget, regions, keywords in ((3, 2, 0), (5, 2, 1), (2, 1, 0), (0, 0, 0)):
        reader = WordReader("Rome", "Rome")
        with pytest.raises(ProbeBudgetError) as stop:
            explain_regions(reader, asked, right, groups=3, max_probes=budget)
        found = stop.value.partial
        assert isinstance(found, RegionExplanation) and not found.complete
        assert len(reader.requests) == found.num_probes == budget
        assert len(found.regions) == regions
        assert sum(len(region.keywords) for region in found.regions) == keywords
        assert "not all of them were asked" in str(found)


def test_nothing_is_asked_twice_with_a_cache(tmp_path: Path) -> None:
    asked = request("Rome in Italy a b c d e f")
    cache = AnswerCache(tmp_path / "answers.sqlite")
    counts = []
    for _ in range(2):
        reader = WordReader("Rome", "Rome")
        found = explain_regions(CachedGenerator(reader, cache), asked, right, groups=3)
        counts.append(len(reader.requests))
        assert found.num_probes == 3 + 3
    assert counts == [6, 0]


def test_where_the_keywords_of_a_model_stand() -> None:
    # Parts "Rome is the | capital of old | Italy to day"; groups of one word; both names needed.
    reader = WordReader("Rome", "Rome", "the")
    asked = request("Rome is the capital of old Italy to day.")
    found = explain_regions(reader, asked, right, groups=3)
    given = ["rome", "is", "Rome is", "the capital", "of OLD", "Paris", "…", "old Italy to"]
    fit = found.fit(given, asked.documents)
    assert [place for _, place in fit.keywords] == [
        *("necessary", "sufficient", "straddles", "straddles"),
        *("elsewhere", "absent", "absent", "straddles"),
    ]
    (score,) = fit.regions
    assert (score.sufficient, score.necessary, fit.score) == (1.0, 0.5, 0.75)
    # A keyword across two groups stands in the region, and in neither group.
    alone = found.fit(["Rome is"], asked.documents)
    assert (alone.regions[0].sufficient, alone.regions[0].necessary) == (1.0, 0.0)
    assert alone.score == 0.5 and "counts for neither: “Rome is”" in str(alone)
    assert found.fit([], asked.documents).score == 0.0


def test_without_a_region_there_is_nothing_to_compare_and_it_is_said() -> None:
    found = explain_regions(WordReader("Rome", "Rome", "ago."), request(TEXTS[1]), right)
    fit = found.fit(["Rome"], request(TEXTS[1]).documents)
    assert fit.score is None and fit.regions == () and "nothing to compare with" in str(fit)
    assert "None of the 3 parts is enough alone: no sufficient region" in str(found)
    # A region that needs no single group has no share of them: no score either.
    twice = explain_regions(WordReader("Rome", "Rome"), request("Rome Rome"), right, parts=1)
    assert len(twice.regions) == 1 and twice.faithfulness(["Rome"]) is None
    assert twice.fit(["Rome"], request("Rome Rome").documents).regions[0].mean is None


def test_words_of_scripts_without_spaces_are_characters() -> None:
    text = "東京は日本の首都です。"
    assert [text[a:b] for a, b in region_words(text)] == [*"東京は日本の首都です", "。"]
    thai = "กรุงเทพ"
    assert [thai[a:b] for a, b in region_words(thai)] == ["ก", "รุ", "ง", "เ", "ท", "พ"]
    assert region_words("Rome 東京 x") == [(0, 4), (5, 6), (6, 7), (8, 9)]

    class Reader(WordReader):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            return [Completion("東京" if "東京" in r.documents[0].text else "") for r in requests]

    asked = request(text)
    found = explain_regions(Reader(""), asked, lambda said: said == "東京", parts=2, groups=3)
    assert [group.text for group in found.regions[0].keywords] == ["東京"]
    assert found.fit(["東京", "首都", "北京"], asked.documents).keywords == (
        *(("東京", "necessary"), ("首都", "elsewhere"), ("北京", "absent")),
    )


def test_right_to_left_text_keeps_its_order() -> None:
    asked = request("القاهرة هي عاصمة مصر وأكبر مدنها")
    reader = WordReader("Rome", "القاهرة")
    found = explain_regions(reader, asked, right)
    assert found.regions[0].text == "القاهرة هي"
    assert [group.text for group in found.regions[0].keywords] == ["القاهرة"]
    assert found.faithfulness([chr(0x200F) + "القاهرة"]) == 1.0


def test_a_hundred_thousand_words_take_as_many_requests_as_ten() -> None:
    words = [f"word{n}" for n in range(100_000)]
    words[70_000] = "Rome"
    asked = request(" ".join(words))
    reader = WordReader("Rome", "Rome")
    found = explain_regions(reader, asked, right)
    assert found.num_probes == len(reader.requests) == 3 + 5
    assert found.fit(["Rome", "word7"], asked.documents).score == 1.0
