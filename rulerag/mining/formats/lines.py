"""What the formats of tab-separated lines share: reading line by line, numbers, static rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rulerag.errors import DataFormatError
from rulerag.io import read_lines
from rulerag.rules import Rule

T = TypeVar("T")


def parse_lines(path: str | Path, parse: Callable[[str], T], *, header: bool = False) -> list[T]:
    """What ``parse`` makes of each line that is not blank.

    Args:
        path: the file.
        parse: reads one line.
        header: pass over the first line.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: ``parse`` refuses a line; names file and line.
    """
    lines = [(number, line) for number, line in read_lines(path) if line.strip()]
    found = []
    for number, line in lines[header:]:
        try:
            found.append(parse(line))
        except DataFormatError as error:
            raise DataFormatError(
                error.message, path=path, line=number, key=error.key, hint=error.hint
            ) from error
    return found


def whole_number(text: str, column: str) -> int:
    """The number that a cell holds.

    Raises:
        DataFormatError: it holds something else; names the column.
    """
    if not text.strip().isdecimal():
        raise DataFormatError(f"expected a whole number, found {text!r}", key=column)
    return int(text)


def number(text: str, column: str) -> float:
    """The finite number that a cell holds.

    Raises:
        DataFormatError: it holds something else; names the column.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataFormatError(f"expected a number, found {text!r}", key=column)
    return value


def check_static(rule: Rule, tool: str) -> None:
    """Refuse a temporal rule in the format of a tool.

    Raises:
        DataFormatError: the rule is temporal.
    """
    if rule.temporal:
        raise DataFormatError(
            f"the rule {rule.text!r} is temporal and {tool}'s format holds static rules",
            hint="use the format jsonl or tlogic",
        )
