"""Words that mean much the same, and relations found by them."""

from __future__ import annotations

from pathlib import Path

import pytest

import rulerag
from rulerag.errors import DataError
from rulerag.io import read_text
from rulerag.linking.relations import RelationRanker, SharedMeanings, shared_words
from rulerag.linking.words.wordnet import Thesaurus, thesaurus
from training.shipped import thesaurus as made

# Two senses of "film", of "movie" the first; "picture show" derives from it; "show" is above.
LINES = ["film1 movie1\t2\t", "film2 layer1\t\t", "show1\t\t0"]


def test_likeness_of_words() -> None:
    few = Thesaurus(LINES)
    assert few.alike("film", "movie") > few.alike("film", "layer") > 0
    assert 0 < few.alike("movie", "show") < 1 == pytest.approx(few.alike("movie", "movies"))
    assert few.alike("layer", "movie") == 0 == few.alike("zxqwv", "movie")
    shape = few.vectors(["film", "zxqwv"]).shape
    assert shape == (2, 3)


@pytest.mark.parametrize(
    ("word", "other"),
    [("wed", "married"), ("nation", "country"), ("criticism", "criticized"), ("films", "movie")],
)
def test_the_thesaurus_that_is_shipped(word: str, other: str) -> None:
    assert thesaurus().alike(word, other) > 0.3 > thesaurus().alike(word, "river")
    assert word in thesaurus() and "basketbal" not in thesaurus()
    assert thesaurus().tokens(["who", "looked", "into", "it"])[1] == ("look into", 1, 3)


def test_relations_by_other_words() -> None:
    ranker = RelationRanker({name: [name] for name in ("criticize", "is married to", "owns")})
    asked = ["who did \0 wed ?", "who criticised \0 ?", "who possesses \0 ?"]
    best = ranker.signs(asked).sum(axis=2).argmax(axis=1)
    assert [ranker.names[n] for n in best] == ["is married to", "criticize", "owns"]


def test_texts_without_words_count_nothing() -> None:
    found = SharedMeanings(["what does", "works"]).scores("who worked for \0 ?")
    assert found[:, 0].tolist() == [0, 0] and found[:, 1].all()
    assert SharedMeanings(["what"]).scores("who ?").tolist() == [[0], [0]]
    assert RelationRanker({}).signs(["who ?"]).shape == (1, 0, 3)


def test_where_the_relation_stands() -> None:
    def said(text: str, label: str) -> tuple[list[str], bool]:
        places, stated = shared_words(text, label)
        return [text[start:end] for start, end in places], stated

    assert said("who works for \0", "works for") == (["works", "for"], True)
    assert said("who is wed to \0", "married") == (["wed"], True)
    assert said("who looks into \0", "investigate") == (["looks into"], True)
    assert said("who zxqwvs \0", "investigate") == (["zxqwvs"], False)


def test_it_is_made_from_the_files_of_wordnet(tmp_path: Path) -> None:
    data = {
        "noun": ["  1 licence", "01 04 n 02 film 0 Movie 0 001 @ 02 n 0000 | a film"],
        "verb": ["03 04 v 01 film 0 001 + 01 n 0101 01 + 02 00 | to film"],
        "adj": [],
        "adv": [],
    }
    data["noun"].append("02 04 n 01 show 0 000 | a show")
    for part, lines in data.items():
        (tmp_path / f"data.{part}").write_text("\n".join(lines), encoding="latin-1")
    rows = ["film%1:04:00:: 01 1 3", "film%2:04:00:: 03 1 5", "show%1:04:00:: 02 1 0"]
    (tmp_path / "index.sense").write_text("\n".join(rows), encoding="latin-1")
    lines = [line for line in made.make(tmp_path).splitlines() if not line.startswith("#")]
    # Sorted by part of speech: film (noun), what is above it, film (verb), which occurs more.
    assert lines == ["film2\t1\t", "\t\t", "film1\t\t0"]
    assert Thesaurus(lines).alike("film", "film") == pytest.approx(1)


def test_the_shipped_verbs_are_those_of_the_shipped_thesaurus() -> None:
    package = Path(rulerag.__file__).parent
    lines = read_text(package / "linking" / "words" / "thesaurus.txt.gz").splitlines()
    assert made.verbs(lines) == read_text(package / "kg" / "verbs.txt").split()
    with pytest.raises(DataError, match="breathe"):
        made.verbs(lines[:20])


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made.main([str(tmp_path), "--out", str(tmp_path / "t.txt.gz")]) == 2
    assert "index.sense" in capsys.readouterr().err
