"""Documents as people have them, strings, dicts or a framework's own objects, read as passages."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.records import Record
from rulerag.text import shortened
from rulerag.types import Document, ScoredDocument

_TEXTS = ("text", "page_content", "content", "contents", "body", "passage", "document", "snippet")
_TITLES = ("title", "name", "file_name", "source", "url")
_IDS = ("id", "id_", "_id", "doc_id", "docid", "node_id")
_PARENTS = ("ref_doc_id", "source_document_id", "document_id", "doc_id", "parent_id", "source_id")
_ORIGINS = (*_PARENTS, "source", "file_path", "file_name", "url", "title")
_METADATA = ("metadata", "meta")
_WRAPPERS = ("document", "node")
"""A scored document of rulerag, a scored node of LlamaIndex."""

_UNTITLED = "Untitled"


@dataclass(frozen=True)
class Hit(Record):
    """One search that found a document: by a mined rule, or by the question alone (None).

    ``rank`` counts from 1 within that search; ``atom`` is the rule's body atom, from 0, that the
    document grounds, where it is known.
    """

    rule: str | None
    rank: int
    score: float
    atom: int | None = None


@dataclass(frozen=True)
class Reason(Record):
    """Why a candidate scorer wanted a document, in words; ``documents`` (ids) state the facts."""

    scorer: str
    why: str
    documents: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The reason in a line."""
        return f"{self.scorer}: {self.why}"


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
            :data:`rulerag.explanation.units.LEVELS`.
        spans: where it stands, as places of documents from 0 with the characters from and to; for
            a whole document empty.
        rules: the mined rules that found it, the best first, by id or in words. Where the document
            states the body of a rule that found it, only such rules are named: other searches may
            have met it for the sake of its subject alone.
        found_by: every search that found it, where that is known.
        reasons: why candidate scorers wanted it, the strongest first.
    """

    index: int
    text: str
    title: str = ""
    id: str = ""
    part: str | None = None
    level: str | None = None
    spans: tuple[tuple[int, int, int], ...] = ()
    rules: tuple[str, ...] = ()
    found_by: tuple[Hit, ...] = ()
    reasons: tuple[Reason, ...] = ()

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
        names = [_name_of(one, (key,)) for one in inner]
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
    if isinstance(document, Document):
        # Its facts go: which words state which of them is not recorded.
        title = _UNTITLED if untitled and document.title else document.title
        return Document(document.id, text, title=title)
    for wrapper in _WRAPPERS:
        held = _value(document, wrapper)
        if held is not None and not isinstance(held, str):
            return _copied(document, {wrapper: _changed(held, text, untitled)})
    changes: dict[str, Any] = {}
    if untitled:
        if isinstance(_value(document, "title"), str):
            changes["title"] = _UNTITLED
        for name in _METADATA:
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
    text = _first((inner,), _TEXTS, _is_text)
    if text is None and callable(getattr(inner, "get_content", None)):
        text = str(inner.get_content())
    if text is None:
        raise ConfigError(
            f"document {index} is a {type(document).__name__} without a text",
            key="documents",
            hint=f"a string, or one with {', '.join(_TEXTS[:4])}",
        )
    passage = Passage(index, text, _name_of(inner, _TITLES), _name_of(inner, _IDS))
    if isinstance(document, ScoredDocument):
        return _of_search(passage, document)
    rules = _about(inner).get("rules")  # what our own retrievers write in any framework
    names = rules if isinstance(rules, list | tuple) else ()
    return dataclasses.replace(passage, rules=tuple(filter(_is_text, names)))


def _of_search(passage: Passage, scored: ScoredDocument) -> Passage:
    """The passage of a document with every search that found it."""
    hits = [Hit(one.rule_id, one.rank, float(one.score), one.atom) for one in scored.found_by]
    ordered = sorted(hits, key=lambda hit: (hit.rule is None, hit.rank))
    rules = [hit.rule for hit in ordered if hit.atom is not None] or [hit.rule for hit in ordered]
    return dataclasses.replace(
        passage,
        rules=tuple(dict.fromkeys(rule for rule in rules if rule is not None)),
        found_by=tuple(hits),
        reasons=tuple(Reason(one.scorer, one.why, one.document_ids) for one in scored.support),
    )


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
    about = _first((document,), _METADATA, lambda value: isinstance(value, Mapping))
    return {} if about is None else about


def _name_of(document: Any, keys: Sequence[str]) -> str:
    """The value of the first of some keys that has one, of a document or its metadata."""
    places = document, _about(document)
    name = _first(places, keys, lambda value: isinstance(value, str | int) and str(value))
    return "" if name is None else str(name)


def _first(places: Sequence[Any], keys: Sequence[str], fits: Callable[[Any], object]) -> Any:
    """The first value that fits, place by place; None without one."""
    values = (_value(place, key) for place in places for key in keys)
    return next((value for value in values if fits(value)), None)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _value(document: Any, key: str) -> Any:
    if isinstance(document, Mapping):
        return document.get(key)
    return getattr(document, key, None)
