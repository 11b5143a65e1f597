"""What scorers learned and what they see of a stored corpus is kept, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulerag.candidates.learned as learned_module
from rulerag import Document, Query, RuleQADataset
from rulerag.assembly import make_scorer, method
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Analogy
from rulerag.candidates.counts import MostFrequent, RelationPrior
from rulerag.candidates.embeddings import Embeddings, Vectors
from rulerag.candidates.learned import Learned, LearnedScorer
from rulerag.candidates.trees import Forest
from rulerag.io import StoredRecords, fingerprint_file
from rulerag.protocols import CandidateScorer, ScoredCandidates
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic import World
from rulerag.types import Fact

METHOD = "bm25-scored__candidate-scorer"


@pytest.fixture(scope="module", params=["static", "temporal"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored dataset, of undated facts and of dated ones."""
    made = World.generate(5000, kind=request.param, seed=3)
    miner = {"static": "amie", "temporal": "tlogic"}[request.param]
    settings = RuleQASettings(num_queries=30, miner=miner, min_support=2)
    dataset = build(None, made.graph, settings=settings)
    place = tmp_path_factory.mktemp(request.param) / "dataset"
    dataset.save(place)
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


def opened(folder: Path) -> tuple[RuleQADataset, LearnedScorer]:
    dataset = stored(folder)
    scorer = make_scorer(method(METHOD, static=not dataset.calendar), dataset)
    assert isinstance(scorer, LearnedScorer)
    return dataset, scorer


def told(found: Sequence[ScoredCandidates]) -> list[Any]:
    return [(one.entities, one.score.tobytes(), one.support(0)) for one in found if len(one)]


def no_learning(self: LearnedScorer) -> Any:
    raise AssertionError("learned again")


def kept_file(cache: Path, scorer: LearnedScorer) -> Path:
    """Where the weights are."""
    (place,) = [file for file in (cache / "scorers").iterdir() if "weight" in np.load(file).files]
    del scorer
    return place


