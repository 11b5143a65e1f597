"""Self-made pairs, the stages of the small encoder, and the one that ships."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import rulerag
from rulerag.errors import ConfigError
from rulerag.io import read_json
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.retrieval.dense.encoders.load import NANO_ENCODER, load_encoder
from rulerag.ruleqa.settings import BENCHMARKS
from rulerag.ruleqa.validation_split import with_held_out
from rulerag.synthetic.world import World
from training.common.tiny import make_encoder, save_half, train_tokenizer
from training.shipped.encoder.figures import world_figures
from training.shipped.encoder.make import corpus_graph, nano_card, sources
from training.shipped.encoder.pairs import PairBatch, PairSource
from training.shipped.encoder.stages import Stage, embed, masked_batch, train_masked, train_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast


def test_the_encoder_reads_no_fact_that_a_benchmark_asks_in_fine_tuning(
    graph_folder: Callable[[str], Path],
) -> None:
    graph = KnowledgeGraph.load(graph_folder("nell995"))
    read = corpus_graph(graph)
    benchmark = with_held_out(graph, BENCHMARKS["ruleqa-n"].hold_out, seed=0)
    assert len(graph.train) - len(read.train) == 3000
    assert set(read.train) == set(benchmark.train)
    shipped = Path(rulerag.__file__).parent / "models" / "nano-encoder"
    assert read_json(shipped / "training.json")["train_facts"]["nell995"] == len(read.train)


def test_graphs_that_hold_nothing_out_are_read_whole(toy_graph: KnowledgeGraph) -> None:
    assert corpus_graph(toy_graph) is toy_graph


def test_pairs_fit_and_other_answers_are_left_out(toy_graph: KnowledgeGraph) -> None:
    source = PairSource(toy_graph.train, Verbalizer(toy_graph))
    batch = source.batch(64, np.random.default_rng(0), guided=0.0)
    answers = {text: i for i, text in enumerate(source.texts)}
    assert len(answers) == 10
    facts = list(toy_graph.train)
    for n, (query, document) in enumerate(zip(batch.queries, batch.documents, strict=True)):
        fact = facts[answers[document]]
        words = Verbalizer(toy_graph)
        assert query == words.query(fact.subject, fact.relation)
        for m, other in enumerate(batch.documents):
            told = facts[answers[other]]
            same = (told.subject, told.relation) == (fact.subject, fact.relation)
            assert batch.excluded[n, m] == (same and m != n)


def test_ruled_questions_name_the_documents_relation(toy_graph: KnowledgeGraph) -> None:
    source = PairSource(toy_graph.train, Verbalizer(toy_graph))
    batch = source.batch(64, np.random.default_rng(1), guided=1.0, chained=0.3)
    label = toy_graph.relations.label
    relations = [label(name) for name in toy_graph.relations.names]
    chained = 0
    for query, document in zip(batch.queries, batch.documents, strict=True):
        body = query.split(" leads to ")[0].split("[")[1]
        chained += "Entity 3" in query
        named = next(r for r in relations if f", {r}, " in body)
        assert f" {named} " in document
        subject, _, object_ = document.rstrip(".").partition(f" {named} ")
        asked = object_ if body.rstrip("] and").endswith("Entity 1") else subject
        assert query.startswith(f"what does {asked} ")
    assert 5 < chained < 40


def test_questions_from_the_other_end_read_as_substituted_queries() -> None:
    world = World.generate(500, kind="static", seed=1)
    source = PairSource(world.graph.train, Verbalizer(world.graph))
    batch = source.batch(200, np.random.default_rng(2), guided=0.5)
    other = [
        (query, document)
        for query, document in zip(batch.queries, batch.documents, strict=True)
        if not query.startswith("what does ")
    ]
    assert 5 < len(other) < 60
    for query, document in other:
        told = query.removeprefix("what ").removesuffix(" ?")
        assert document.rstrip(".").endswith(f" {told}")


def test_dated_questions_lie_mostly_after_their_documents() -> None:
    world = World.generate(500, seed=1)
    source = PairSource(world.graph.train, Verbalizer(world.graph))
    batch = source.batch(200, np.random.default_rng(3))
    later = [
        q.split()[1] > d.split()[1] for q, d in zip(batch.queries, batch.documents, strict=True)
    ]
    assert 0.65 < sum(later) / len(later) < 0.98


@pytest.fixture(scope="module")
def small() -> tuple[list[PairSource], PreTrainedTokenizerFast]:
    made = sources([], worlds=2, world_facts=500)
    return made, train_tokenizer((t for s in made for t in s.texts), vocabulary=500)


def small_encoder(small: tuple[list[PairSource], PreTrainedTokenizerFast]) -> SentenceTransformer:
    return make_encoder(small[1], width=32, layers=1, feed_forward=32, seed=2)


def test_a_killed_run_goes_on_to_the_same_result(
    small: tuple[list[PairSource], PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    made, _ = small
    stage = Stage(20, batch_size=32, learning_rate=5e-3, every=8)
    whole = small_encoder(small)
    losses = train_pairs(whole, made, stage)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    kept = replace(stage, state=tmp_path / "pairs.pt")

    class Killed(RuntimeError):
        pass

    class Fragile(PairSource):
        left = 11

        def batch(self, *arguments: Any, **options: Any) -> PairBatch:
            Fragile.left -= 1
            if Fragile.left < 0:
                raise Killed
            return super().batch(*arguments, **options)

    fragile = [copy.copy(source) for source in made]
    for source in fragile:
        source.__class__ = Fragile
    with pytest.raises(Killed):
        train_pairs(small_encoder(small), fragile, kept)
    resumed = small_encoder(small)
    assert train_pairs(resumed, made, kept) == pytest.approx(losses, abs=0)
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True)
    )


def test_masked_tokens_are_asked_and_learned(
    small: tuple[list[PairSource], PreTrainedTokenizerFast],
) -> None:
    made, tokenizer = small
    batch = masked_batch(made[0], tokenizer, 64, np.random.default_rng(0))
    asked = batch["labels"] != -100
    share = float(asked.sum() / batch["attention_mask"].sum())
    assert 0.1 < share < 0.25
    masked = batch["input_ids"][asked] == tokenizer.mask_token_id
    assert 0.65 < float(masked.float().mean()) < 0.92
    special = torch.isin(batch["labels"], torch.tensor(tokenizer.all_special_ids))
    assert not special.any()
    losses = train_masked(small_encoder(small), made, Stage(20, batch_size=32, learning_rate=5e-3))
    assert sum(losses[-5:]) < sum(losses[:5])


def test_half_precision_on_disk_opens_in_single_with_the_same_numbers(
    small: tuple[list[PairSource], PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    encoder = small_encoder(small)
    save_half(encoder, tmp_path / "nano")
    weights = load_file(tmp_path / "nano" / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float16}
    opened = load_encoder(tmp_path / "nano")
    assert {p.dtype for p in opened.model.parameters()} == {torch.float32}
    for ours, theirs in zip(encoder.parameters(), opened.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    texts = small[0][0].texts[:20]
    with torch.no_grad():
        own = embed(encoder.eval(), texts).numpy()
    np.testing.assert_allclose(opened.encode(texts), own, atol=1e-5)


def test_large_tables_are_thinned_by_seed(toy_graph: KnowledgeGraph) -> None:
    words = Verbalizer(toy_graph)
    one, again = (PairSource(toy_graph.train, words, limit=4, seed=1) for _ in range(2))
    assert len(one) == 4
    assert one.texts == again.texts
    assert len(one.batch(8, np.random.default_rng(0)).queries) == 8


def test_held_out_worlds_are_refused() -> None:
    with pytest.raises(ConfigError, match="held out"):
        sources([], worlds=2, seed=9_999)


# --- what ships --------------------------------------------------------------------------------


def test_the_shipped_encoder_is_small_and_says_what_it_saw() -> None:
    folder = Path(rulerag.__file__).parent / "models" / "nano-encoder"
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert size < 8_000_000
    facts = read_json(folder / "training.json")
    assert (folder / "README.md").read_text(encoding="utf-8") == nano_card(facts)
    assert set(facts["train_facts"]) == {"icews14", "yago", "wiki", "fb15k237", "nell995"}


def test_the_shipped_encoder_follows_rules_in_an_unseen_world() -> None:
    """Its card's figures, on a smaller world: rules lead where the plain question cannot."""
    encoder = load_encoder(NANO_ENCODER)
    row = world_figures(encoder, facts=2000, queries=60)["unseen temporal world"]
    assert row["guided_union"] > row["plain"] + 0.2
    assert row["guided_union"] > 0.6
