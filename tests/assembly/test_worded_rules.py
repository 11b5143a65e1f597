"""A dataset's own templates: rules are said by them in searches, prompts and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.assembly.build import make_pipeline
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.kg.phrases import FILE, Phrases
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World
from rulerag.types import Answer

GUIDED = Config(
    {
        "selector": {"type": "head"},
        "retriever": {"type": "guided", "retriever": {"type": "bm25"}},
        "generator": {"type": "symbolic"},
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World.generate(600, max_body_atoms=1)
    place = tmp_path_factory.mktemp("worded")
    world_dataset(world, mine_world(world)[0]).save(place)
    return place


def answered(dataset: RuleQADataset) -> tuple[Answer, str, list[str]]:
    """The first answer with rules, its prompt, and the texts that were searched for."""
    pipeline = make_pipeline(GUIDED, dataset)
    searched: list[str] = []
    inner = pipeline.retriever.retriever  # type: ignore[attr-defined]
    search = inner.search

    def recorded(queries: list, depth: int):  # type: ignore[no-untyped-def,type-arg]
        searched.extend(query.text for query in queries)
        return search(queries, depth)

    inner.search = recorded
    answer = next(one for one in pipeline.answer(dataset.queries["test"]) if one.rules)
    return answer, PromptTemplate.rule_guided().render(answer.request()).text, searched


def test_templates_word_the_rules_and_nothing_else(folder: Path) -> None:
    plain = RuleQADataset.load(folder)
    answer, prompt, searched = answered(plain)
    assert plain.templates == {}
    assert answer.rules[0].text.startswith("[Entity ")
    assert answer.rules[0].text in prompt
    head = answer.query.relation
    (folder / FILE).write_text(f'"{head}": "{{x}} has business with {{y}}"\n')
    try:
        worded = RuleQADataset.load(folder)
        other, words, texts = answered(worded)
    finally:
        (folder / FILE).unlink()
    assert worded.fingerprint == plain.fingerprint
    assert [rule.id for rule in other.rules] == [rule.id for rule in answer.rules]
    assert all(rule.text.endswith("then later X has business with Y") for rule in other.rules)
    assert other.rules[0].text in words and "[Entity" not in words
    assert any(text.endswith("then later X has business with Y") for text in texts)
    assert not any(text.endswith("then later X has business with Y") for text in searched)
    assert Phrases(worded.templates).rule(answer.rules[0]) == other.rules[0].text
    assert other.text == answer.text
