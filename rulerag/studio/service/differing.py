"""What two answers of a session differ in: words, and the sources that were read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from rulerag.io import fingerprint_object
from rulerag.studio.service.records import Part
from rulerag.studio.systems import Source

_WORDS = re.compile(r"\s*\S+|\s+")
_MOST_WORDS = 2_000


def word_changes(before: str, now: str) -> tuple[Part, ...]:
    """What two answers share and what is new or gone, in reading order.

    Args:
        before: the one answer.
        now: the other; the parts that are not ``removed`` make it up.
    """
    old, new = (_WORDS.findall(text) for text in (before, now))
    if max(len(old), len(new)) > _MOST_WORDS:  # the comparison is quadratic
        return (("same", now),) if old == new else (("removed", before), ("added", now))
    parts: list[Part] = []
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(("same", "".join(new[k:m])))
            continue
        if i < j:
            parts.append(("removed", "".join(old[i:j])))
        if k < m:
            parts.append(("added", "".join(new[k:m])))
    return tuple(parts)


def remembered(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Sources whose texts are fingerprints: enough to tell later what was changed."""
    return tuple(one.model_copy(update={"text": fingerprint_object(one.text)}) for one in sources)


def source_moves(before: Sequence[Source], now: Sequence[Source]) -> tuple[dict[str, Any], ...]:
    """The sources that are read at another place than before, with another text, or no more.

    Args:
        before: what was read, as it is or :func:`remembered`.
        now: what is read, likewise.

    Returns:
        Of each its ``title``, its place from 1 ``before`` and ``now`` (None where it was not
        read), and whether its text was ``edited``.
    """
    old = {one.id: (place, one) for place, one in enumerate(before, start=1)}
    new = {one.id: (place, one) for place, one in enumerate(now, start=1)}
    moves = []
    for name in dict.fromkeys((*new, *old)):
        was, source = old.get(name, (None, None))
        is_at, here = new.get(name, (None, None))
        edited = bool(source and here and source.text != here.text)
        if was != is_at or edited:
            title = (here or source or Source(id=name, text="")).title or name
            moves.append({"title": title, "before": was, "now": is_at, "edited": edited})
    return tuple(moves)
