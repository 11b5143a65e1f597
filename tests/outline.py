"""A page read as a browser would: what it holds, and that it is whole, harmless and alone."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

EVIL = "<script>alert('x')</script> & \"q\" <img src=x onerror=y> \x07\x1b[31m </svg></style>"
"""What would run, break out of its place or steer a terminal, were it not escaped."""

_VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})
_RUNS = frozenset({"script", "img", "iframe", "object", "link", "embed", "form", "b"})


class Outline(HTMLParser):
    """The elements and the text of a page.

    Checked on the way: elements close in their order, no attribute stands twice, ids are unique,
    links lead to one of them, nothing runs and nothing is fetched.

    Attributes:
        tags: how often each element stands.
        classes: how often each class stands.
        text: what is read, with single spaces.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self._open, self._words = list[str](), list[str]()
        self._ids, self._links = list[str](), list[str]()
        self.feed(page)
        self.close()
        assert self._open == [] and len(self._ids) == len(set(self._ids))
        assert set(self._links) <= {f"#{one}" for one in self._ids}
        assert not _RUNS & self.tags.keys()
        assert not re.search(r"https?:|url\(|@import|[\x00-\x08\x0b-\x1f]", page)
        self.text = " ".join("".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names, values = [name for name, _ in attrs], dict(attrs)
        assert len(names) == len(values) and not any(name.startswith("on") for name in names)
        assert "src" not in values
        self.tags[tag] += 1
        self.classes.update((values.get("class") or "").split())
        self._ids += [values["id"] or ""] if "id" in values else []
        self._links += [values["href"] or ""] if "href" in values else []
        if tag == "svg":
            assert values.get("role") in ("img", "group") and values.get("aria-label")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._words.append(" ")

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self._words.append(data)
