"""Text as the field scores it: SQuAD's normalisation, containment on token boundaries, spans."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, strategies as st

from rulerag.text import (
    NameFinder,
    best_token_f1,
    character_f1,
    contains_answer,
    contains_normalized,
    exact_match,
    lenient_match,
    normalize_answer,
    normalize_answers,
    sentence_spans,
    token_f1,
    tokenize,
)

WORDS = st.lists(st.text("abcxyz019", min_size=1, max_size=5), min_size=1, max_size=6)
PROSE = st.text(alphabet="aB1 .!?\"')([\n\t\u00a0é", max_size=60)


@given(st.lists(st.one_of(st.text(max_size=8), st.text("aAn the\n.,ΣσόΣ\u0130\r", max_size=12))))
def test_many_texts_are_normalised_as_one_is(texts: list[str]) -> None:
    assert normalize_answers(texts) == [normalize_answer(text) for text in texts]


def squad_v1_1(text: str) -> str:
    """The normalisation of SQuAD's evaluation script v1.1, step by step as it stands there."""

    def remove_articles(text: str) -> str:
        return re.sub(r"\b(a|an|the)\b", " ", text)

    def white_space_fix(text: str) -> str:
        return " ".join(text.split())

    def remove_punc(text: str) -> str:
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(text.lower())))


@given(text=st.text() | PROSE | st.sampled_from(["An A-team, the U.S.'s best!", "the   THE a"]))
def test_normalisation_is_squads_except_for_texts_of_articles_alone(text: str) -> None:
    theirs = squad_v1_1(text)
    assert normalize_answer(text) == (theirs or " ".join(tokenize(text)))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple a day", "apple day"),
        ("U.S.", "us"),
        ("Xinjiang\u00a0Uyghur", "xinjiang uyghur"),
        ("Côte d'Ivoire", "côte divoire"),
        ("The The", "the the"),
        ("A", "a"),
        ("...", ""),
        ("", ""),
    ],
)
def test_normalised_forms(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "answer", "f1"),
    [
        ("Barack Obama", "obama", 2 / 3),
        ("Citizen (Thailand)", "Citizen (India)", 1 / 2),
        ("new new york", "york new new", 1.0),
        ("new york", "new new new york", 2 / 3),  # a repeated token counts once for each pair
        ("Paris", "London", 0.0),
        ("", "London", 0.0),
        ("", "", 0.0),
    ],
)
def test_token_f1_by_hand(prediction: str, answer: str, f1: float) -> None:
    assert token_f1(prediction, answer) == pytest.approx(f1)


@given(one=WORDS, two=WORDS)
def test_token_f1_is_symmetric_bounded_and_one_exactly_on_the_same_bag(
    one: list[str], two: list[str]
) -> None:
    left, right = " ".join(one), " ".join(two)
    value = token_f1(left, right)
    assert value == pytest.approx(token_f1(right, left))
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (sorted(tokenize(left)) == sorted(tokenize(right)))
    assert exact_match(left, [right]) <= value
    assert best_token_f1(left, ["nothing of it", right]) == value


# --- as RuleRAG's published evaluator scores -----------------------------------------------------

PLACES = NameFinder(["China", "Citizen (China)", "South Korea", "Korea", "The Gambia", "..."])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("I think it is South Korea, or China.", "south korea"),
        ("Citizen (China)", "citizen china"),
        ("North Korea or the Gambia", "korea"),
        ("Chinatown", None),
        ("", None),
    ],
)
def test_the_first_known_name_is_the_longest_that_begins_first(
    text: str, first: str | None
) -> None:
    assert PLACES.first(text) == first


def test_lenient_match_takes_the_first_name_alone() -> None:
    assert lenient_match("The answer is China.", ["Korea", "China"], PLACES) == 1.0
    assert exact_match("The answer is China.", ["Korea", "China"]) == 0.0
    assert lenient_match("Korea, not China", ["China"], PLACES) == 0.0
    assert lenient_match("Citizen (China)", ["China"], PLACES) == 0.0
    assert lenient_match("Atlantis", ["Atlantis"], PLACES) == 0.0, "no entity of the dataset"
    assert lenient_match("", [""], PLACES) == 0.0


@given(names=st.lists(WORDS, max_size=5), text=WORDS)
def test_the_first_name_is_that_of_all_runs_of_tokens(
    names: list[list[str]], text: list[str]
) -> None:
    known = {normalize_answer(" ".join(name)) for name in names}
    tokens = tokenize(" ".join(text))
    runs = [
        " ".join(tokens[start:end])
        for start in range(len(tokens))
        for end in range(len(tokens), start, -1)
    ]
    expected = next((run for run in runs if run in known), None)
    assert NameFinder(map(" ".join, names)).first(" ".join(text)) == expected


@pytest.mark.parametrize(
    ("prediction", "answer", "f1"),
    [
        ("the abc", "ABC", 1.0),
        ("abcd", "ab", 2 / 3),
        ("aab", "abb", 2 / 3),
        ("a b", "b", 1.0),  # the article goes before the letters are counted
        ("", "", 0.0),
    ],
)
def test_character_f1_by_hand(prediction: str, answer: str, f1: float) -> None:
    assert character_f1(prediction, answer) == pytest.approx(f1)


# --- containment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("Time 2014-06-23 Japan visits South Korea.", ["South Korea"], True),
        ("Time 2014-06-23 Japan visits South Korea.", ["korea"], True),
        ("The Nigerian army moved.", ["Niger"], False),
        ("Police (Nigeria) spoke.", ["police nigeria"], True),
        ("South and North Korea", ["South Korea"], False),
        ("They met the president.", ["The President"], True),
        ("He met Romania.", ["Oman"], False),
        ("Oman", ["Oman"], True),
        ("Oman", ["", "..."], False),
    ],
)
def test_an_answer_is_contained_on_token_boundaries_only(
    text: str, answers: list[str], found: bool
) -> None:
    assert contains_answer(text, answers) is found


@given(before=WORDS, inside=WORDS, after=WORDS)
def test_containment_is_a_run_of_tokens(
    before: list[str], inside: list[str], after: list[str]
) -> None:
    answer = " ".join(inside)
    tokens, wanted = tokenize(" ".join(before + inside + after)), tokenize(answer)
    runs = [tokens[i : i + len(wanted)] for i in range(len(tokens) - len(wanted) + 1)]
    text = " ".join(before + inside + after)
    assert contains_answer(text, [answer]) == (wanted in runs)
    assert contains_normalized(" ".join(tokens), [" ".join(wanted)]) == (wanted in runs)


# --- spans -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("  One.\n\nTwo  ", ["One.", "Two"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("It cost 3.5 euros. 20 came.", ["It cost 3.5 euros.", "20 came."]),
        ("e.g. this stays whole", ["e.g. this stays whole"]),
        ("(One.) (Two.)", ["(One.)", "(Two.)"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@given(text=PROSE | st.text())
def test_sentence_spans_are_ordered_trimmed_and_hold_everything_but_white_space(text: str) -> None:
    spans = sentence_spans(text)
    ends = [0]
    for start, end in spans:
        assert ends[-1] <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        ends.append(end)
    outside = [text[a:b] for a, (b, _) in zip(ends, [*spans, (len(text), 0)], strict=True)]
    assert "".join(outside).strip() == ""
