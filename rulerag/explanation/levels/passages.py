"""Documents as people have them, strings, dicts or a framework's own objects, read as passages."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.records import Record
from rulerag.explanation.wording import shortened

_TEXTS = ("text", "page_content", "content", "contents", "body", "passage", "document", "snippet")
_TITLES = ("title", "name", "file_name", "source", "url")
_IDS = ("id", "id_", "_id", "doc_id", "docid", "node_id")
_SCORES = ("score", "similarity", "relevance_score", "rerank_score", "_score")
_ORIGINS = (
    "ref_doc_id",
    "source_document_id",
    "document_id",
    "doc_id",
    "parent_id",
    "source_id",
    "source",
    "file_path",
    "file_name",
    "url",
    "title",
)
_WRAPPERS = ("document", "node")
"""A scored document of rulerag, a scored node of LlamaIndex."""

_UNTITLED = "Untitled"


@dataclass(frozen=True)
class Passage(Record):
    """One document of an answer, several taken together, or a part of one.

    Args:
        index: its place, from 0.
        text: what it says.
        title: what people know it by, for a part the document's; empty where it has none.
        id: its identifier; empty where it has none.
        part: for anything but a whole document, how it is cited: ``2.3`` is the third part of the
            second document, ``5-8`` the documents five to eight.
        level: for anything but a whole document, one of
            :data:`rulerag.explanation.levels.LEVELS`.
        spans: where it stands, as places of documents from 0 with the characters from and to; for
            a whole document empty.
        rules: the mined rules that found it, in words, where its metadata name them.
    """

    index: int
    text: str
    title: str = ""
    id: str = ""
    part: str | None = None
    level: str | None = None
    spans: tuple[tuple[int, int, int], ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The passage as explanations cite it: its place from 1, as in ``[2]`` or ``[2.3]``."""
        return f"[{self.part or self.index + 1}]"

    @property
    def called(self) -> str:
        """Its title or the beginning of its text, with its place; both for a part."""
        words = f"“{self.title or shortened(self.text, 48)}”"
        if self.title and self.level not in (None, "group"):
            words = f"“{shortened(self.text, 48)}” in {words}"
        return f"{words} {self.label}"


def passages_of(documents: Sequence[Any]) -> list[Passage]:
    """Documents as passages, in order.

    Args:
        documents: strings, mappings with a text (``text``, ``page_content``, ``content`` …), or
            objects of LangChain, LlamaIndex, Haystack or rulerag.

    Raises:
        ConfigError: one of them holds no text that is known how to read.
    """
    if isinstance(documents, str | bytes | Mapping):
        raise ConfigError(
            f"expected a list of documents, found one {type(documents).__name__}",
            key="documents",
            hint="documents=[…]",
        )
    return [_passage(index, document) for index, document in enumerate(documents)]


def scores_of(documents: Sequence[Any]) -> list[float] | None:
    """What the retriever gave each document, the larger the better; None where one has no score.

    Args:
        documents: as for :func:`passages_of`.
    """
    found = []
    for document in documents:
        inner = _inner(document)
        about = [document, _about(document), inner, _about(inner)]
        values = (_value(place, name) for place in about for name in _SCORES)
        score = next((float(v) for v in values if _is_number(v)), None)
        if score is None:
            return None
        found.append(score)
    return found


def origins_of(documents: Sequence[Any]) -> list[str] | None:
    """What each document is a piece of, by the first key of its metadata that joins some.

    Args:
        documents: as for :func:`passages_of`.

    Returns:
        One name a document; None where no key has a value for each and at least two different
        ones, fewer than there are documents.
    """
    inner = [_inner(document) for document in documents]
    for key in _ORIGINS:
        names = [_first(one, _about(one), (key,)) for one in inner]
        if all(names) and 1 < len(set(names)) < len(names):
            return names
    return None


def with_text(document: Any, text: str, *, untitled: bool = False) -> Any:
    """A copy of a document with another text; everything else stays as it is.

    Args:
        document: as for :func:`passages_of`.
        text: what it says now.
        untitled: a title is taken from it, too.

    Raises:
        ConfigError: it cannot be copied with another text.
    """
    if isinstance(document, str):
        return text
    try:
        made = _changed(document, text, untitled)
        if _passage(0, made).text == text:
            return made
    except (AttributeError, TypeError, ValueError):
        pass
    raise ConfigError(
        f"{type(document).__name__} documents cannot be copied with another text",
        key="documents",
        hint="pass strings, or dicts with a text",
    )


def _changed(document: Any, text: str, untitled: bool) -> Any:
    for wrapper in _WRAPPERS:
        held = _value(document, wrapper)
        if held is not None and not isinstance(held, str):
            return _copied(document, {wrapper: _changed(held, text, untitled)})
    changes: dict[str, Any] = {}
    if untitled:
        if isinstance(_value(document, "title"), str):
            changes["title"] = _UNTITLED
        for name in ("metadata", "meta"):
            about = _value(document, name)
            if isinstance(about, Mapping) and isinstance(about.get("title"), str):
                changes[name] = {**about, "title": _UNTITLED}
    if callable(getattr(document, "set_content", None)):  # a node of LlamaIndex
        made = copy.deepcopy(document)
        made.set_content(text)
        for name, value in changes.items():
            setattr(made, name, value)
        return made
    name = next(name for name in _TEXTS if isinstance(_value(document, name), str))
    return _copied(document, {**changes, name: text})


def _copied(document: Any, changes: Mapping[str, Any]) -> Any:
    if isinstance(document, Mapping):
        return {**document, **changes}
    if callable(getattr(document, "model_copy", None)):
        return document.model_copy(update=dict(changes))
    if dataclasses.is_dataclass(document) and not isinstance(document, type):
        return dataclasses.replace(document, **changes)
    made = copy.copy(document)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _passage(index: int, document: Any) -> Passage:
    if isinstance(document, str):
        return Passage(index, document)
    inner = _inner(document)
    texts = (_value(inner, name) for name in _TEXTS)
    text = next((one for one in texts if isinstance(one, str)), None)
    if text is None and callable(getattr(inner, "get_content", None)):
        text = str(inner.get_content())
    if text is None:
        raise ConfigError(
            f"document {index} is a {type(document).__name__} without a text",
            key="documents",
            hint=f"a string, or one with {', '.join(_TEXTS[:4])}",
        )
    about = _about(inner)
    title, identifier = _first(inner, about, _TITLES), _first(inner, about, _IDS)
    return Passage(index, text, title, identifier, rules=_rules(about))


def _rules(about: Mapping[Any, Any]) -> tuple[str, ...]:
    """What our own retrievers write beside a document in any framework."""
    named = about.get("rules")
    return tuple(filter(_is_text, named)) if isinstance(named, list | tuple) else ()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _inner(document: Any) -> Any:
    """The document itself, of one in a wrapper."""
    if isinstance(document, str):
        return document
    for wrapper in _WRAPPERS:
        held = _value(document, wrapper)
        if held is not None and not isinstance(held, str):
            document = held
    return document


def _about(document: Any) -> Mapping[Any, Any]:
    found = (_value(document, name) for name in ("metadata", "meta"))
    return next((one for one in found if isinstance(one, Mapping)), {})


def _is_number(value: Any) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and math.isfinite(value)


def _first(document: Any, about: Mapping[Any, Any], names: Sequence[str]) -> str:
    found = (_value(place, name) for place in (document, about) for name in names)
    return next((str(one) for one in found if isinstance(one, str | int) and str(one)), "")


def _value(document: Any, name: str) -> Any:
    if isinstance(document, Mapping):
        return document.get(name)
    return getattr(document, name, None)
