"""Sufficient regions and necessary keywords: what is asked, what it shows, where keywords stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError, PredicateError
from rulerag.explanation.attribution import (
    MaskedRegions,
    RegionExplanation,
    keyword_spans,
    search_regions,
)
from rulerag.explanation.attribution.regions import region_words
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.probing import ProbeEngine
from rulerag.types import Completion, Document, Fact, GenerationRequest, Query


class WordReader:
    """Says Rome when all the words that it needs stand in the documents."""

    fingerprint = "words"

    def __init__(self, *needed: str) -> None:
        self.needed = needed
        self.requests: list[GenerationRequest] = []

    def generate(self, requests):  # type: ignore[no-untyped-def]
        self.requests += requests
        texts = [" ".join(document.text for document in r.documents) for r in requests]
        held = [all(n in text for n in self.needed) for text in texts]
        return [Completion("Rome" if one else "unknown") for one in held]


def documents(*texts: str) -> tuple[Document, ...]:
    facts = (Fact("a", "b", "c"),)
    return tuple(Document(f"d{i}", text, facts, title="t") for i, text in enumerate(texts))


def explained(
    reader: Any,
    *texts: str,
    parts: int = 3,
    groups: int = 5,
    max_probes: int | None = None,
    right: Callable[[str], bool] = lambda output: output == "Rome",
) -> tuple[RegionExplanation, MaskedRegions]:
    request = GenerationRequest(Query("q", "?"), documents(*texts))
    cut = MaskedRegions(request.documents, parts, groups)
    engine = ProbeEngine.from_generator(reader, request, cut, max_probes=max_probes)
    return search_regions(engine, cut, right), cut


TEXTS = (
    "The moon is far away and it is very cold there.",
    "Rome is the capital of Italy. It was founded long ago.",
    "Paris is a town on the river Seine in France today.",
)


def test_regions_and_keywords_of_documents() -> None:
    reader = WordReader("Rome", "capital")
    made, cut = explained(reader, *TEXTS)
    (region,) = made.regions
    assert "Rome is the capital" in region.text
    assert all("Rome" in one.text or "capital" in one.text for one in region.keywords)
    assert len(region.keywords) == 1 + ("capital" not in region.keywords[0].text)
    assert made.num_probes == len(reader.requests) == 3 + 5 and made.complete
    for place, start, end in region.spans:
        assert cut.whole[place].text[start:end] in region.text
    masked = [r for r in reader.requests if any("_" in d.text for d in r.documents)]
    assert len(masked) == 5 and all(d.facts == () for r in masked for d in r.documents)
    assert RegionExplanation.from_json(made.to_json()) == made


@pytest.mark.parametrize("texts", [(TEXTS[1],) * 20, (" ".join(["word"] * 10**5 + ["Rome"]),)])
def test_the_number_of_probes_does_not_depend_on_the_length(texts: tuple[str, ...]) -> None:
    reader = WordReader("Rome")
    made, cut = explained(reader, *texts)
    assert made.num_probes == len(reader.requests) == 3 + 5 * len(made.regions) <= 3 + 15
    assert made.fit(["Rome", "word"], cut).score in (None, 1.0)


def texts_of(cut: MaskedRegions, masks: list[int]) -> list[list[str]]:
    return [[document.text for document in cut.given(indices_of(mask))] for mask in masks]


def test_a_group_is_replaced_by_one_underscore_in_each_document() -> None:
    cut = MaskedRegions(documents("a b  c, d", "e f", "g h"), parts=2, groups=2)
    assert texts_of(cut, cut.parts) == [["a b  c, d"], ["e f", "g h"]]
    assert texts_of(cut, cut.masked(0)) == [["_  c, d"], ["a b  _"]]
    assert texts_of(cut, cut.masked(1)) == [["_", "g h"], ["e f", "_"]]
    assert texts_of(cut, [0, cut.full]) == [[], ["a b  c, d", "e f", "g h"]]
    assert all(document.facts for document in cut.given(indices_of(cut.full)))
    three = MaskedRegions(documents("a b", "c d e f"), parts=1, groups=2)
    assert texts_of(three, three.masked(0)) == [["_", "_ d e f"], ["a b", "c _"]]


def test_parts_and_groups_are_as_equal_as_they_can_be() -> None:
    cut = MaskedRegions(documents(" ".join("abcdefghijk")), 3, 5)
    assert [cut.text_of(part) for part in cut.members] == ["a b c d", "e f g", "h i j k"]
    assert [passage.text for passage in cut.passages] == list("abcdefghijk")
    few = MaskedRegions(documents("one"), 3, 5)
    assert few.parts == [1] and few.masked(0) == [0]


@pytest.mark.parametrize(
    ("budget", "regions", "keywords", "complete"),
    [(0, 0, 0, False), (2, 1, 0, False), (3, 2, 0, False), (5, 2, 1, False), (9, 2, 2, True)],
)
def test_the_budget_holds_and_what_is_certain_is_kept(
    budget: int, regions: int, keywords: int, complete: bool
) -> None:
    reader = WordReader("Rome")
    made, _ = explained(reader, "Rome in Italy x x x Rome y y", groups=3, max_probes=budget)
    assert len(reader.requests) == made.num_probes == budget
    assert len(made.regions) == regions and made.complete == complete
    assert sum(len(region.keywords) for region in made.regions) == keywords
    assert ("not all of them were asked" in str(made)) != complete


@pytest.mark.parametrize(
    ("keywords", "score"),
    [(["rome", "Italy"], 1), (["Rome"], 0.75), (["in"], 0.5), (["x", " "], 0), ([], 0)],
)
def test_keywords_of_a_model_are_compared_with_what_it_needs(
    keywords: list[str], score: float
) -> None:
    # Three words a part, one word a group: the first part needs both of its two names.
    made, cut = explained(WordReader("Rome", "Italy"), "Rome in Italy x x x x x x", groups=3)
    assert [group.text for group in made.regions[0].keywords] == ["Rome", "Italy"]
    assert made.faithfulness(keywords) == made.fit(keywords, cut).score == score


def test_where_the_keywords_of_a_model_stand() -> None:
    # Parts "Rome is the | capital of old | Italy to day"; groups of one word; two words needed.
    made, cut = explained(
        WordReader("Rome", "the"), "Rome is the capital of old Italy to day.", groups=3
    )
    places = {
        "rome": "necessary",
        "is": "sufficient",
        "Rome is": "straddles",
        "the capital": "straddles",
        "of OLD": "elsewhere",
        "Paris": "absent",
        "…": "absent",
        "old Italy to": "straddles",
    }
    fit = made.fit(list(places), cut)
    assert dict(fit.keywords) == places
    (score,) = fit.regions
    assert (score.sufficient, score.necessary, fit.score) == (1.0, 0.5, 0.75)
    # A keyword across two groups stands in the region, and in neither group.
    alone = made.fit(["Rome is"], cut)
    assert (alone.regions[0].sufficient, alone.regions[0].necessary) == (1.0, 0.0)
    assert alone.score == 0.5 and "counts for neither: “Rome is”" in str(alone)


def test_without_a_region_there_is_nothing_to_compare_and_it_is_said() -> None:
    made, cut = explained(WordReader("Rome", "ago."), TEXTS[1])
    fit = made.fit(["Rome"], cut)
    assert fit.score is made.faithfulness(["Rome"]) is None and fit.regions == ()
    assert "nothing to compare with" in str(fit)
    assert "None of the 3 parts is enough alone: no sufficient region" in str(made)
    # A region that needs no single group has no share of them: no score either.
    twice, cut = explained(WordReader("Rome"), "Rome Rome", parts=1)
    assert len(twice.regions) == 1 and twice.fit(["Rome"], cut).regions[0].mean is None
    one, _ = explained(WordReader("Rome"), "Rome in Italy")
    assert str(one) == "1 of 3 parts is enough alone (4 probes)\n  Rome  [needs Rome]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京は日本の首都です。", [*"東京は日本の首都です", "。"]),
        ("กรุงเทพ", ["ก", "รุ", "ง", "เ", "ท", "พ"]),
        ("Rome 東京 x", ["Rome", "東", "京", "x"]),
    ],
)
def test_words_of_scripts_without_spaces_are_characters(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in region_words(text)] == words


@pytest.mark.parametrize(
    ("text", "keywords", "found"),
    [
        ("Rome, ROME and (rome)!", ["rome"], ["Rome,", "ROME", "(rome)!"]),
        ("the U.S. and us", ["US"], ["U.S.", "us"]),
        ("a b a b a", ["a b a"], ["a b a", "a b a"]),
        ("東京は日本の首都です。", ["日本", "首都"], ["日本", "首都"]),
        ("Rome", ["", "...", "Rom"], []),
    ],
)
def test_where_keywords_stand(text: str, keywords: list[str], found: list[str]) -> None:
    assert [text[start:end] for start, end in keyword_spans(text, keywords)] == found


@pytest.mark.parametrize(
    ("text", "needed", "keywords"),
    [
        (
            "東京は日本の首都です。",
            "東京",
            {"東京": "necessary", "首都": "elsewhere", "北京": "absent"},
        ),
        ("القاهرة هي عاصمة مصر وأكبر مدنها", "القاهرة", {chr(0x200F) + "القاهرة": "necessary"}),
    ],
)
def test_other_scripts(text: str, needed: str, keywords: dict[str, str]) -> None:
    made, cut = explained(WordReader(needed), text, parts=2, groups=3)
    assert [group.text for group in made.regions[0].keywords] == [needed]
    assert dict(made.fit(list(keywords), cut).keywords) == keywords


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MaskedRegions(documents()), ExplanationError, "no word"),
        (lambda: MaskedRegions(documents(" \n ")), ExplanationError, "no word"),
        (lambda: MaskedRegions(documents("Rome"), parts=0), ConfigError, "key 'parts'"),
        (lambda: MaskedRegions(documents("Rome"), groups=0), ConfigError, "key 'groups'"),
        (
            lambda: explained(WordReader(), "Rome", right=lambda output: bool(1 / 0)),
            PredicateError,
            "on the output",
        ),
    ],
)
def test_bad_input_is_named(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
