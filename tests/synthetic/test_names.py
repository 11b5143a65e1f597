"""Names: readable, unique, and never one inside another."""

from __future__ import annotations

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.rules import readable
from rulerag.synthetic.names import ENTITY_KINDS, NameMaker
from rulerag.text import normalize_answer
from tests.synthetic.worlds import KINDS, world_of


def assert_names_stay_apart(names: list[str]) -> None:
    normal = {normalize_answer(name) for name in names}
    assert len(normal) == len(set(names)) == len(names)
    for name in normal:
        tokens = name.split()
        for start in range(len(tokens)):
            for end in range(start + 1, len(tokens) + 1):
                inner = " ".join(tokens[start:end])
                assert inner == name or inner not in normal


@pytest.mark.parametrize("seed", [0, 1])
def test_no_name_stands_inside_another(seed: int) -> None:
    maker = NameMaker(seed)
    # Around every place where some kind of name grows by a syllable, and at the far end.
    edges = [900, 2_520, 4_200, 67_200, 101_700, 1_060_920, 1_768_200, 17_640_000]
    far = [28_291_200, 42_437_700, 445_588_920, 742_648_200, 2**31 - 300]
    spots = [0, *(edge - 300 for edge in edges + far)]
    index = np.unique([np.arange(spot, spot + 600) for spot in spots])
    assert_names_stay_apart([name for kind in ENTITY_KINDS for name in maker.names(kind, index)])


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_a_world_stay_apart_from_each_other_and_from_relations(kind: str) -> None:
    graph = world_of(kind, 5_000, 0).graph
    assert_names_stay_apart(graph.entities.names)
    assert graph.relations.labels == [readable(name) for name in graph.relations.names]
    words = {word for label in graph.relations.labels for word in normalize_answer(label).split()}
    assert not words & {normalize_answer(name) for name in graph.entities.names}


def test_an_unknown_kind_of_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'person'"):
        NameMaker().names("persons", [0])
