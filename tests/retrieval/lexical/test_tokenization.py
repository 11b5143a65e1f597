"""Tokens: dates, stop words, lengths."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.lexical.tokenization import Tokenizer, rewrite_dates

TEXT = "Time 2014-06-23 what does Citizen_(Nigeria) Make_an_appeal to O'Neill ?"


@pytest.mark.parametrize(
    ("dates", "expected"),
    [("token", ["20140623"]), ("split", ["2014", "06", "23"]), ("drop", [])],
)
def test_dates_are_one_word_three_or_none(dates: str, expected: list[str]) -> None:
    words = Tokenizer(dates=dates)(TEXT)
    rest = ["what", "does", "citizen", "nigeria", "make", "appeal", "o", "neill"]
    assert words == ["time", *expected, *rest]


def test_only_whole_dates_are_dates() -> None:
    assert rewrite_dates("12014-06-23 2014-06-231 2014-6-23", "token") == (
        "12014-06-23 2014-06-231 2014-6-23"
    )
    assert Tokenizer(dates="token")("(2014-06-23)/2015-01-02") == ["20140623", "20150102"]


def test_stop_words_and_short_words() -> None:
    assert Tokenizer()("To be or not to be") == []
    assert Tokenizer(stopwords="none")("To be") == ["to", "be"]
    assert Tokenizer(stopwords=("Time",))("Time to go") == ["to", "go"]
    assert Tokenizer(stopwords="none", min_length=3)("a an ant Ünal") == ["ant", "ünal"]


def test_settings_give_the_same_tokenizer() -> None:
    for tokenizer in (
        Tokenizer(),
        Tokenizer(dates="drop", stopwords=("time", "what"), min_length=2),
    ):
        again = Tokenizer(**tokenizer.settings())
        assert again == tokenizer
        assert again(TEXT) == tokenizer(TEXT)


@pytest.mark.parametrize(
    ("options", "key"),
    [({"dates": "keep"}, "dates"), ({"stopwords": "fr"}, "stopwords"), ({"min_length": 0}, "min_")],
)
def test_unknown_options_are_named(options: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Tokenizer(**options)  # type: ignore[arg-type]


def test_languages_without_spaces_are_split_into_pairs_of_letters() -> None:
    assert Tokenizer()("王伟在北京 works 2023年") == [
        *("王伟", "伟在", "在北", "北京", "works", "2023", "年"),
    ]
    assert Tokenizer(dates="token")("2023-01-02東京") == ["20230102", "東京"]
    assert Tokenizer()("Düsseldorf Ünal") == ["düsseldorf", "ünal"]
