"""Prompts that a folder states: its template, and whether they go into the chat template."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import PromptTemplate
from rulerag.io import write_json
from tests.models.gguf import tiny_llama

CHAT = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def chatty(tmp_path: Path) -> Path:
    """A small model with a chat template."""
    from transformers import AutoTokenizer

    folder = tiny_llama(tmp_path / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_states_template_and_chat(chatty: Path) -> None:
    assert HuggingFaceGenerator(chatty).chat, "the tokenizer has a chat template"
    write_json(chatty / "prompt.json", {"type": "cloze", "chat": False})
    made = HuggingFaceGenerator(chatty)
    assert not made.chat and made.template == PromptTemplate.cloze()
    asked = HuggingFaceGenerator(chatty, chat=True, template="plain")
    assert asked.chat and asked.template == PromptTemplate.plain(), "who opens it decides"
    write_json(chatty / "prompt.json", {"chat": False})
    assert HuggingFaceGenerator(chatty).template == PromptTemplate()
    write_json(chatty / "prompt.json", "plain")
    made = HuggingFaceGenerator(chatty)
    assert made.chat and made.template == PromptTemplate.plain()


def test_an_adapter_states_its_own_before_those_of_its_base(chatty: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(chatty)
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj"])
    peft.get_peft_model(base, config).save_pretrained(tmp_path / "adapter")
    write_json(chatty / "prompt.json", {"type": "plain", "chat": False})
    for options in ({"model": tmp_path / "adapter"}, {"adapter": tmp_path / "adapter"}):
        made = HuggingFaceGenerator(**{"model": chatty, **options})
        assert not made.chat and made.template == PromptTemplate.plain(), "its base's"
    write_json(tmp_path / "adapter" / "prompt.json", {"type": "cloze", "chat": True})
    for options in ({"model": tmp_path / "adapter"}, {"adapter": tmp_path / "adapter"}):
        made = HuggingFaceGenerator(**{"model": chatty, **options})
        assert made.chat and made.template == PromptTemplate.cloze()
