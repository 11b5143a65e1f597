"""Typed settings: what is wrong is named by its key, in the library's own errors."""

from __future__ import annotations

from typing import Annotated

import pydantic
import pytest

from rulerag.composition import Settings
from rulerag.errors import ConfigError


class Inner(Settings):
    """Settings inside others."""

    depth: Annotated[int, pydantic.Field(ge=1)] = 3
    words: tuple[str, ...] = ()


class Outer(Settings):
    """Settings that hold others."""

    inner: Inner = Inner()
    name: str


def test_lists_become_tuples_and_nothing_changes() -> None:
    made = Outer(name="x", inner={"words": ["a", "b"]})  # type: ignore[arg-type]
    assert made.inner == Inner(words=("a", "b")) and made == Outer.read(made.model_dump())
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        made.name = "y"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "^key 'name': is missing — give a text$"),
        ({"name": 3}, "^key 'name': expected a text, found 3$"),
        ({"nam": "x"}, "^key 'nam': unknown key — did you mean 'name'"),
        ({"name": "x", "inner": {"depth": 0}}, r"^key 'inner\.depth': 0 is out of range — should"),
        ({"name": "x", "inner": {"dept": 1}}, r"^key 'inner\.dept': unknown key .* 'depth'"),
        ({"name": "x", "inner": {"depth": True}}, r"'inner\.depth': expected a whole number"),
    ],
)
def test_what_is_wrong_is_named_from_the_outermost(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Outer(**values)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^f\.yaml, key 'top\."):
        Outer.read(values, source="f.yaml", where="top")
