"""What scorers learned and what they see of a stored corpus is kept, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulerag.candidates.learned as learned_module
from rulerag import Document, Query, RuleQADataset
from rulerag.assembly import make_scorer, method
from rulerag.candidates import CorpusFacts
from rulerag.candidates.counts import MostFrequent, RelationPrior
from rulerag.candidates.learned import Learned, LearnedScorer
from rulerag.io import StoredRecords, fingerprint_file
from rulerag.protocols import ScoredCandidates
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic import World

METHOD = "bm25-scored__candidate-scorer"
Opened = tuple[RuleQADataset, LearnedScorer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored dataset of undated facts."""
    place = tmp_path_factory.mktemp("static") / "dataset"
    settings = RuleQASettings(num_queries=30, miner="amie", min_support=2)
    build(None, World.generate(5000, kind="static", seed=3).graph, settings=settings).save(place)
    return place


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(learned_module, "_MANY", 80)  # so that there are trees
    return tmp_path / "cache"


def stored(folder: Path) -> RuleQADataset:
    """Opened anew, with the documents as those of a large folder are that was opened before."""
    dataset = RuleQADataset.load(folder)
    corpus = folder / "corpus.jsonl"
    dataset.corpus = StoredRecords(corpus, Document.from_json, fingerprint_file(corpus))
    return dataset


def opened(folder: Path) -> Opened:
    dataset = stored(folder)
    scorer = make_scorer(method(METHOD, static=True), dataset)
    assert isinstance(scorer, LearnedScorer)
    return dataset, scorer


def content(found: Sequence[ScoredCandidates]) -> list[Any]:
    return [(one.entities, one.score.tobytes(), one.support(0)) for one in found if len(one)]


def weight_files(cache: Path) -> list[Path]:
    return [file for file in (cache / "scorers").iterdir() if "learned" in np.load(file).files]


def test_answers_are_the_same_to_the_last_bit_from_what_was_kept(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, first = opened(folder)
    asked = dataset.query_set("full")[:60]
    back = [replace(q, subject=q.answers[0], relation=f"^{q.relation}") for q in asked[:5]]
    scored = content(first.score(asked)), content(first.over(first.facts.reversed).score(back))
    assert scored[0] and first.learned.trees is not None
    with monkeypatch.context() as changed:
        changed.setattr(LearnedScorer, "_learn", lambda _: pytest.fail("learned again"))
        _, second = opened(folder)
        again = (
            content(second.score(asked)),
            content(second.over(second.facts.reversed).score(back)),
        )
    assert again == scored
    # What is torn or foreign is learned again, to the same.
    for place in weight_files(cache):
        whole = place.read_bytes()
        place.write_bytes(whole[: len(whole) // 2])
    assert content(opened(folder)[1].score(asked)) == scored[0]


@pytest.mark.parametrize("damage", [lambda _: b"", lambda whole: whole[:-99], lambda _: _foreign()])
def test_bytes_that_are_no_weights_are_none(damage: Callable[[bytes], bytes]) -> None:
    values = [np.zeros(1), *(np.ones(2) for _ in range(3))]
    learned = Learned(*values, {4: np.ones(2)}, 7, float("nan"))
    again = Learned.from_bytes(learned.to_bytes())
    assert again is not None and again.own[4].tolist() == [1, 1] and again.questions == 7
    assert Learned.from_bytes(damage(learned.to_bytes())) is None


def _foreign() -> bytes:
    """A type that might run code when it is read."""
    import skops.io

    content: bytes = skops.io.dumps({"floor": Broken})
    return content


def test_other_words_or_questions_are_other_weights(folder: Path) -> None:
    dataset, scorer = opened(folder)
    assert scorer.fingerprint == opened(folder)[1].fingerprint
    first, *rest = scorer.examples
    every = [scorer]
    for examples in (rest, [replace(first, text="Otherwise asked?"), *rest]):
        every.append(LearnedScorer(scorer.facts, scorer.scorers, examples=examples))
    for name in ("One Name", "Another Name"):
        labels = {"entities": {dataset.corpus[0].facts[0].subject: name}}
        facts = CorpusFacts(dataset.corpus, labels)
        every.append(LearnedScorer(facts, [MostFrequent(facts)], examples=scorer.examples))
    assert len({one.fingerprint for one in every}) == len(every)


class Broken(RelationPrior):
    """A scorer of the library's own that cannot score."""

    __module__ = "rulerag.candidates.broken"

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        raise RuntimeError("no scores today")


class Foreign(RelationPrior):
    """Its code may change while its fingerprint does not."""


def test_what_a_scorer_missed_or_strange_code_scored_is_not_kept(folder: Path, cache: Path) -> None:
    facts = CorpusFacts(stored(folder).corpus)
    for strange, number in ((Broken, 0), (Foreign, 0), (RelationPrior, 1)):
        LearnedScorer(facts, [MostFrequent(facts), strange(facts)]).score([Query("q", "?")])
        assert len(weight_files(cache)) == number


def test_a_stored_corpus_is_seen_as_before(folder: Path, cache: Path) -> None:
    dataset = stored(folder)
    plain, first = CorpusFacts(list(dataset.corpus)), CorpusFacts(dataset.corpus)
    again = CorpusFacts(stored(folder).corpus)
    assert len(list((cache / "scorers").iterdir())) == 1
    for one in (first, again):
        assert one.fingerprint == plain.fingerprint and list(one.table) == list(plain.table)
        assert one.document(len(one) - 1) == plain.document(len(one) - 1)
