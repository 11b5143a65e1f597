"""Many and long sources: 500 documents, parts of them, neutral text."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import rulerag
from rulerag.errors import ConfigError
from rulerag.explanation.explaining import Why
from rulerag.explanation.units import NEUTRAL, Context
from rulerag.explanation.units.context import clause_spans, neutral_text, section_spans
from rulerag.text import prose_spans

QUESTION = "When does the moon melt?"
FILLER = "Sales in region {} were steady. The office there has {} people, who work in shifts."
NEEDED = ("The moon is made of cheese.", "Cheese melts at 60 degrees.", "Heat never lies here.")


def reads(documents: Sequence[Any]) -> str:
    return " ".join(d if isinstance(d, str) else d["text"] for d in documents)


def moon(question: str, documents: Sequence[Any]) -> str:
    text = reads(documents)
    return "The moon melts at 60 degrees." if all(n in text for n in NEEDED) else "I don't know."


def chunks(count: int, places: Sequence[int], *, files: int = 0) -> list[Any]:
    texts = [FILLER.format(n, 3 * n) for n in range(count)]
    for place, needed in zip(places, NEEDED, strict=True):
        texts[place] = f"{texts[place]} {needed}"
    if not files:
        return list(texts)
    return [{"text": t, "source": f"file-{n * files // count}"} for n, t in enumerate(texts)]


# --- many documents ------------------------------------------------------------------------------


def test_three_decisive_chunks_among_five_hundred() -> None:
    for seed in range(3):
        places = random.Random(seed).sample(range(500), 3)
        why = rulerag.explain(moon, QUESTION, chunks(500, places))
        assert why.claims[0].retention == (frozenset(places),) and why.num_calls <= 120
        assert "combinations of the 500 documents" in str(why) and why.explanation.complete


def test_groups_first_then_the_documents_and_sentences_that_decide() -> None:
    """The guarantee names what was kept and removed as one, at each step."""
    coarse = rulerag.explain(moon, QUESTION, chunks(500, [7, 8, 300], files=25), level="group")
    names = [[coarse.documents[n].title for n in one] for one in coarse.claims[0].retention]
    assert [sorted(one) for one in names] == [["file-0", "file-15"]]
    assert "combinations of the 25 groups of documents" in str(coarse)
    middle = coarse.finer()
    assert [middle.documents[n].label for n in middle.claims[0].sources] == ["[8]", "[9]", "[301]"]
    assert "combinations of the 23 groups of documents and 40 documents" in str(middle)
    fine = middle.finer()
    decisive = [fine.documents[n] for n in fine.claims[0].sources]
    assert [one.text for one in decisive] == list(NEEDED)
    assert [one.label for one in decisive] == ["[8.3]", "[9.3]", "[301.3]"]
    assert "23 groups of documents, 37 documents and nine sentences" in str(fine)
    assert f"“{NEEDED[0]}” in “file-0” [8.3]" in str(fine) and fine.cited.endswith("[301.3]")
    for document, start, end in decisive[0].spans:
        whole = chunks(500, [7, 8, 300])[document]
        assert whole[start:end] == NEEDED[0], "it stands there in the original"
    assert Why.from_json(json.dumps(fine.to_json())).explanation == fine.explanation
    assert "[301.3]" in fine.to_html()
    assert type(fine.explanation) is type(coarse.explanation)


def test_opening_what_decides_until_nothing_is_left_finds_every_fine_set() -> None:
    """{a1, b1} hides behind {a2}: the group A alone is enough, and B comes to light inside A."""
    documents = ["First a1. Then a2. Last a3.", "First b1. Then b2.", *map(str, range(20))]

    def answer(question: str, kept: Sequence[str]) -> str:
        text = reads(kept)
        return "It is so." if "a2" in text or ("a1" in text and "b1" in text) else "No idea."

    def sets(why: Why) -> set[tuple[str, ...]]:
        rules = why.claims[0].retention
        return {tuple(why.documents[n].label for n in sorted(one)) for one in rules}

    whole = rulerag.explain(answer, "Is it?", documents)
    assert sets(whole) == {("[1]",)}
    once = whole.finer()
    assert sets(once) == {("[1.2]",), ("[1.1]", "[2]")}, "[2] decides as a whole so far"
    twice = once.finer()
    assert sets(twice) == {("[1.2]",), ("[1.1]", "[2.1]")}
    assert sets(twice) == sets(rulerag.explain(answer, "Is it?", documents, level="sentence"))


def test_finer_asks_nothing_again_and_keeps_answer_and_question() -> None:
    seen: list[str] = []

    def answer(question: str, documents: Sequence[str]) -> str:
        seen.append("\n".join(documents))
        return moon(question, documents)

    documents = chunks(4, [0, 1, 2])
    why = rulerag.explain(answer, QUESTION, documents)
    finer = why.finer()
    assert finer.text == why.text and finer.explanation.question == QUESTION
    again = [text for text in seen if seen.count(text) > 1]
    assert set(again) == {"\n".join(documents)} and len(again) == 2, "but for the noise, once"
    assert finer.num_calls == len(seen) - why.num_calls
    assert finer.finer(level="span").num_calls > 0, "and goes on"


def test_one_long_document_from_sections_to_spans() -> None:
    """100 pages, 300,000 characters: chapters, then sentences, then clauses."""
    text = "\n\n".join(
        f"# Chapter {n}\n\n" + " ".join(FILLER.format(30 * n + k, k) for k in range(36))
        for n in range(100)
    )
    for chapter, needed in zip((11, 42, 87), NEEDED, strict=True):
        text = text.replace(f"# Chapter {chapter}\n\n", f"# Chapter {chapter}\n\n{needed} ")
    assert len(text) > 300_000
    why = rulerag.explain(moon, QUESTION, [text], level="section")
    assert [why.documents[n].label for n in why.claims[0].sources] == ["[1.12]", "[1.43]", "[1.88]"]
    assert "combinations of the 100 sections" in str(why) and why.num_calls <= 120
    sentences = why.finer()
    assert [sentences.documents[n].text for n in sentences.claims[0].sources] == list(NEEDED)
    assert "combinations of the 97 sections and 222 sentences" in str(sentences)


def test_the_tests_get_their_share_of_a_budget() -> None:
    """500 equal documents: each is enough, and not all of them can be found."""
    documents = [" ".join(NEEDED)] * 500
    why = rulerag.explain(moon, QUESTION, documents, budget=200, subsets="uniform")
    (claim,) = why.claims
    assert why.num_calls <= 201 and 5 < len(claim.retention) < 500
    assert not why.explanation.complete and "there may be more sets" in str(why)
    assert claim.retention[0].certificate.kind == "certified"
    assert claim.omission == (), "what else is enough is not known"
    # A context of a few documents has none of the sets found, and the claim is made all the same.
    (claim,) = rulerag.explain(moon, QUESTION, documents, budget=200).claims
    shown = claim.retention[0].certificate
    assert shown.kind == "tested" and len(claim.retention) > 5
    few, some, most = shown.sizes
    assert few.successes < few.samples and most.successes == most.samples > 10
    assert (few.least, few.most, some.least, most.most) == (0, 166, 167, 500)


# --- removal -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["document", "sentence"])
def test_neutral_text_keeps_number_positions_and_about_the_length(level: str) -> None:
    documents = [
        {"title": "Moon", "text": text, "page": n} for n, text in enumerate(chunks(9, [2, 4, 6]))
    ]
    calls: list[list[dict[str, Any]]] = []

    def answer(question: str, kept: list[dict[str, Any]]) -> str:
        calls.append(kept)
        return moon(question, kept)

    why = rulerag.explain(answer, QUESTION, documents, removal="replace", level=level)
    assert [why.documents[n].text.endswith(NEEDED) for n in why.claims[0].sources] == [True] * 3
    assert "replaced by neutral text of about the same length" in str(why)
    assert f"“{NEUTRAL}”" in str(why) and why.explanation.settings["removal"] == "replace"
    for call in calls:
        assert [one["page"] for one in call] == list(range(9))
        for before, after in zip(documents, call, strict=True):
            assert abs(len(before["text"]) - len(after["text"])) <= 8 * (
                1 + 2 * (level != "document")
            )
    gone = next(one for call in calls for one in call if "Sales" not in one["text"])
    assert gone["title"] == "Untitled" and "This part of the text" in gone["text"]


def test_neutral_text_of_ones_own() -> None:
    seen = set[str]()

    def answer(question: str, kept: list[str]) -> str:
        seen.update(kept)
        return moon(question, kept)

    rulerag.explain(answer, QUESTION, chunks(4, [0, 1, 2]), removal="replace", neutral="Leer hier")
    gone = {text for text in seen if "Sales" not in text}
    assert gone and all(set(text.rstrip(".").split()) == {"Leer", "hier"} for text in gone)
    assert abs(len(neutral_text(1000)) - 1000) < 6 and neutral_text(1) == "This."


def test_how_parts_are_removed_is_part_of_what_an_answer_is_kept_under() -> None:
    documents = chunks(4, [0, 1, 2])
    deleted, replaced, other = (
        Context(documents),
        Context(documents, removal="replace"),
        Context(documents, removal="replace", neutral="Leer."),
    )
    whole = [one.key([0, 1, 2, 3]) for one in (deleted, replaced, other)]
    assert len(set(whole)) == 1, "nothing is removed"
    assert len({one.key([0, 2]) for one in (deleted, replaced, other)}) == 3
    sentences = Context(documents, level="sentence")
    assert sentences.key(range(3)) == deleted.key([0]) != sentences.key(range(2))


def test_a_deleted_part_leaves_the_lines_around_it() -> None:
    text = "# One\n\nFirst here. Second there.\n\n- item one\n- item two\n\n# Two\n\nThird."
    context = Context([text], level="sentence")
    assert [one.text for one in context.passages] == [
        "# One", "First here.", "Second there.", "- item one", "- item two", "# Two", "Third.",
    ]  # fmt: skip
    assert context.given([0, 2, 4, 6]) == ["# One\n\nSecond there.\n\n- item two\n\nThird."]
    assert context.given([1, 3]) == ["First here.\n\n- item one"]
    assert context.given([]) == [] and context.given(range(7)) == [text]


@dataclass(frozen=True)
class Frozen:
    content: str
    meta: dict[str, str]


def test_documents_of_every_kind_keep_what_else_they_have() -> None:
    kinds: list[Any] = [
        "Stay here. Go away.",
        {"text": "Stay here. Go away.", "page": 3},
        Frozen("Stay here. Go away.", {"title": "F"}),
        {"document": {"content": "Stay here. Go away."}, "score": 0.2},
    ]
    langchain = pytest.importorskip("langchain_core.documents")
    kinds.append(langchain.Document("Stay here. Go away.", metadata={"source": "x"}, id="i"))
    schema = pytest.importorskip("llama_index.core.schema")
    kinds.append(schema.NodeWithScore(node=schema.TextNode(text="Stay here. Go away."), score=0.5))
    haystack = pytest.importorskip("haystack")
    kinds.append(haystack.Document(content="Stay here. Go away.", meta={"k": "v"}))
    context = Context(kinds, level="sentence")
    made = context.given(range(0, 14, 2))
    assert made[:4] == [
        "Stay here.",
        {"text": "Stay here.", "page": 3},
        Frozen("Stay here.", {"title": "F"}),
        {"document": {"content": "Stay here."}, "score": 0.2},
    ]
    assert (made[4].page_content, made[4].metadata, made[4].id) == (
        "Stay here.",
        {"source": "x"},
        "i",
    )
    assert (made[5].node.get_content(), made[5].score) == ("Stay here.", 0.5)
    assert made[5].node.node_id == kinds[5].node.node_id
    assert (made[6].content, made[6].meta) == ("Stay here.", {"k": "v"})
    assert context.given(range(14)) == kinds and kinds[0] == "Stay here. Go away."


# --- where a text is cut, and bad input ----------------------------------------------------------


def test_where_a_text_is_cut() -> None:
    def cut(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
        return [text[start:end] for start, end in spans]

    headed = "Before.\n\n# A\n\nOne. Two.\n\n## B\n\nThree."
    assert cut(headed, section_spans(headed)) == ["Before.", "# A\n\nOne. Two.", "## B\n\nThree."]
    assert cut("p 1\fp 2", section_spans("p 1\fp 2")) == ["p 1", "p 2"]
    assert cut("a b\n \n\nc d", section_spans("a b\n \n\nc d")) == ["a b", "c d"]
    plain = " ".join(f"Number {n} is here." for n in range(25))
    assert [one.count(".") for one in cut(plain, section_spans(plain))] == [10, 10, 5]
    long = " ".join(f"Number {n} is here." for n in range(400))
    assert {one.count(".") for one in cut(long, section_spans(long))} == {20}
    assert cut("He, Dr. Smith, left.", prose_spans("He, Dr. Smith, left.")) == [
        "He, Dr. Smith, left."
    ]
    clauses = "The company grew fast, which nobody knew; it sold widgets (in the north)."
    assert cut(clauses, clause_spans(clauses)) == [
        "The company grew fast,", "which nobody knew;", "it sold widgets", "(in the north).",
    ]  # fmt: skip
    assert cut("One two three four five six.", clause_spans("One two three four five six.")) == [
        "One two three four five", "six.",
    ]  # fmt: skip
    for empty in ("", " \n ", "---"):
        assert section_spans(empty) == []


def test_bad_input_is_named() -> None:
    def explained(documents: Sequence[Any], **options: Any) -> Why:
        return rulerag.explain(moon, QUESTION, documents, **options)

    for options, match in (
        ({"level": "sentense"}, "key 'level': expected 'rule' or 'group' or 'document'"),
        ({"removal": "mask"}, "key 'removal': expected 'delete' or 'replace'"),
        ({"removal": "replace", "neutral": " "}, "expected a text with a word in it"),
    ):
        with pytest.raises(ConfigError, match=match):
            explained(["a"], **options)

    class Fixed:
        @property
        def text(self) -> str:
            return "First this. Then that."

    for options in ({"level": "sentence"}, {"removal": "replace"}):
        with pytest.raises(ConfigError, match="Fixed documents cannot be copied with another text"):
            explained([Fixed()], **options)
    why = explained([" ".join(NEEDED)])
    for arguments, match in (
        ({"documents": [3]}, "3 is not among 1 documents"),
        ({"documents": [-1]}, "-1 is not among"),
        ({"level": "document"}, r"\[1\]: not two parts at the level 'document'"),
        ({"level": "page"}, "unknown level 'page'"),
    ):
        with pytest.raises(ConfigError, match=match):
            why.finer(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no document decides"):
        rulerag.explain(lambda q, d: "Yes, always.", QUESTION, ["a", "b"]).finer()
    with pytest.raises(ConfigError, match="was read from a file"):
        Why.from_json(why.to_json()).finer()


def test_empty_and_huge_documents() -> None:
    empty = rulerag.explain(moon, QUESTION, ["", " "] * 250, level="sentence")
    assert "[12] and 488 others are empty" in str(empty) and empty.num_calls <= 2
    huge = "The year was long and nothing came of it at all. " * 21_000
    with pytest.raises(ConfigError, match="21,003 parts, 20,000 at most"):
        rulerag.explain(moon, QUESTION, [huge + " ".join(NEEDED)], level="sentence")
    why = rulerag.explain(moon, QUESTION, [huge + " ".join(NEEDED)], level="section")
    (one,) = why.claims[0].sources
    assert all(needed in why.documents[one].text for needed in NEEDED)
    finer = why.finer()
    assert [finer.documents[n].text for n in finer.claims[0].sources] == list(NEEDED)
