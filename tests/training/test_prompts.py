"""Choosing a prompt: what is tried, what is refused, and that the choice is the best tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.assembly.presets import preset
from rulerag.composition.config import Config
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.io import read_json
from training.prompts import READ, PromptTuning, main, tune_prompt

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tuning(world_folder: Path) -> PromptTuning:
    return tune_prompt(HuggingFaceGenerator(max_new_tokens=16), preset(world_folder), queries=12)


def test_the_best_prompt_is_first_and_was_tried_on_all(tuning: PromptTuning) -> None:
    whole = [trial for trial in tuning.trials if trial.queries == 12]
    part = [trial for trial in tuning.trials if trial.queries == 3]
    assert (len(whole), len(part), len(tuning.unfit)) == (5, 5, 1)
    assert tuning.trials[:5] == whole
    exact = [trial.exact_match["free"] for trial in whole]
    assert exact == sorted(exact, reverse=True)
    assert {trial.name for trial in tuning.trials} >= {
        "rule-guided",
        "few-shot",
        "cloze",
        "compact",
    }
    # The small reader was trained on compact prompts and reads no other.
    assert tuning.trials[0].name == "compact" and exact[0] > 0.3
    assert 0 < tuning.answerable <= 1 and tuning.symbolic > tuning.first


def test_held_answers_are_entities_of_the_documents(tuning: PromptTuning) -> None:
    for trial in tuning.trials:
        assert set(trial.exact_match) == set(READ)
        assert trial.exact_match["named"] >= trial.exact_match["free"]
        assert trial.shown and len(trial.wrote) == 3
        assert trial.threshold is None or 0.5 < trial.separation <= 1


def test_cases_come_from_other_queries_in_the_form_of_the_prompt(tuning: PromptTuning) -> None:
    (trial,) = (one for one in tuning.trials if one.name == "cloze, cases")
    template = PromptTemplate.of(trial.template)
    assert len(template.cases) == 5
    assert all(len(case.documents) <= 3 and "what" not in case.query for case in template.cases)
    # Every case is an unfinished statement with its answer behind it.
    assert f"{template.cases[0].query} {template.cases[0].answer}.\n" in trial.shown


def test_what_is_refused(world_folder: Path) -> None:
    generator = HuggingFaceGenerator(max_new_tokens=16)
    config = preset(world_folder)
    with pytest.raises(ConfigError, match="not chosen on 'test'"):
        tune_prompt(generator, config, split="test")
    with pytest.raises(ConfigError, match="unknown answers 'trie'"):
        tune_prompt(generator, config, answers="trie")
    with pytest.raises(ConfigError, match="0 is below 1"):
        tune_prompt(generator, config, queries=0)
    blind = Config({**config.to_dict(), "retriever": {"type": "none"}, "selector": None})
    with pytest.raises(EmptyDataError, match="leaves no query to try"):
        tune_prompt(generator, blind, queries=3)


def test_the_command_records_the_prompt_where_generators_find_it(
    world_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "model"
    reader = HuggingFaceGenerator()
    reader.model.save_pretrained(model)
    reader.tokenizer.save_pretrained(model)
    assert main([str(model), str(world_folder), "--queries", "8", "--quiet"]) == 0
    written = capsys.readouterr().out
    assert "compact" in written and "without a model: the symbolic reader" in written
    stated = read_json(model / "prompt.json")
    assert HuggingFaceGenerator(model).template == PromptTemplate.of(stated)
