"""A dataset asked of texts: they are read once for each state of texts and dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.natural.rewriting import natural_dataset
from rulerag.cache import cache_root
from rulerag.extraction import over_texts
from rulerag.io import StoredRecords, fingerprint_file, write_jsonl
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic import World
from rulerag.types import Document, Fact


@pytest.fixture(autouse=True)
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "texts"


def dataset_of(world: World) -> RuleQADataset:
    graph = world.graph
    documents = [Document(f"d{n}", "x", (fact,)) for n, fact in enumerate(graph.train)]
    dataset = RuleQADataset(corpus=documents, queries={})
    calendar = graph.calendar
    dataset.calendar = {"unit": calendar.unit, "origin": calendar.origin, "step": calendar.step}
    return dataset


def stored(path: Path, documents: list[Document]) -> StoredRecords[Document]:
    write_jsonl(path, (one.to_json() for one in documents))
    return StoredRecords(path, Document.from_json, fingerprint_file(path))


def prose(world: World) -> list[Document]:
    """Sentences, a title, a text about nobody, and one that states a fact already."""
    documents = list(natural_dataset(dataset_of(world)).corpus)
    fact = next(iter(world.graph.train))
    given = Document("own", "It is so.", (Fact("Nobody", fact.relation, "Else", fact.timestamp),))
    titled = replace(documents[0], id="titled", title=fact.subject)
    return [*documents, titled, Document("rain", "It rained."), given]


@pytest.fixture(scope="module")
def world() -> World:
    return World.generate(300, kind="temporal", seed=3)


def test_what_was_kept_is_what_is_read(world: World, tmp_path: Path, folder: Path) -> None:
    dataset, documents = dataset_of(world), prose(world)
    plain = over_texts(dataset, documents)
    assert not folder.exists()  # nothing names texts that are stored nowhere
    assert sum(bool(one.facts) for one in plain.corpus) > 50
    first = over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
    again = over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
    assert list(plain.corpus) == list(first.corpus) == list(again.corpus)
    assert plain.fingerprint == first.fingerprint == again.fingerprint
    assert first.corpus.fingerprint == again.corpus.fingerprint  # type: ignore[attr-defined]
    (kept,) = folder.iterdir()
    with np.load(kept) as arrays:  # numbers and names, no text
        assert not any(b"according to" in arrays[name].tobytes() for name in arrays.files)


@pytest.mark.parametrize("damage", ["cut", "text", "other", "names", "starts", "rows"])
def test_what_is_damaged_or_foreign_is_read_anew(
    world: World, damage: str, tmp_path: Path, folder: Path
) -> None:
    dataset, documents = dataset_of(world), prose(world)
    whole = over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
    (kept,) = folder.iterdir()
    good = kept.read_bytes()
    with np.load(kept) as archive:
        arrays = dict(archive)
    match damage:
        case "cut":
            kept.write_bytes(good[: len(good) // 2])
        case "text":
            kept.write_text("nothing of ours")
        case "other":
            np.savez(kept, facts=np.zeros(3))
        case "names":
            np.savez(kept, **(arrays | {"names": np.frombuffer(b"[[], 3]", dtype=np.uint8)}))
        case "starts":
            np.savez(kept, **(arrays | {"fact_starts": arrays["fact_starts"][:-1]}))
        case "rows":
            np.savez(kept, **(arrays | {"facts": arrays["facts"] + 10**6}))
    again = over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
    assert list(again.corpus) == list(whole.corpus)
    assert again.fingerprint == whole.fingerprint
    assert kept.read_bytes() == good


def test_other_texts_and_other_facts_are_read(world: World, tmp_path: Path, folder: Path) -> None:
    dataset, documents = dataset_of(world), prose(world)
    over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
    fact = next(iter(world.graph.train))
    day = world.graph.calendar.format(fact.timestamp or 0)
    new = Document("new", f"On {day}, {fact.subject} saw Zoe Lang.")
    grown = over_texts(dataset, stored(tmp_path / "texts.jsonl", [*documents, new]))
    assert grown.documents["new"].entities == (fact.subject,)
    met = Fact(fact.subject, "sees", "Zoe Lang", fact.timestamp)
    more = RuleQADataset(
        corpus=[*dataset.corpus, Document("met", "x", (met,))], queries={}, info=dataset.info
    )
    known = over_texts(more, stored(tmp_path / "texts.jsonl", [*documents, new]))
    assert known.documents["new"].facts == (met,)
    assert len(list(folder.iterdir())) == 3


def test_where_nothing_can_be_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "file" / "below"))
    dataset, documents = dataset_of(world), prose(world)
    for _ in range(2):
        over = over_texts(dataset, stored(tmp_path / "texts.jsonl", documents))
        assert list(over.corpus) == list(over_texts(dataset, documents).corpus)
    assert not cache_root().exists()
