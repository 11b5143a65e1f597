"""Self-explanations: the messages of the prompt, and what is read of what models write."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.huggingface.decoding.batches import Continuation, Ending
from rulerag.generation.prompts import (
    PromptTemplate,
    SelfExplanationTemplate,
    read_self_explanation,
)
from rulerag.types import Document, GenerationRequest, Query, SelfExplanation

WHOLE = SelfExplanation("The text says so.", ("orbital revolution", "the Sun"), "revolution")
REQUEST = GenerationRequest(
    Query("q", "what moves around an axis?"), (Document("d", "A rotation."), Document("e", "More."))
)


@pytest.mark.parametrize(
    "wrote",
    [
        # The form of the paper, and of its figure.
        "Thought: The text says so., Keywords: orbital revolution, the Sun, "
        "Short answer: revolution",
        # What stands before the first label is the thought: a prompt may end in "Thought:".
        " The text says so.\nKeywords: orbital revolution; the Sun\nShort answer: revolution",
        # Markdown.
        "**Thought:** The text says so.\n\n**Keywords:** orbital revolution, the Sun\n\n"
        "**Short answer:** revolution",
        "### Thought: The text says so.\n### Keywords:\n1. orbital revolution\n2. the Sun\n"
        "### Short Answer:\nrevolution",
        # JSON, fenced or cut.
        '```json\n{"thought": "The text says so.", "keywords": ["orbital revolution", "the Sun"], '
        '"short_answer": "revolution"}\n```',
        '{"thought": "The text says so.", "keywords": ["orbital revolution", "the Sun"], '
        '"short answer": "revolution"',
        # Lists, quotes, thoughts of reasoning models, a colon of Chinese texts.
        'Thought: The text says so.\nKeywords: ["orbital revolution", "the Sun"]\n'
        'Short answer: "revolution"',
        "<think>Hm. Answer: no.</think>Thought：The text says so.\n"  # noqa: RUF001
        "Keywords：orbital revolution、the Sun\nShort answer：revolution",  # noqa: RUF001
        # Models that continue text go on with a question of their own.
        "The text says so.\nKeywords: orbital revolution, the Sun\nShort answer: revolution\n\n"
        "The following text might be useful in answering the question: x\nQuestion: y\n"
        "Thought: z\nKeywords: w\nShort answer: v",
    ],
)
def test_every_form_reads_the_same(wrote: str) -> None:
    assert read_self_explanation(wrote) == WHOLE


@pytest.mark.parametrize(
    ("wrote", "found"),
    [
        ("", SelfExplanation(missing=("thought", "keywords", "answer"))),
        # Nothing is guessed: neither an answer without a label nor words of the thought.
        ("Paris", SelfExplanation(missing=("thought", "keywords", "answer"))),
        (
            "Thought: The answer is Paris, and the answer: Lyon.",
            SelfExplanation(
                "The answer is Paris, and the answer: Lyon.", missing=("keywords", "answer")
            ),
        ),
        (
            "Thought: t\nKeywords: none\nShort answer: x",
            SelfExplanation("t", (), "x", ("keywords",)),
        ),
        # The form copied and not filled in.
        (
            "Thought: [thought process]\nKeywords: [keywords]\nShort answer: [answer]",
            SelfExplanation(missing=("thought", "keywords", "answer")),
        ),
        # Only the second question has keywords: they are not this one's.
        (
            "It is late.\nQuestion: who?\nThought: t\nKeywords: k\nShort answer: s",
            SelfExplanation(missing=("thought", "keywords", "answer")),
        ),
        # Real words of SmolLM2-135M-Instruct.
        (
            "Thought: The text says that when the HP of an enemy reaches zero, it may be defeated."
            "\nKeywords: defeated, death, death, victory, victory, victory",
            SelfExplanation(
                "The text says that when the HP of an enemy reaches zero, it may be defeated.",
                ("defeated", "death", "victory"),
                missing=("answer",),
            ),
        ),
        (
            "Thought: t\nKeywords: premiered on September 27, 2017, May 3, NBC\nShort answer: s",
            SelfExplanation("t", ("premiered on September 27, 2017", "May 3", "NBC"), "s"),
        ),
        ('{"thought": 3, "keywords": {"a": 1}, "answer": null}', None),
        ("Thought: سبب\nKeywords: القاهرة، مصر\nShort answer: القاهرة", None),
    ],
)
def test_what_is_missing_is_missing(wrote: str, found: SelfExplanation | None) -> None:
    said = read_self_explanation(wrote)
    if found is not None:
        assert said == found
    elif wrote.startswith("{"):
        assert said.answer == "" and "answer" in said.missing
    else:
        assert said == SelfExplanation("سبب", ("القاهرة", "مصر"), "القاهرة")


def test_broken_json_in_any_amount_is_read_in_time() -> None:
    assert read_self_explanation("{" * 20_000).missing == ("thought", "keywords", "answer")
    assert read_self_explanation("Keywords: " + "a, " * 50_000).keywords == ("a",)


def test_the_messages_are_those_of_the_paper() -> None:
    template = SelfExplanationTemplate()
    system, user = template.messages("what moves around an axis?", "A rotation.\nMore.")
    assert (
        system["role"] == "system" and "(keywords) from the text that helped" in system["content"]
    )
    assert user["content"].splitlines() == [
        "The following text might be useful in answering the question: A rotation.",
        "More.",
        "Question: what moves around an axis?",
        "Answer in this form:",
        "Thought: [thought process]",
        "Keywords: [keywords]",
        "Short answer: [answer]",
    ]
    assert user["content"] == template.render(REQUEST).text
    assert "The following text" not in template.messages("who?")[-1]["content"]


def test_solved_cases_are_turns_for_chat_models_and_text_for_others() -> None:
    template = PromptTemplate.of("self-explanation-few-shot")
    assert isinstance(template, SelfExplanationTemplate)
    text = template.render(REQUEST).text
    assert text.endswith("Question: what moves around an axis?")
    said = template.conversation(text)
    assert [one["role"] for one in said] == ["system", *["user", "assistant"] * 3, "user"]
    for one in said[2::2]:
        assert not read_self_explanation(one["content"]).missing
    whole = template.continued(text)
    assert whole.endswith(f"{text}\nThought:") and said[2]["content"] in whole
    own = {"documents": ["T"], "query": "Q", "answer": "A", "thought": "W", "keywords": ["k"]}
    changed = PromptTemplate.of({"type": "self-explanation", "cases": [own]})
    assert changed.conversation("x")[2]["content"] == "Thought: W\nKeywords: k\nShort answer: A"
    other = PromptTemplate.of({"type": "self-explanation", "cases": [{**own, "thought": "V"}]})
    assert len({one.fingerprint for one in (template, changed, other)}) == 3
    with pytest.raises(ConfigError, match="keywords"):
        PromptTemplate.of({"type": "self-explanation", "cases": [{**own, "keywords": []}]})


def test_a_completion_is_the_short_answer_or_all_of_it() -> None:
    wrote = "Thought: t\nKeywords: k\nShort answer: Paris.\n"
    template = SelfExplanationTemplate()
    assert template.parse(wrote) == "Paris" and template.parse("Paris") == ""
    assert template.whole().parse(wrote) == wrote.strip()


def test_a_text_ends_at_the_line_break_behind_its_short_answer() -> None:
    pieces = ["Thought: t", "\n", "Keywords: k", "\n\n", "Short answer: s", "\n", "More"]
    ends = {
        template: Ending(frozenset(), pieces.__getitem__, template.is_complete)
        for template in (SelfExplanationTemplate(), PromptTemplate())
    }
    taken = []
    for ending in ends.values():
        result = Continuation()
        taken.append(next(n for n in range(len(pieces)) if not ending.take(result, n, 0.0)))
    assert taken == [5, 1]
    assert SelfExplanationTemplate().is_complete("It is late.\nQuestion: and now?")
    assert SelfExplanationTemplate().stop == "\nQuestion:"
