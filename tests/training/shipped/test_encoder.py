"""Self-made pairs, the stages of the small encoder, and the one that ships."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import rulerag
from rulerag.errors import ConfigError
from rulerag.evaluation import AnswerMatcher
from rulerag.io import read_json
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.dense.encoders.load import NANO_ENCODER, load_encoder
from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
from rulerag.ruleqa import RuleQASettings, build
from rulerag.ruleqa.settings import BENCHMARKS
from rulerag.ruleqa.validation_split import with_held_out
from rulerag.synthetic.world import World
from rulerag.types import ScoredDocument
from tests.training.conftest import Killed
from training.common.tiny import make_encoder, save_half, train_tokenizer
from training.shipped.encoder.make import HELD_OUT, corpus_graph, nano_card, sources
from training.shipped.encoder.pairs import PairBatch, PairSource
from training.shipped.encoder.stages import Stage, embed, masked_batch, train_masked, train_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast

SHIPPED = Path(rulerag.__file__).parent / "models" / "nano-encoder"
Small = tuple[list[PairSource], "PreTrainedTokenizerFast"]


def test_the_encoder_reads_no_fact_that_a_benchmark_asks_in_fine_tuning(
    graph_folder: Callable[[str], Path], toy_graph: KnowledgeGraph
) -> None:
    graph = KnowledgeGraph.load(graph_folder("nell995"))
    read = corpus_graph(graph)
    benchmark = with_held_out(graph, BENCHMARKS["ruleqa-n"].hold_out, seed=0)
    assert len(graph.train) - len(read.train) == 3000
    assert set(read.train) == set(benchmark.train)
    assert read_json(SHIPPED / "training.json")["train_facts"]["nell995"] == len(read.train)
    assert corpus_graph(toy_graph) is toy_graph, "which holds nothing out"
    with pytest.raises(ConfigError, match="held out"):
        sources([], worlds=2, seed=9_999)


def test_pairs_fit_and_other_answers_are_left_out(toy_graph: KnowledgeGraph) -> None:
    words = Verbalizer(toy_graph)
    source = PairSource(toy_graph.train, words)
    batch = source.batch(64, np.random.default_rng(0), guided=0.0)
    answers = {text: i for i, text in enumerate(source.texts)}
    facts = list(toy_graph.train)
    for n, (query, document) in enumerate(zip(batch.queries, batch.documents, strict=True)):
        fact = facts[answers[document]]
        assert query == words.query(fact.subject, fact.relation)
        for m, text in enumerate(batch.documents):
            other = facts[answers[text]]
            same = (other.subject, other.relation) == (fact.subject, fact.relation)
            assert batch.excluded[n, m] == (same and m != n)
    one, again = (PairSource(toy_graph.train, words, limit=4, seed=1) for _ in range(2))
    assert len(one) == 4 and one.texts == again.texts, "large tables are thinned by seed"


def test_ruled_questions_name_the_documents_relation(toy_graph: KnowledgeGraph) -> None:
    source = PairSource(toy_graph.train, Verbalizer(toy_graph))
    batch = source.batch(64, np.random.default_rng(1), guided=1.0, chained=0.3)
    relations = [toy_graph.relations.label(name) for name in toy_graph.relations.names]
    for query, document in zip(batch.queries, batch.documents, strict=True):
        body = query.split(" leads to ")[0].split("[")[1]
        named = next(r for r in relations if f", {r}, " in body)
        subject, _, object_ = document.rstrip(".").partition(f" {named} ")
        asked = object_ if body.rstrip("] and").endswith("Entity 1") else subject
        assert query.startswith(f"what does {asked} ")
    assert 5 < sum("Entity 3" in query for query in batch.queries) < 40


def test_questions_from_the_other_end_and_of_later_times() -> None:
    world = World.generate(500, kind="static", seed=1)
    batch = PairSource(world.graph.train, Verbalizer(world.graph)).batch(
        200, np.random.default_rng(2), guided=0.5
    )
    pairs = list(zip(batch.queries, batch.documents, strict=True))
    other = [(query, document) for query, document in pairs if not query.startswith("what does ")]
    assert 5 < len(other) < 60
    for query, document in other:
        words = query.removeprefix("what ").removesuffix(" ?")
        assert document.rstrip(".").endswith(f" {words}")
    world = World.generate(500, seed=1)
    batch = PairSource(world.graph.train, Verbalizer(world.graph)).batch(
        200, np.random.default_rng(3)
    )
    pairs = list(zip(batch.queries, batch.documents, strict=True))
    assert 0.65 < np.mean([q.split()[1] > d.split()[1] for q, d in pairs]) < 0.98


@pytest.fixture(scope="module")
def small() -> Small:
    made = sources([], worlds=2, world_facts=500)
    return made, train_tokenizer((t for s in made for t in s.texts), vocabulary=500)


def small_encoder(small: Small) -> SentenceTransformer:
    return make_encoder(small[1], width=32, layers=1, feed_forward=32, seed=2)


def test_pairs_are_learned_and_a_killed_run_goes_on_to_the_same_weights(
    small: Small, tmp_path: Path
) -> None:
    made, _ = small
    stage = Stage(20, batch_size=32, learning_rate=5e-3)
    whole = small_encoder(small)
    losses = train_pairs(whole, made, stage)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    kept = replace(stage, loop={"state": tmp_path / "pairs.pt", "every": 8})

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
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ConfigError, match="other settings"):
        train_pairs(resumed, made, replace(kept, loop={**kept.loop, "settings": "others"}))


def test_masked_tokens_are_asked_and_learned(small: Small) -> None:
    made, tokenizer = small
    batch = masked_batch(made[0], tokenizer, 64, np.random.default_rng(0))
    asked = batch["labels"] != -100
    assert 0.1 < float(asked.sum() / batch["attention_mask"].sum()) < 0.25
    masked = batch["input_ids"][asked] == tokenizer.mask_token_id
    assert 0.65 < float(masked.float().mean()) < 0.92
    assert not torch.isin(batch["labels"], torch.tensor(tokenizer.all_special_ids)).any()
    losses = train_masked(small_encoder(small), made, Stage(20, batch_size=32, learning_rate=5e-3))
    assert sum(losses[-5:]) < sum(losses[:5])


def test_half_precision_on_disk_opens_in_single_with_the_same_numbers(
    small: Small, tmp_path: Path
) -> None:
    encoder = small_encoder(small)
    save_half(encoder, tmp_path / "nano")
    weights = load_file(tmp_path / "nano" / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float16}
    opened = load_encoder(tmp_path / "nano")
    assert {p.dtype for p in opened.model.parameters()} == {torch.float32}
    texts = small[0][0].texts[:20]
    with torch.no_grad():
        own = embed(encoder.eval(), texts).numpy()
    np.testing.assert_allclose(opened.encode(texts), own, atol=1e-5)


def test_the_shipped_encoder_says_what_it_saw_and_follows_rules_in_an_unseen_world() -> None:
    size = sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file())
    assert size < 8_000_000
    facts = read_json(SHIPPED / "training.json")
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    table = "".join(f"{line}\n" for line in card.splitlines() if line.startswith("|"))
    assert card == nano_card(facts, table)
    assert set(facts["train_facts"]) == {"icews14", "yago", "wiki", "fb15k237", "nell995"}
    world = World.generate(2000, seed=HELD_OUT).graph
    asked = RuleQASettings(num_queries=60, miner="tlogic", min_support=20, min_confidence=0.3)
    dataset = build("ruleqa-i", world, settings=asked)
    plain = DenseRetriever(dataset.corpus, load_encoder(NANO_ENCODER), cache=False)
    guided = RuleGuidedRetriever(plain, HeadRelationSelector(dataset.rules, max_rules=8))
    queries, matcher = dataset.query_set("balanced"), AnswerMatcher()

    def recall(lists: list[list[ScoredDocument]]) -> float:
        ranks = [
            matcher.first_rank([one.document for one in listed], query.answers)
            for listed, query in zip(lists, queries, strict=True)
        ]
        return float(np.mean([rank is not None for rank in ranks]))

    union = recall(guided.retrieve_union(queries, 10))
    assert union > max(recall(plain.retrieve(queries, 10)) + 0.2, 0.6)
