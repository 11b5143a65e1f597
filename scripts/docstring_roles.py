"""For the site: cross-references of docstrings (``:class:`~a.b.C```) as Markdown reads them."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`(~?)([^`<]+?)(?:\(\))?`")


def as_markdown(text: str) -> str:
    """A docstring whose roles are code: the last part of a name behind ``~``, else the whole."""
    return ROLE.sub(lambda m: f"`{m[2].rpartition('.')[2] if m[1] else m[2]}`", text)


class DocstringRoles(griffe.Extension):
    """Rewrites every docstring when it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
