"""Sections of a configuration as arguments: names and kinds are checked before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rulerag.arguments import arguments, construct, parameters
from rulerag.config import Config
from rulerag.errors import ConfigError


def component(
    given: object,
    *,
    number: int = 1,
    share: float = 0.5,
    name: str | None = None,
    words: str | Sequence[str] = "all",
) -> tuple[object, ...]:
    if number < 1:
        raise ConfigError(f"{number} is below 1", key="number")
    return given, number, share, name, words


def test_arguments_of_the_right_kinds_arrive() -> None:
    section = Config({"type": "x", "number": 2, "share": 1, "name": None, "words": ["a", "b"]})
    assert construct(component, section, {"given": 7}) == (7, 2, 1, None, ["a", "b"])
    assert parameters(component, given=["given"]) == {"number", "share", "name", "words"}
    assert arguments(component, Config({"share": 0.1})) == {"share": 0.1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"number": 2.0}, "key 'part.number': expected a whole number, found 2.0"),
        ({"number": True}, "key 'part.number': expected a whole number, found True"),
        ({"number": 0}, "key 'part.number': 0 is below 1"),
        ({"share": "half"}, "key 'part.share': expected a number, found 'half'"),
        ({"name": 3}, "key 'part.name': expected a text or null, found 3"),
        ({"words": [1]}, "key 'part.words': expected a text or a list of texts"),
        ({"nmae": "x"}, "key 'part.nmae': unknown key — did you mean 'name'"),
        ({"given": "x"}, "key 'part.given': unknown key"),
    ],
)
def test_arguments_that_do_not_fit(values: dict[str, Any], message: str) -> None:
    section = Config({"part": values}, source="e.yaml").section("part")
    with pytest.raises(ConfigError) as caught:
        construct(component, section, {"given": 7})
    assert str(caught.value).startswith(f"e.yaml, {message}")
