"""Generators by configuration: an endpoint's settings one by one, and a part that is missing."""

from __future__ import annotations

from typing import Any

import pytest

from rulerag.assembly.build import make_pipeline
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.errors import ConfigError
from rulerag.generation.openai_compatible import CallSettings, OpenAICompatibleGenerator
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World


@pytest.fixture(scope="module")
def dataset() -> RuleQADataset:
    world = World.generate(600, max_body_atoms=1)
    return world_dataset(world, mine_world(world)[0])


def pipeline(dataset: RuleQADataset, generator: dict[str, Any], **more: Any) -> Any:
    values = {"retriever": {"type": "bm25"}, "generator": generator, "top_k": 2, **more}
    return make_pipeline(Config(values, source="e.yaml"), dataset)


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
    with pytest.raises(ConfigError, match=r"key 'generator\.reader': is missing"):
        pipeline(dataset, {"type": "verify-and-edit"})
    with pytest.raises(ConfigError, match="template: plain"):
        pipeline(dataset, {"type": "verify-and-edit", "reader": endpoint})
    reader = {**endpoint, "template": "plain"}
    thinking = pipeline(dataset, {"type": "verify-and-edit", "reader": reader})
    assert thinking.generator.retriever is thinking.retriever
