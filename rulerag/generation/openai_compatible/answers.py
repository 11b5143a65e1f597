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
from typing import Any

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


def at(value: Any, *path: str | int) -> Any:
    """What stands at a path in JSON; None where there is no such place."""
    for key in path:
        try:
            value = value[key]
        except (TypeError, KeyError, IndexError):
            return None
    return value


class Reply:
    """What a model answers to one call, whole or in pieces: a completion comes as one event.

    Args:
        chat: of a chat, where a text is the content of a message or of deltas.
    """

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._held = True
        self.text: str | None = None
        """What the model wrote; None for null."""
        self.thought = ""
        """What it thought before, where the server sets it apart."""
        self.refusal = ""
        """Why it did not want to answer."""
        self.finish: Any = None
        """Why it ended, in the server's word; None before it says so."""
        self.log_probabilities: list[Any] = []
        """One of each token, in the server's order; empty where it gives none."""
        self.num_tokens: Any = None
        """How many tokens the server counted in what was written."""
        self.system = ""
        """Which build of the model wrote it, as far as the server says."""

    def add(self, event: Any) -> str | None:
        """Take in an event, or a whole completion.

        Args:
            event: as JSON.

        Returns:
            The text that it adds; None where it has no place for one.
        """
        if (counted := at(event, "usage", "completion_tokens")) is not None:
            self.num_tokens = counted
        if isinstance(system := at(event, "system_fingerprint"), str):
            self.system = system
        choice = at(event, "choices", 0)
        holder = (at(choice, "message") or at(choice, "delta")) if self._chat else choice
        self.thought += _thought(holder)
        self.log_probabilities += _log_probabilities(choice)
        self.finish = at(choice, "finish_reason") or self.finish
        if isinstance(refusal := at(holder, "refusal"), str):
            self.refusal += refusal
        text = _joined(at(holder, "content" if self._chat else "text"))
        textless = not isinstance(holder, dict) or not (self._chat or "text" in holder)
        if textless or not isinstance(text, str | None):
            return None
        if text is not None:
            self.text = (self.text or "") + text
        return text or ""

    def shown(self, text: str) -> str:
        """What of the newest text is no thought; what may begin one is held back."""
        if not self._held:
            return text
        whole = (self.text or "").lstrip()
        if "<think>".startswith(whole[:7]) and "</think>" not in whole:
            return ""
        shown = without_thought(whole).lstrip()
        self._held = not shown
        return shown

    @property
    def score(self) -> float | None:
        """The sum of the tokens' log-probabilities; None where they are not those of the text.

        That is where the server gives none or not one for each token that it counted (the token
        that ends a text may miss), or where the model thought first, whose tokens servers give too.
        """
        if self.thought or self.text != without_thought(self.text or ""):
            return None
        values, counted = self.log_probabilities, self.num_tokens
        if not values or (isinstance(counted, int) and counted - len(values) > 1):
            return None
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            return None
        return float(sum(values))


def read(
    answer: Reply,
    request: GenerationRequest,
    *,
    template: PromptTemplate,
    error: Callable[..., GenerationError],
) -> str:
    """The answer in what the model wrote; never empty.

    A text that was cut at the limit of tokens counts as long as the line with the answer ended
    before the cut: nothing behind that line is read.

    Args:
        answer: all of it.
        request: what the model read.
        template: finds the answer in the text.
        error: makes errors, of a message, a hint and a kind.

    Raises:
        RefusedCompletionError: the model refused, or a content filter kept the text back.
        CutCompletionError: the text was cut before its answer ended, or the tokens were used up by
            thoughts.
        EmptyCompletionError: the text is null or empty, or holds no answer.
        GenerationError: the server broke it off.
    """
    query, text, reason = f"query {request.query.id!r}", answer.text or "", answer.finish
    thought, refusal = answer.thought, answer.refusal.strip()
    shown = f" after {text!r:.100}" if text else " before it wrote a text"
    if thought and not text:
        shown = f" after {len(thought)} characters of thoughts, {shown.strip()}"
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
            what = "null" if answer.text is None else "an empty text"
            what += f" behind {len(thought)} characters of thoughts" if thought else ""
        raise error(
            f"answered {query} with {what} (finish_reason {reason!r})",
            "try again, or check the model, its chat template and the options stop and tools",
            EmptyCompletionError,
        )
    return answered


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
