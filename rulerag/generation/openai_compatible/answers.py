"""What an endpoint answers: the text in a completion, whole or in pieces, and its log-probability.

A completion that is empty, null, cut or refused says nothing about the evidence in its prompt: each
is an error of its own kind, so that none is taken for an answer that changed. What a model thinks
before it answers is never its answer; servers set it apart as ``reasoning`` (vLLM, Ollama),
``reasoning_content`` (llama.cpp, transformers, DeepSeek) or ``thinking``, or leave it in the text
in ``<think>``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rulerag.errors import (
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)
from rulerag.generation.prompts import PromptTemplate, without_thought
from rulerag.types import GenerationRequest

CUT = frozenset({"length", "max_tokens"})
FILTERED = frozenset({"content_filter", "content_policy_violation"})
BROKEN_OFF = frozenset({"abort", "error"})
"""The ``finish_reason`` of texts that say nothing; with BROKEN_OFF the server itself gave up."""

_THOUGHTS = ("reasoning", "reasoning_content", "thinking")
_LONGER = "allow longer answers (max_new_tokens); models that think first need much more"


class Choice(NamedTuple):
    """The first choice of a completion.

    Args:
        text: what the model wrote; None for null.
        thought: what it thought before, where the server sets it apart.
        refusal: why it did not want to answer.
        finish: why it ended, in the server's word.
        log_probabilities: one of each token, in the server's order; empty where it gives none.
    """

    text: str | None
    thought: str
    refusal: str
    finish: Any
    log_probabilities: list[Any]


def at(value: Any, *path: str | int) -> Any:
    """What stands at a path in JSON; None where there is no such place."""
    for key in path:
        try:
            value = value[key]
        except (TypeError, KeyError, IndexError):
            return None
    return value


def first_choice(answer: Any, *, chat: bool) -> Choice | None:
    """The first choice of a completion; None where it has no place for a text.

    Args:
        answer: the completion, as JSON.
        chat: of a chat, where a text is the content of a message.
    """
    choice = at(answer, "choices", 0)
    holder = at(choice, "message") if chat else choice
    content = _joined(at(holder, "content" if chat else "text"))
    textless = not isinstance(holder, dict) or not (chat or "text" in holder)
    if textless or not isinstance(content, str | None):
        return None
    refusal, finish = at(holder, "refusal"), at(choice, "finish_reason")
    refusal = refusal.strip() if isinstance(refusal, str) else ""
    return Choice(content, _thought(holder), refusal, finish, _log_probabilities(choice))


def read(
    answer: Any,
    request: GenerationRequest,
    *,
    chat: bool,
    template: PromptTemplate,
    error: Callable[..., GenerationError],
) -> str:
    """The answer in what the model wrote; never empty.

    A text that was cut at the limit of tokens counts as long as the line with the answer ended
    before the cut: nothing behind that line is read.

    Args:
        answer: the completion, as JSON.
        request: what the model read.
        chat: of a chat.
        template: finds the answer in the text.
        error: makes errors, of a message, a hint and a kind.

    Raises:
        RefusedCompletionError: the model refused, or a content filter kept the text back.
        CutCompletionError: the text was cut before its answer ended, or the tokens were used up by
            thoughts.
        EmptyCompletionError: the text is null or empty, or holds no answer.
        GenerationError: the answer has no place for a text, or the server broke it off.
    """
    choice, query = first_choice(answer, chat=chat), f"query {request.query.id!r}"
    if choice is None:
        raise error(
            "answered a completion without a text",
            "check api=: chat models answer 'chat', base models 'completions'",
        )
    text, reason, refusal = choice.text or "", choice.finish, choice.refusal
    shown = f" after {text!r:.100}" if text else " before it wrote a text"
    if choice.thought and not text:
        shown = f" after {len(choice.thought)} characters of thoughts, {shown.strip()}"
    if reason in FILTERED or refusal:
        why = "a content filter kept it back" if reason in FILTERED else f"{refusal!r:.200}"
        raise error(
            f"refused to answer {query}: {why}",
            "take another model, change what the filter or the model objects to, or leave the "
            "question out",
            RefusedCompletionError,
        )
    if reason in BROKEN_OFF:
        message = f"broke off the answer to {query}{shown} (finish_reason {reason!r})"
        raise error(message, "try again: the server gave up", retryable=True)
    answer_text = without_thought(text)  # templates with signs of their own do not know thoughts
    whole = template.target == "text"  # of an answer of many lines the last one counts, too
    if reason in CUT and (whole or not template.parse(answer_text.rpartition("\n")[0], request)):
        message = f"the answer to {query} was cut{shown} (finish_reason {reason!r})"
        raise error(message, _LONGER, CutCompletionError)
    answered = template.parse(answer_text, request)
    if not answered:
        what = f"{text!r:.100}, in which no answer stands"
        if not text.strip():
            what = "null" if choice.text is None else "an empty text"
            what += (
                f" behind {len(choice.thought)} characters of thoughts" if choice.thought else ""
            )
        raise error(
            f"answered {query} with {what} (finish_reason {reason!r})",
            "try again, or check the model, its chat template and the options stop and tools",
            EmptyCompletionError,
        )
    return answered


def score(answer: Any, *, chat: bool) -> float | None:
    """The sum of the tokens' log-probabilities; None where they are not those of the text.

    That is where the server gives none or not one for each token that it counted (the token that
    ends a text may miss), or where the model thought first, whose tokens servers give too.
    """
    choice = first_choice(answer, chat=chat)
    if choice is None or choice.thought or choice.text != without_thought(choice.text or ""):
        return None
    values, counted = choice.log_probabilities, at(answer, "usage", "completion_tokens")
    if not values or (isinstance(counted, int) and counted - len(values) > 1):
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        return None
    return float(sum(values))


class Pieces:
    """A completion that comes in pieces, the events of a stream.

    Args:
        chat: of a chat, where a text is the content of deltas.
    """

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._text: str | None = None
        self._thought = self._refusal = ""
        self._finish: Any = None
        self._log_probabilities: list[Any] = []
        self._rest: dict[str, Any] = {}
        self._held = True

    def add(self, event: Any) -> str:
        """What an event adds to the text; empty where it adds nothing, or a thought."""
        for key in ("usage", "system_fingerprint"):
            if (value := at(event, key)) is not None:
                self._rest[key] = value
        choice = at(event, "choices", 0)
        holder = at(choice, "delta") if self._chat else choice
        self._thought += _thought(holder)
        self._log_probabilities += _log_probabilities(choice)
        self._finish = at(choice, "finish_reason") or self._finish
        if isinstance(refusal := at(holder, "refusal"), str):
            self._refusal += refusal
        text = _joined(at(holder, "content" if self._chat else "text"))
        if not isinstance(text, str):
            return ""
        self._text = (self._text or "") + text
        return self._shown(text)

    def _shown(self, text: str) -> str:
        """What of the newest text is no thought; what may begin one is held back."""
        if not self._held:
            return text
        whole = (self._text or "").lstrip()
        if "<think>".startswith(whole[:7]) and "</think>" not in whole:
            return ""
        shown = without_thought(whole).lstrip()
        self._held = not shown
        return shown

    @property
    def ended(self) -> bool:
        """Whether the server said why the text ended."""
        return self._finish is not None

    def answer(self) -> dict[str, Any]:
        """The completion, in the form of one that comes whole."""
        choice: dict[str, Any] = {"text": self._text}
        if self._chat:
            own = {"content": self._text, "reasoning": self._thought, "refusal": self._refusal}
            choice = {"message": own}
        choice["logprobs"] = {"token_logprobs": self._log_probabilities}
        return {"choices": [{**choice, "finish_reason": self._finish}], **self._rest}


def _joined(content: Any) -> Any:
    """The content of a message as one text; parts that are no text, such as thoughts, are left."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if at(part, "type") in (None, "text")]
    return "".join(str(at(part, "text") or "") for part in parts)


def _thought(holder: Any) -> str:
    found = (at(holder, key) for key in _THOUGHTS)
    return next((text for text in found if isinstance(text, str) and text), "")


def _log_probabilities(choice: Any) -> list[Any]:
    """In the form of chats, which llama.cpp uses everywhere, or in that of completions."""
    content = at(choice, "logprobs", "content")
    if isinstance(content, list):
        return [at(token, "logprob") for token in content]
    values = at(choice, "logprobs", "token_logprobs")
    return list(values) if isinstance(values, list) else []
