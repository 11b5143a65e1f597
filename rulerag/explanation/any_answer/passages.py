"""Documents as people have them, strings, dicts or a framework's own objects, read as passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.records import Record
from rulerag.explanation.wording import shortened

_TEXTS = ("text", "page_content", "content", "contents", "body", "passage", "document", "snippet")
_TITLES = ("title", "name", "file_name", "source", "url")
_IDS = ("id", "id_", "_id", "doc_id", "docid", "node_id")


@dataclass(frozen=True)
class Passage(Record):
    """One document of an answer.

    Args:
        index: its place, from 0.
        text: what it says.
        title: what people know it by; empty where it has none.
        id: its identifier; empty where it has none.
    """

    index: int
    text: str
    title: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """The passage as explanations cite it: its place from 1, as in ``[2]``."""
        return f"[{self.index + 1}]"

    @property
    def called(self) -> str:
        """Its title or the beginning of its text, with its place."""
        words = self.title or shortened(self.text, 48)
        return f"“{words}” {self.label}"


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


def _passage(index: int, document: Any) -> Passage:
    if isinstance(document, str):
        return Passage(index, document)
    inner = document
    for wrapper in (
        "document",
        "node",
    ):  # a scored document of rulerag, a scored node of LlamaIndex
        held = _value(inner, wrapper)
        if held is not None and not isinstance(held, str):
            inner = held
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
    about = next(
        (m for n in ("metadata", "meta") if isinstance(m := _value(inner, n), Mapping)), {}
    )
    return Passage(index, text, _first(inner, about, _TITLES), _first(inner, about, _IDS))


def _first(document: Any, about: Mapping[Any, Any], names: Sequence[str]) -> str:
    found = (_value(place, name) for place in (document, about) for name in names)
    return next((str(one) for one in found if isinstance(one, str | int) and str(one)), "")


def _value(document: Any, name: str) -> Any:
    if isinstance(document, Mapping):
        return document.get(name)
    return getattr(document, name, None)
