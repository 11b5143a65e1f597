"""Readers made of others, and the baselines without rules, by configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from benchmarks.speed.generation import small_llama
from rulerag.assembly.build import make_pipeline
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.errors import ConfigError
from rulerag.generation.hybrid import HybridReader
from rulerag.generation.openai_compatible import CallSettings, OpenAICompatibleGenerator
from rulerag.generation.verified_thought import ChainOfKnowledge, VerifyAndEdit
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World

SYMBOLIC = {"type": "symbolic"}


@pytest.fixture(scope="module")
def dataset() -> RuleQADataset:
    world = World.generate(600, max_body_atoms=1)
    return world_dataset(world, mine_world(world)[0])


@pytest.fixture(scope="module")
def folder(dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llama")
    _, tokenizer = small_llama([document.text for document in dataset.corpus])
    config = transformers.LlamaConfig(
        vocab_size=2048,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=4096,
        eos_token_id=1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def pipeline(dataset: RuleQADataset, generator: dict[str, Any], **more: Any) -> Any:
    values = {"retriever": {"type": "bm25"}, "generator": generator, "top_k": 2, **more}
    return make_pipeline(Config(values, source="e.yaml"), dataset)


def model(folder: Path, **options: Any) -> dict[str, Any]:
    return {"type": "huggingface", "model": str(folder), "max_new_tokens": 3, **options}


def test_the_hybrid_reader_holds_two(dataset: RuleQADataset, folder: Path) -> None:
    queries = dataset.query_set("supported")[:3]
    generator = {"type": "hybrid", "symbolic": SYMBOLIC, "model": model(folder), "weight": 0.0}
    made = pipeline(dataset, generator, selector={"type": "head"})
    assert isinstance(made.generator, HybridReader)
    plain = pipeline(dataset, SYMBOLIC, selector={"type": "head"})
    pairs = zip(made.answer(queries), plain.answer(queries), strict=True)
    assert all(a.text == b.text for a, b in pairs if b.text)


def test_baselines_search_with_the_retriever(dataset: RuleQADataset, folder: Path) -> None:
    queries = dataset.query_set("supported")[:2]
    for name, kind in (
        ("verify-and-edit", VerifyAndEdit),
        ("chain-of-knowledge", ChainOfKnowledge),
    ):
        reader = model(folder, template="plain")
        made = pipeline(dataset, {"type": name, "reader": reader, "max_thoughts": 1})
        assert isinstance(made.generator, kind)
        assert made.generator.retriever is made.retriever
        assert len(made.answer(queries)) == 2
    with pytest.raises(ConfigError, match=r"key 'generator\.reader': is missing"):
        pipeline(dataset, {"type": "verify-and-edit"})
    with pytest.raises(ConfigError, match="template: plain"):
        pipeline(dataset, {"type": "verify-and-edit", "reader": model(folder)})


def test_settings_of_an_endpoint_are_keys_one_by_one(dataset: RuleQADataset) -> None:
    endpoint = {"type": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    options = {"max_tokens": None, "stop": ["."]}
    made = pipeline(dataset, {**endpoint, "concurrency": 2, "options": options}).generator
    assert made.settings.concurrency == 2 and made.settings.timeout == 60
    same = OpenAICompatibleGenerator(
        "http://127.0.0.1:1/v1",
        "m",
        settings=CallSettings(concurrency=3, options=options),
        concurrency=2,
    )
    assert same.settings.concurrency == 2 and same.fingerprint == made.fingerprint
    with pytest.raises(ConfigError, match=r"generator.concurency': unknown key .* 'concurrency'"):
        pipeline(dataset, {**endpoint, "concurency": 2})
    with pytest.raises(ConfigError, match=r"generator.concurrency': 0 is out of range"):
        pipeline(dataset, {**endpoint, "concurrency": 0})
    with pytest.raises(ConfigError, match=r"generator.template.colour': unknown key"):
        pipeline(dataset, {**endpoint, "template": {"type": "standard", "colour": "red"}})
