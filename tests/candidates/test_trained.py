"""Trained vectors: what they find, say, and refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rulerag import Document, Query
from rulerag.candidates import CorpusFacts
from rulerag.candidates.embeddings import FILE, Embeddings
from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.io import read_json
from rulerag.types import Fact
from training.embeddings import (
    ComplEx,
    EmbeddingSettings,
    directions,
    mean_reciprocal_rank,
    train_embeddings,
    turned,
)


def corpus() -> list[Document]:
    """People of two towns: who works in a town's office lives in the town."""
    facts = []
    for number in range(60):
        person, town = f"person{number}", number % 2
        facts.append(Fact(person, "office", f"office{town}"))
        if number < 50:
            facts.append(Fact(person, "town", f"town{town}"))
    return [Document(f"d{n}", " ".join(fact[:3]), (fact,)) for n, fact in enumerate(facts)]


def asked(number: int, relation: str = "town") -> Query:
    return Query("q", "?", f"person{number}", relation, prediction=True)


@pytest.fixture(scope="module")
def facts() -> CorpusFacts:
    return CorpusFacts(corpus())


@pytest.fixture(scope="module")
def folder(facts: CorpusFacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vectors")
    train_embeddings(settings(out), facts=facts)
    return out


def settings(out: Path, **changes: int) -> EmbeddingSettings:
    return EmbeddingSettings(dataset="none", out=str(out), **{"rank": 8, "epochs": 15, **changes})


def test_vectors_find_what_the_facts_imply_and_say_what_shows_it(
    facts: CorpusFacts, folder: Path
) -> None:
    found = Embeddings(facts, folder=str(folder)).score([asked(number) for number in range(50, 60)])
    right = [one.entities[0] == f"town{n % 2}" for n, one in zip(range(50, 60), found, strict=True)]
    assert sum(right) >= 9
    (reason,) = found[0].support(0)
    assert reason.facts[0].relation == "town" and reason.facts[0].object == found[0].entities[0]
    assert "the nearest vector" in reason.why
    assert Embeddings(facts, folder=str(folder)).score([asked(99)])[0].entities == []
    # Of facts with their ends swapped the reciprocal relation is asked.
    who = Embeddings(facts.reversed, folder=str(folder)).score(
        [Query("q", "?", "town1", "town", prediction=False)]
    )[0]
    assert np.mean([int(name.removeprefix("person")) % 2 for name in who.entities[:10]]) > 0.8


def test_a_killed_training_goes_on_to_the_same_vectors(
    facts: CorpusFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = settings(tmp_path / "whole", epochs=4), settings(tmp_path / "cut", epochs=4)
    expected = train_embeddings(whole, facts=facts)
    keep, left = ComplEx.keep, [2]

    def kill(self: ComplEx, mrr: float) -> None:
        keep(self, mrr)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(ComplEx, "keep", kill)
        train_embeddings(cut, facts=facts)
    assert train_embeddings(cut, facts=facts)["history"] == expected["history"]
    one, other = (np.load(tmp_path / name / FILE)["entities"] for name in ("whole", "cut"))
    assert (one == other).all()
    assert train_embeddings(cut, facts=facts) == train_embeddings(cut, facts=facts)


def test_the_vectors_are_those_of_the_first_best_epoch(
    facts: CorpusFacts, folder: Path, tmp_path: Path
) -> None:
    best = read_json(folder / "metrics.json")["best_step"]
    assert best < 15, "later epochs are as good or worse"
    train_embeddings(settings(tmp_path / "short", epochs=best), facts=facts)
    one, other = (np.load(place / FILE)["entities"] for place in (folder, tmp_path / "short"))
    assert (one == other).all()


def test_ranks_are_those_among_objects_that_are_not_known() -> None:
    random = np.random.default_rng(0)
    rows = np.unique(random.integers(0, (8, 2, 8), (40, 3)), axis=0)
    kept, known = rows[::5], np.delete(rows, np.s_[::5], axis=0)
    model = ComplEx({"entities": 8, "relations": 4}, 3, seed=0)
    vectors, turns = model.entities.weight.detach(), model.relations.weight.detach()
    ranks = []
    for subject, relation, answer in kept.tolist():
        scores = (turned(vectors[subject], turns[relation]) @ vectors.T).tolist()
        objects = {o for _, r, o in known.tolist() if r == relation}
        others = objects - {o for s, r, o in known.tolist() if (s, r) == (subject, relation)}
        better = sum(scores[other] > scores[answer] for other in others)
        ranks.append(1 / (1 + better) if answer in objects else 0.0)
    assert mean_reciprocal_rank(model, directions(known, 2), kept) == pytest.approx(np.mean(ranks))


def test_vectors_of_other_facts_are_refused(
    facts: CorpusFacts, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(FingerprintError, match="other facts"):
        Embeddings(facts.select(np.arange(3)), folder=str(folder))
    with pytest.raises(DataError, match=r"no vectors.*training\.embeddings"):
        Embeddings(facts, folder=str(tmp_path))
    (tmp_path / FILE).write_bytes(b"no archive")
    with pytest.raises(DataFormatError, match="holds no vectors"):
        Embeddings(facts, folder=str(tmp_path))
