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
from rulerag.explanation.adapters.frozen import FrozenChain, asked, by_original
from rulerag.io import read_json, read_jsonl

Messages = list[dict[str, str]]
_HOLDERS = ("resourceSpans", "scopeSpans", "spans", "data")
_DOCUMENT = re.compile(r"^retrieval\.documents\.(\d+)\.document\.(\w+)$")
_MESSAGE = re.compile(r"^llm\.(input|output)_messages\.(\d+)\.message\.(role|content)$")


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
    spans = [dict(one) for one in _spans(value)]
    traces = {str(one) for span in spans if (one := _trace_id(span)) is not None}
    if not spans or len(traces) > 1:
        what = f"holds the spans of {len(traces)} traces" if spans else "holds no span"
        raise DataFormatError(what, path=path, hint="the spans of one trace, each an object")
    return [{"attributes": _attributes(span)} for span in spans]


def _spans(value: Any) -> Iterator[Mapping[str, Any]]:
    """The spans in a list, or inside ``resourceSpans`` and ``scopeSpans``."""
    for one in value if isinstance(value, list) else [value]:
        held = [one[key] for key in _HOLDERS if isinstance(one, Mapping) and key in one]
        if held:
            yield from _spans(held[0])
        elif isinstance(one, Mapping):
            yield one


def _trace_id(span: Mapping[str, Any]) -> Any:
    context = span.get("context")
    held = context.get("trace_id") if isinstance(context, Mapping) else None
    return held or span.get("traceId") or span.get("trace_id") or span.get("context.trace_id")


def _attributes(span: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a span: nested, in OpenTelemetry's list, or in columns of a table."""
    held = span.get("attributes")
    if isinstance(held, list):
        return {row["key"]: _plain(row.get("value")) for row in held if "key" in row}
    if isinstance(held, Mapping):
        return held
    return {key.removeprefix("attributes."): value for key, value in span.items()}


def _plain(value: Any) -> Any:
    """A value without OpenTelemetry's word for its type."""
    return next(iter(value.values())) if isinstance(value, Mapping) and len(value) == 1 else value


def freeze(trace: Trace, question: Any) -> FrozenChain:
    """Read a trace; see :func:`rulerag.explanation.adapters.freeze`.

    Raises:
        ConfigError: it has no documents, no prompt, or a document does not stand in the prompt
            exactly once.
    """
    attributes = [dict(_flat(span.get("attributes", span))) for span in trace.spans]
    documents = [one for values in attributes for one in _documents(values)]
    prompts = [values for values in attributes if any("input_messages" in key for key in values)]
    if not documents or not prompts:
        missing = "documents (retrieval.documents)" if not documents else "llm.input_messages"
        raise ConfigError(f"the trace holds no {missing}", key="spans")
    messages, said = _messages(prompts[-1], "input"), _messages(prompts[-1], "output")
    whole = "\0".join(message["content"] for message in messages)
    for place, document in enumerate(documents):
        count = whole.count(document["content"])
        if count != 1:
            raise ConfigError(
                f"document {place} stands {count} times in the logged prompt",
                key="spans",
                hint="only what stands there once can be left out; drop it from the spans",
            )
    inputs = (values["input.value"] for values in attributes if "input.value" in values)
    users = (one["content"] for one in reversed(messages) if one["role"] == "user")
    words = asked(question) if question else next(inputs, next(users, ""))

    def answer(_: str, kept: list[Any]) -> Any:
        left = by_original(kept)
        now = {one["content"]: left.get(id(one), {}).get("content", "") for one in documents}
        changed = {before: after for before, after in now.items() if before != after}
        return trace.ask([{**one, "content": _with(one["content"], changed)} for one in messages])

    return FrozenChain(
        answer,
        words,
        tuple(documents),
        said[-1]["content"] if said else "",
        frozen="The logged prompt is asked again without some of its documents",
        empty="all of them are deleted from the prompt",
        calls=1,
        by_identity=True,
    )


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, list):
            yield from _flat({str(n): one for n, one in enumerate(value)}, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _documents(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        if match := _DOCUMENT.match(key):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return [found[n] for n in sorted(found) if str(found[n].get("content", "")).strip()]


def _messages(values: Mapping[str, Any], way: str) -> Messages:
    found: dict[int, dict[str, str]] = {}
    for key, value in values.items():
        match = _MESSAGE.match(key)
        if match and match[1] == way:
            found.setdefault(int(match[2]), {"role": "user", "content": ""})[match[3]] = str(value)
    return [found[n] for n in sorted(found)]


def _with(text: str, changed: Mapping[str, str]) -> str:
    for part, now in changed.items():
        before, found, after = text.partition(part)
        if found:
            text = before + (now + after if now else after.lstrip(" \t").removeprefix("\n"))
    return text
