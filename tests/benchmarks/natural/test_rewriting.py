"""Prose says what the facts said, in several ways, and keeps nothing but the words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.natural.rewriting import main, natural_dataset, natural_texts, wordings_of
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.types import Document, Fact, Query

DAYS = {"unit": "day", "origin": "2020-01-01", "step": 1}
ENTITIES = {f"e{n}": f"Entity {n:02d}" for n in range(30)}
RELATIONS = {"consult": "Consult", "keeper": "chief keeper", "works": "works for"}


def dataset(*, calendar: dict[str, object] | None = None) -> RuleQADataset:
    calendar = DAYS if calendar is None else calendar
    facts = [
        Fact(f"e{n % 5}", relation, f"e{5 + (7 * n + 3 * k) % 25}", n % 9 if calendar else None)
        for n in range(60)
        for k, relation in enumerate(RELATIONS)
    ]
    corpus = [Document(f"d{n:03d}", "as data", (fact,)) for n, fact in enumerate(facts)]
    asked = [(f"e{n % 5}", relation) for n in range(10) for relation in RELATIONS]
    queries = [
        Query(f"q{n}", "as data", *ends, 20 if calendar else None, ("Entity 07",))
        for n, ends in enumerate(asked)
    ]
    return RuleQADataset(
        corpus=corpus,
        queries={"test": queries},
        qrels={"test": {"q0": {"d000": 1, "d015": 2}}},
        labels={"entities": ENTITIES, "relations": RELATIONS},
        info=DatasetInfo("small", calendar),
        prediction=True,
    )


def test_a_text_names_both_ends_and_the_day_and_holds_no_facts() -> None:
    before, after = dataset(), natural_dataset(dataset())
    assert [one.id for one in after.corpus] == [one.id for one in before.corpus]
    for old, new in zip(before.corpus, after.corpus, strict=True):
        (fact,) = old.facts
        assert ENTITIES[fact.subject] in new.text
        assert ENTITIES[fact.object] in new.text
        day = 1 + (fact.timestamp or 0)
        assert re.search(rf"\b({day} January 2020|January {day}, 2020)\b", new.text)
        assert not new.facts
        assert not new.entities
        assert new.text[0].isupper()
        assert new.text.endswith(".")


def test_questions_keep_what_they_mean() -> None:
    before, after = dataset(), natural_dataset(dataset())
    for old, new in zip(before.queries["test"], after.queries["test"], strict=True):
        assert replace(new, text=old.text) == old
        assert ENTITIES[new.subject] in new.text
        assert "Entity 07" not in new.text or new.subject == "e7"
        assert "21 January 2020" in new.text or "January 21, 2020" in new.text
        assert new.text.endswith("?")


def test_paragraphs_are_about_one_subject_and_say_nothing_twice() -> None:
    before = dataset()
    after = natural_dataset(before, most_facts=3)
    assert len(before.corpus) / 3 <= len(after.corpus) < len(before.corpus)
    for one in after.corpus:
        assert one.id in before.documents
        assert len({name for name in ENTITIES.values() if name in one.text}) <= 4
    stated = {fact[:3] for one in before.corpus for fact in one.facts}
    whole = " ".join(one.text for one in after.corpus)
    for name, label in ENTITIES.items():
        assert (label in whole) == any(name in fact for fact in stated)
    grades = after.qrels("test")["q0"]
    assert set(grades) <= {one.id for one in after.corpus}
    assert max(grades.values()) == 2


def test_years_articles_and_several_wordings() -> None:
    years = {"unit": "year", "origin": "1900", "step": 1}
    texts = [one.text for one in natural_dataset(dataset(calendar=years)).corpus]
    assert all(re.search(r"\b[Ii]n 190[0-8]\b", text) for text in texts)
    masked = {re.sub(r"Entity \d+|190\d", "X", text) for text in texts}
    assert len(masked) > 9, "three relations in several wordings each"
    fact = Fact("Ann", "profession", "actor")
    one = RuleQADataset(corpus=[Document("d", "as data", (fact,))], queries={})
    said = {natural_dataset(one, seed=seed).corpus[0].text for seed in range(20)}
    assert "Ann works as an actor." in said


def test_every_wording_has_its_blanks() -> None:
    for label in ("consult", "head of government", "chief keeper", "gave up", "Make a plan"):
        known = wordings_of(label)
        assert len(set(known.statements)) > 1
        for template in known.statements:
            assert template.count("{x}") == template.count("{y}") == 1
        for template in known.questions:
            assert template.count("{x}") == 1
            assert "{y}" not in template


def test_texts_are_linked_by_their_words_and_written_to_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for old, new in zip(dataset().corpus, natural_texts(dataset()).corpus, strict=True):
        (fact,) = old.facts
        assert set(new.entities) == {fact.subject, fact.object}
        assert new.timestamp == fact.timestamp
    dataset().save(tmp_path / "facts")
    assert main([str(tmp_path / "facts"), "--out", str(tmp_path / "texts"), "--facts", "3"]) == 0
    after = RuleQADataset.load(tmp_path / "texts")
    texts = f"{len(after.corpus)} texts, {len(after.corpus)} of which mention somebody known"
    assert texts in capsys.readouterr().out
    assert main([str(tmp_path / "texts"), "--out", str(tmp_path / "twice")]) == 2
    assert "states no fact" in capsys.readouterr().err
    assert main([str(tmp_path / "facts"), "--out", str(tmp_path / "none"), "--facts", "0"]) == 2
    assert "most_facts" in capsys.readouterr().err