def test_what_was_learned_is_read_and_answers_are_the_same_to_the_last_bit(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, first = opened(folder)
    asked = dataset.query_set("full")[:60]
    back = [replace(q, subject=q.answers[0], relation=f"^{q.relation}") for q in asked[:5]]
    scored = told(first.score(asked)), told(first.over(first.facts.reversed).score(back))
    assert isinstance(first.facts.documents, StoredRecords) and scored[0]
    with monkeypatch.context() as changed:
        changed.setattr(LearnedScorer, "_learn", no_learning)
        dataset, second = opened(folder)
        again = told(second.score(asked)), told(second.over(second.facts.reversed).score(back))
    assert again == scored
    assert second.learned.trees is not None and first.learned.trees is not None
    # Without a cache folder nothing is kept, and it is the same again.
    monkeypatch.setenv("RULERAG_CACHE", str(cache / "other"))
    _, third = opened(folder)
    assert told(third.score(asked)) == scored[0]


@pytest.mark.parametrize("damage", ["cut", "foreign", "other scorers"])
def test_what_is_torn_or_foreign_is_learned_again(folder: Path, cache: Path, damage: str) -> None:
    dataset, first = opened(folder)
    asked = dataset.query_set("full")[:20]
    scored = told(first.score(asked))
    place = kept_file(cache, first)
    whole = place.read_bytes()
    if damage == "cut":
        place.write_bytes(whole[: len(whole) // 2])
    elif damage == "foreign":
        np.savez(place, something=np.arange(3))
    else:
        with np.load(place) as arrays:
            short = {name: arrays[name] for name in arrays.files}
        np.savez(place, **{**short, "floor": short["floor"][:-1]})
    _, second = opened(folder)
    assert told(second.score(asked)) == scored
    assert Learned.read(dict(np.load(place)), len(second.scorers)) is not None


def test_other_words_or_questions_are_other_weights(folder: Path) -> None:
    dataset, scorer = opened(folder)
    same = opened(folder)[1]
    assert scorer.fingerprint == same.fingerprint
    less = LearnedScorer(scorer.facts, scorer.scorers, examples=scorer.examples[:-1])
    first = scorer.examples[0]
    asked = [replace(first, text="Otherwise asked?"), *scorer.examples[1:]]
    other = LearnedScorer(scorer.facts, scorer.scorers, examples=asked)
    every = [scorer, less, other]
    for name in ("One Name", "Another Name"):
        labels = {"entities": {dataset.corpus[0].facts[0].subject: name}}
        facts = CorpusFacts(dataset.corpus, labels)
        every.append(LearnedScorer(facts, [MostFrequent(facts)], examples=scorer.examples))
    assert len({one.fingerprint for one in every}) == len(every)


class Broken:
    """A scorer that cannot score; one of another package would not be kept either."""

    title, fingerprint = "broken", "broken"
    __module__ = "rulerag.candidates.broken"

    def __init__(self, facts: CorpusFacts) -> None:
        self.names = facts.names

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        raise RuntimeError("no scores today")

    def over(self, facts: CorpusFacts) -> CandidateScorer:
        return Broken(facts)


class Foreign(RelationPrior):
    """Its code may change while its fingerprint does not."""


def test_what_a_scorer_missed_or_strange_code_said_is_not_kept(folder: Path, cache: Path) -> None:
    facts = CorpusFacts(stored(folder).corpus)
    for strange in (Broken(facts), Foreign(facts)):
        LearnedScorer(facts, [MostFrequent(facts), strange]).score([Query("q", "?")])
        files = [np.load(file).files for file in (cache / "scorers").iterdir()]
        assert not any("weight" in names for names in files)
    LearnedScorer(facts, [MostFrequent(facts)]).score([Query("q", "?")])
    assert kept_file(cache, LearnedScorer(facts, [MostFrequent(facts)])).exists()


def test_a_stored_corpus_is_seen_as_before(folder: Path, cache: Path) -> None:
    dataset = stored(folder)
    plain, first = CorpusFacts(list(dataset.corpus)), CorpusFacts(dataset.corpus)
    again = CorpusFacts(stored(folder).corpus)
    assert len(list((cache / "scorers").iterdir())) == 1
    for one in (first, again):
        assert one.fingerprint == plain.fingerprint
        assert list(one.table) == list(plain.table) and one.is_dated is plain.is_dated
        assert one.document(len(one) - 1) == plain.document(len(one) - 1)


def test_trees_as_arrays_say_what_the_classifier_says() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    random = np.random.default_rng(0)
    numbers = random.normal(size=(800, 5)).astype(np.float32)
    numbers[random.random(numbers.shape) < 0.1] = np.nan
    right = np.nan_to_num(numbers[:, 0]) + np.isnan(numbers[:, 1]) > 0.3
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(numbers, right)
    forest = Forest.of(model)
    assert forest.margins(numbers).tobytes() == model.decision_function(numbers).tobytes()
    arrays = {name: np.array(of) for name, of in forest._asdict().items()}
    read = Forest.read(arrays)
    assert read is not None and read.margins(numbers).tobytes() == forest.margins(numbers).tobytes()
    inner = int(np.flatnonzero(arrays["nodes"]["is_leaf"] == 0)[0])
    for field, value in (("left", 10_000), ("right", 0), ("feature_idx", 5), ("is_categorical", 1)):
        nodes = arrays["nodes"].copy()
        nodes[field][inner] = value
        assert Forest.read({**arrays, "nodes": nodes}) is None, field
    for name, other in (
        ("nodes", arrays["nodes"]["value"]),
        ("sizes", arrays["sizes"][:-1]),
        ("start", np.zeros(2)),
        ("features", np.array([1])),
    ):
        assert Forest.read({**arrays, name: other}) is None, name
    assert Forest.read({"nodes": arrays["nodes"]}) is None


def test_vectors_that_were_trained_again_are_other_vectors(tmp_path: Path) -> None:
    rows = [Fact(f"s{n}", "has", f"o{n % 3}") for n in range(9)]
    facts = CorpusFacts([Document(f"d{n}", "", (one,)) for n, one in enumerate(rows)])
    names = tuple(facts.names), tuple(facts.table.relations.names)
    prints = []
    for value in (0.5, 0.25):
        sizes = np.full((len(names[0]), 4), value, np.float32), np.ones((2, 4), np.float32)
        Vectors(*names, *sizes, facts.fingerprint).save(tmp_path)
        prints.append(Embeddings(facts, folder=str(tmp_path)).fingerprint)
    assert prints[0] != prints[1]


def test_few_questions_move_weights_little() -> None:
    """The same answers, asked of five subjects and of hundreds: five may be chance."""
    rows = [Fact(f"s{n}", "has", f"o{n % 3}") for n in range(900)]
    rows += [Fact(f"s{n}", "is", f"k{n % 3}") for n in range(900)]
    new = [Fact(f"new{n}", "is", f"k{n % 3}") for n in range(400)]
    facts = CorpusFacts([Document(f"d{n}", "", (one,)) for n, one in enumerate([*rows, *new])])
    asked = [
        Query(f"q{n}", "?", f"new{n}", "has", answers=(f"o{n % 3}",), prediction=True)
        for n in range(280)
    ]
    sizes = []
    for many in (30, 280):
        joined = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)], examples=asked[:many])
        assert joined.learned.questions == many
        sizes.append(joined.weights()["analogy-2"])
        found = joined.score(asked)
        assert [one.entities[0] for one in found] == [q.answers[0] for q in asked]
    assert 0 < sizes[0] < sizes[1]
