"""The search for the border: every planted set, few questions, and what is left when cut short."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from rulerag.errors import ConfigError, PredicateError
from rulerag.explanation.lattice import mask_of, minimal_transversals
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.search import BorderSearch, RuleOracle, first_prefixes
from rulerag.explanation.search.border import shrink
from tests.planted import PlantedAnswer


def searched(
    answer: PlantedAnswer, kind: str = "retention", **options: object
) -> tuple[BorderSearch, RuleOracle]:
    wanted = "yes" if kind == "retention" else "no"
    oracle = RuleOracle(kind, answer.engine(), lambda output: output == wanted)
    search = BorderSearch(oracle, **{"max_size": 10, "max_probes": 1000, "seed": 0, **options})  # type: ignore[arg-type]
    for mask in search.search():
        assert search.minimal[-1] == mask
    return search, oracle


@pytest.mark.parametrize("kind", ["retention", "omission"])
@pytest.mark.parametrize("width", [1, 8])
def test_every_planted_set_is_found_and_what_fails_leaves_no_room(kind: str, width: int) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        places = rng.sample(range(40), 10)
        sets = [mask_of(places[a:b]) for a, b in ((0, 1), (1, 3), (3, 5), (5, 8), (8, 10))]
        answer = PlantedAnswer(40, [[places[0]], places[1:3], places[3:5], places[5:8], places[8:]])
        wanted = set(sets) if kind == "retention" else set(minimal_transversals(sets))
        search, oracle = searched(answer, kind, seed=seed, width=width)
        assert set(search.minimal) == wanted and len(search.minimal) == len(wanted)
        assert search.complete and oracle.monotone
        assert search.num_probes == oracle.num_probes <= 20 * width + 30 * len(wanted)
        # Every largest set with none of those found inside lies in one that was seen to fail.
        assert all(oracle.refuted(oracle.full ^ hit) for hit in minimal_transversals(wanted))


def test_every_pair_of_ten_among_a_hundred_sources() -> None:
    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        return ["yes" if sum(index < 10 for index in k) >= 2 else "no" for k in kept]

    engine = ProbeEngine.from_function(answer, num_sources=100)
    search = BorderSearch(
        RuleOracle("retention", engine, lambda out: out == "yes"),
        max_size=10,
        max_probes=1000,
        seed=0,
    )
    assert len(set(search.search())) == 45 and search.complete and search.num_probes < 500


def test_a_search_can_be_cut_short_and_large_sets_are_not_found() -> None:
    pairs = PlantedAnswer(50, [[2 * n, 2 * n + 1] for n in range(6)])
    search, _ = searched(pairs, max_probes=40)
    assert 0 < len(search.minimal) < 6 and not search.complete and search.num_probes >= 40
    assert len([*search.search(1000), *search.minimal]) > 6 and search.complete  # it goes on
    search, _ = searched(PlantedAnswer(50, [range(11)]))
    assert not search.minimal and len(search.isolated) == 1 and not search.complete


def test_trivial_conditions_take_one_or_two_questions() -> None:
    assert searched(PlantedAnswer(30, []))[0].num_probes == 1
    always, _ = searched(PlantedAnswer(30, [set()]))
    assert always.minimal == [0] and always.complete and always.num_probes <= 3
    assert searched(PlantedAnswer(0, [set()]))[0].minimal == [0]


def test_what_does_not_fit_the_assumption_is_noticed() -> None:
    _, oracle = searched(PlantedAnswer(12, [({3}, {5})]))
    assert oracle.holds(mask_of([3])) and not oracle.holds(mask_of([3, 5])) and not oracle.monotone
    with pytest.raises(ConfigError, match="did you mean 'retention'"):
        RuleOracle("retentions", PlantedAnswer(2, []).engine(), bool)
    with pytest.raises(PredicateError, match="on the output 'yes'"):
        RuleOracle("retention", PlantedAnswer(2, [[]]).engine(), lambda out: bool(1 / 0)).holds(0)


class Subset:
    """Holds for every set around one; counts questions and rounds."""

    def __init__(self, wanted: Sequence[int], most: int = 99) -> None:
        self.wanted, self.most = mask_of(wanted), most
        self.batches: list[list[int]] = []

    def hold(self, masks: Sequence[int]) -> list[bool]:
        assert len(masks) <= self.most
        self.batches.append([*masks])
        return [self.wanted & ~mask == 0 for mask in masks]


def test_shrinking_takes_few_questions_and_fewer_rounds_where_more_is_asked_at_once() -> None:
    for wanted in (range(40), range(0, 40, 2), (3,), ()):
        condition = Subset(wanted)
        assert shrink(range(40), condition.hold) == condition.wanted
        assert sum(map(len, condition.batches)) <= 12 + 3 * len(wanted)
    assert shrink(range(40), Subset(range(40)).hold, max_size=5) is None
    rounds = []
    for width in (1, 2, 7, 64):
        condition = Subset((3, 17, 30), most=width)
        assert shrink(range(40), condition.hold, width=width) == condition.wanted
        rounds.append(len(condition.batches))
        assert condition.batches[0] == first_prefixes(40, width)
    assert rounds == sorted(rounds, reverse=True) and len(set(rounds)) > 2
