"""A logged run, as OpenInference spans have it: explained afterwards from its own prompt.

A document is left out, or changed, in the text of the logged messages, which are then asked again.
That is the same as leaving it out of the run where each document stands in the prompt exactly once,
and where nothing between retrieval and the prompt depends on the others.

References:
    OpenInference semantic conventions: ``retrieval.documents``, ``llm.input_messages``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, DataFormatError
from rulerag.explanation import FrozenChain, Retrieved, question_text
from rulerag.io import read_json, read_jsonl

Messages = list[dict[str, str]]
_CONTAINERS = ("resourceSpans", "scopeSpans", "spans", "data")
_TRACE_IDS = ("context.trace_id", "traceId", "trace_id")
_WRAPPERS = re.compile(r"^attributes\.|\.(string|int|double|bool)Value$")
_DOCUMENTS = re.compile(r"retrieval\.documents\.(\d+)\.document\.(\w+)")
_INPUT = re.compile(r"llm\.input_messages\.(\d+)\.message\.(role|content)")
_OUTPUT = re.compile(r"llm\.output_messages\.(\d+)\.message\.(role|content)")


@dataclass(frozen=True)
class Trace:
    """A logged run and a way to ask again.

    Args:
        spans: each a mapping with ``attributes``, flat or nested, or the attributes themselves.
        ask: takes messages (``role`` and ``content``), and returns what a model answers; the model
            should be the logged one, and decode greedily.
    """

    spans: Sequence[Mapping[str, Any]]
    ask: Callable[[Messages], Any]


def read_trace(path: str | Path) -> list[dict[str, Any]]:
    """The spans in a file, as :class:`Trace` takes them.

    Args:
        path: spans as JSON lines, or one JSON value: a list of spans, or what an OpenTelemetry
            collector writes (``resourceSpans``).

    Raises:
        DataFormatError: it is no such file, or holds spans of several traces.
    """
    value = list(read_jsonl(path)) if str(path).endswith(".jsonl") else read_json(path)
    spans = [dict(_flat(span)) for span in _spans(value)]
    traces = {str(span[key]) for span in spans for key in _TRACE_IDS if span.get(key)}
    if not spans or len(traces) > 1:
        what = f"holds the spans of {len(traces)} traces" if spans else "holds no span"
        raise DataFormatError(what, path=path, hint="the spans of one trace, each an object")
    return spans


def _spans(value: Any) -> Iterator[Mapping[str, Any]]:
    """The spans in a list, or inside ``resourceSpans`` and ``scopeSpans``."""
    for one in value if isinstance(value, list) else [value]:
        inner = [one[key] for key in _CONTAINERS if isinstance(one, Mapping) and key in one]
        if inner:
            yield from _spans(inner[0])
        elif isinstance(one, Mapping):
            yield one


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The attributes of a span under their dotted keys, however they are nested."""
    for key, value in values.items():
        if isinstance(value, list):  # of documents and messages, or of OpenTelemetry's attributes
            value = {
                str(one["key"]) if pair else str(number): one.get("value") if pair else one
                for number, one in enumerate(value)
                for pair in [isinstance(one, Mapping) and "key" in one]
            }
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield _WRAPPERS.sub("", f"{prefix}{key}"), value


def freeze(trace: Trace, question: Any) -> FrozenChain:
    """Read a trace; see :func:`rulerag.explanation.chains.freeze`.

    Raises:
        ConfigError: it has no documents, no prompt, or a document does not stand in the prompt
            exactly once.
    """
    attributes = [dict(_flat(span)) for span in trace.spans]
    rows = [row for values in attributes for row in _rows(values, _DOCUMENTS)]
    documents = [row for row in rows if str(row.get("content", "")).strip()]
    prompts = [values for values in attributes if _rows(values, _INPUT)]
    if not documents or not prompts:
        missing = "documents (retrieval.documents)" if not documents else "llm.input_messages"
        raise ConfigError(f"the trace holds no {missing}", key="spans")
    messages, outputs = _messages(prompts[-1], _INPUT), _messages(prompts[-1], _OUTPUT)
    prompt = "\0".join(message["content"] for message in messages)
    for place, row in enumerate(documents):
        count = prompt.count(row["content"])
        if count != 1:
            raise ConfigError(
                f"document {place} stands {count} times in the logged prompt",
                key="spans",
                hint="only what stands there once can be left out; drop it from the spans",
            )
    inputs = [values["input.value"] for values in attributes if "input.value" in values]
    users = [message["content"] for message in reversed(messages) if message["role"] == "user"]

    def answer(_: str, present: list[Retrieved]) -> Any:
        texts = {row["content"]: "" for row in documents}
        texts |= {one.original["content"]: one.document["content"] for one in present}
        return trace.ask([{**one, "content": _edited(one["content"], texts)} for one in messages])

    return FrozenChain(
        answer,
        str(question_text(question) or question or [*inputs, *users, ""][0]),
        tuple(Retrieved(row, row) for row in documents),
        outputs[-1]["content"] if outputs else "",
        frozen="The logged prompt is asked again without some of its documents",
        empty="all of them are deleted from the prompt",
        model_calls=1,
    )


def _rows(values: Mapping[str, Any], pattern: re.Pattern[str]) -> list[dict[str, Any]]:
    """The numbered objects of flat attributes, in order."""
    rows: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        if match := pattern.fullmatch(key):
            rows.setdefault(int(match[1]), {})[match[2]] = value
    return [rows[number] for number in sorted(rows)]


def _messages(values: Mapping[str, Any], pattern: re.Pattern[str]) -> Messages:
    return [
        {"role": str(row.get("role", "user")), "content": str(row.get("content", ""))}
        for row in _rows(values, pattern)
    ]


def _edited(text: str, replacements: Mapping[str, str]) -> str:
    """A text with parts replaced; a line that becomes empty is gone with its break."""
    for part, replacement in replacements.items():
        before, separator, after = text.partition(part)
        if separator and not replacement:
            after = after.lstrip(" \t").removeprefix("\n")
        text = before + replacement + after if separator else text
    return text
