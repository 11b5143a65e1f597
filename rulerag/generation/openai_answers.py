"""Reading one answer of an OpenAI-compatible endpoint, and naming what is no answer.

A completion that is empty, null, cut or refused says nothing about the evidence that was asked
about. Each is an error of its own kind, so that none is taken for an answer that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rulerag.errors import (
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)

__all__ = ["score_of", "system_of", "text_of"]

_CUT = frozenset({"length", "max_tokens"})
_FILTERED = "content_filter"


def text_of(
    answer: Mapping[str, Any], api: str, *, provider: str, asked: str, read: Callable[[str], str]
) -> str:
    """What the model wrote, with an answer in it.

    A text that was cut at the limit of tokens counts as long as the line with the answer ended
    before the cut: nothing behind that line is read.

    Args:
        answer: the endpoint's whole answer.
        api: ``chat`` or ``completions``.
        provider: the endpoint's name, for messages.
        asked: what was asked, for messages.
        read: the answer in a text; empty when there is none.

    Raises:
        RefusedCompletionError: the model refused, or a content filter kept the text back.
        CutCompletionError: the text was cut before its answer ended.
        EmptyCompletionError: the text is null or empty, or holds no answer.
        GenerationError: the answer has no place for a text.
    """
    choice = answer["choices"][0] if answer["choices"] else None
    holder = choice.get("message") if api == "chat" and isinstance(choice, dict) else choice
    if not isinstance(choice, dict) or not isinstance(holder, dict):
        raise _textless(provider)
    content = holder.get("content" if api == "chat" else "text", None if api == "chat" else 0)
    text = _joined(content)
    if text is None:
        raise _textless(provider)
    reason = choice.get("finish_reason")
    refusal = holder.get("refusal")
    if reason == _FILTERED or (isinstance(refusal, str) and refusal.strip()):
        why = "a content filter kept it back" if reason == _FILTERED else f"{refusal!r:.200}"
        raise RefusedCompletionError(
            f"refused to answer {asked}: {why}",
            provider=provider,
            hint="take another model, change what the filter or the model objects to, or leave "
            "the question out",
        )
    if reason in _CUT and not read(text.rpartition("\n")[0]):
        shown = f" after {text!r:.100}" if text else " before it wrote a text"
        raise CutCompletionError(
            f"the answer to {asked} was cut{shown} (finish_reason {reason!r})",
            provider=provider,
            hint="allow longer answers (max_new_tokens); models that think first need much more",
        )
    if not read(text):
        empty = "null" if content is None else "an empty text"
        what = f"{text!r:.100}, in which no answer stands" if text.strip() else empty
        raise EmptyCompletionError(
            f"answered {asked} with {what} (finish_reason {reason!r})",
            provider=provider,
            hint="try again, or check the model, its chat template and the options stop and tools",
        )
    return text


def _joined(content: Any) -> str | None:
    """A text, or the parts of one; empty for null, None for anything else."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else content if isinstance(content, str) else None


def _textless(provider: str) -> GenerationError:
    return GenerationError(
        "answered a completion without a text",
        provider=provider,
        hint="check api=: chat models answer 'chat', base models 'completions'",
    )


def system_of(answer: Mapping[str, Any]) -> str:
    """Which build of the model answered, as the endpoint tells; empty where it does not."""
    system = answer.get("system_fingerprint")
    return system if isinstance(system, str) else ""


def score_of(answer: Mapping[str, Any], api: str) -> float | None:
    """The sum of the tokens' log-probabilities, where the endpoint gives them."""
    given = answer["choices"][0].get("logprobs")
    if not isinstance(given, dict):
        return None
    if api == "chat":
        values = [t.get("logprob") for t in given.get("content") or () if isinstance(t, dict)]
    else:
        values = list(given.get("token_logprobs") or ())
    numbers = [value for value in values if isinstance(value, int | float)]
    return float(sum(numbers)) if numbers else None
