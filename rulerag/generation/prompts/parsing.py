"""Reading the answer out of what a model wrote."""

from __future__ import annotations

import re

# A dot after one of several initials, or after a short title, belongs to the name: J. R., D.C., Jr.
_NAME_DOT = re.compile(r"[^\W\d_]\. ?[^\W\d_]\.$|(?:^|\s)(?:Jr|Sr|Inc|Ltd|Co|Corp|St|Dr|Mr|Mrs)\.$")


# What reasoning models write before they answer.
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)


def first_answer(completion: str, cue: str = "") -> str:
    """The first line with text, without a repeated cue, outer quotes and the final full stop.

    A thought in ``<think>`` before it is left out.
    """
    for line in _THOUGHT.sub("", completion, count=1).splitlines():
        text = line.strip()
        if cue and text.lower().startswith(cue.lower()):
            text = text[len(cue) :].strip()
        if text:
            return _unquoted(_without_full_stop(text))
    return ""


def last_field(text: str, separator: str) -> str:
    """What stands behind the last separator; the whole text when there is none."""
    return text.rpartition(separator.strip())[2].strip()


def _without_full_stop(text: str) -> str:
    if not text.endswith("."):
        return text
    if text.endswith(".."):  # the name's own dot, then the full stop; or an ellipsis
        bare = text.rstrip(".")
        return f"{bare}." if _NAME_DOT.search(f"{bare}.") else bare.rstrip()
    return text if _NAME_DOT.search(text) else text[:-1].rstrip()


def _unquoted(text: str) -> str:
    for mark in ('"', "'", "`", "**"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            return _without_full_stop(text[len(mark) : -len(mark)].strip())
    return text
