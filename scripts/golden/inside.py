"""What of the golden set calls the library: ``python scripts/golden/inside.py NAME`` prints JSON.

``scripts/golden.py`` runs it with the library of the checkout that is compared. An object with
``value`` is a figure that may only become better: ``at_most`` or ``at_least`` what is recorded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import rulerag
from rulerag import CertifiedMiner, DualMiner, MonoMiner, ProbeEngine

World = list[frozenset[int]]
Answers = Callable[[Sequence[Sequence[int]]], list[str]]

SEEDS, DRAWS, NOISE = 10, 2000, 0.05


def families() -> dict[str, Any]:
    """Families of both exact miners on tables of all subsets' answers, and the subsets asked."""
    predicates = {"retention": lambda text: text == "yes", "omission": lambda text: text != "yes"}
    found: dict[str, Any] = {}
    asked = {"MonoMiner": 0, "DualMiner": 0}
    for name, count, answer in tables():
        engine = ProbeEngine.from_function(answer, num_sources=count)
        both = DualMiner().mine(engine, **predicates)
        for (kind, predicate), dual in zip(predicates.items(), both, strict=True):
            engine = ProbeEngine.from_function(answer, num_sources=count)
            mono = MonoMiner(kind).mine(engine, predicate)
            for miner, rules in (("MonoMiner", mono), ("DualMiner", dual)):
                asked[miner] += rules.num_probes
                sets = f"{in_words(rules.minimal)}; valid {in_words(rules.valid)}"
                if len(sets) > 200:
                    sets = f"{sets[:150]} … {hashlib.sha256(sets.encode()).hexdigest()}"
                found[f"{name}, {kind}, {miner}"] = sets
    bounds = {key: {"value": number, "at_most": number} for key, number in asked.items()}
    return {**found, "subsets asked": bounds}


def tables() -> Iterator[tuple[str, int, Answers]]:
    """Answers of all subsets: monotone ones, ones with a tenth turned round, and random ones."""
    kinds = {"monotone": 0.0, "noisy": 0.1, "random": 0.5}
    for count, (kind, noise) in itertools.product((1, 3, 6, 9, 11), kinds.items()):
        rng = random.Random(f"{count} {kind}")
        sets = [rng.getrandbits(count) & rng.getrandbits(count) for _ in range(3)]
        table = []
        for mask in range(1 << count):
            holds = any(one & ~mask == 0 for one in sets) != (rng.random() < noise)
            table.append("yes" if holds else rng.choice(("no", "perhaps")))

        def answer(kept: Sequence[Sequence[int]], table: Sequence[str] = table) -> list[str]:
            return [table[sum(1 << index for index in one)] for one in kept]

        yield f"{count} sources, {kind}", count, answer


def in_words(sets: Iterable[Iterable[int]]) -> str:
    """Sets in words, in order."""
    return " ".join("+".join(map(str, one)) or "none" for one in sorted(map(sorted, sets)))


def explained() -> dict[str, Any]:
    """Planted worlds explained by ``rulerag.explain``: both families of the claim, and calls."""
    found = {}
    for name, count, made in worlds((6, 24, 36, 50)):
        right = calls = 0
        for world in made:
            answer = answers_of(world)

            def read(_: str, documents: Sequence[str], answer: Answers = answer) -> str:
                return answer([[int(one) for one in documents]])[0]

            why = rulerag.explain(read, "What is it?", [str(index) for index in range(count)])
            (claim,) = why.claims
            gone = {frozenset(one) for one in itertools.product(*world)}
            right += set(claim.retention) == set(world) and set(claim.omission) == gone
            calls += why.num_calls
        found[name] = summary(right, calls)
    return found


def certified() -> dict[str, Any]:
    """Planted worlds mined by ``CertifiedMiner``: sets and calls; with noise, true bounds."""
    found: dict[str, Any] = {}
    true_bounds = []
    for name, count, made in worlds((24, 36, 50)):
        right = calls = 0
        for seed, world in enumerate(made):
            rules = mined(answers_of(world), count, 0.95, seed)
            right += rules.minimal == set(world)
            calls += rules.num_probes
            true_bounds.append(bounds_are_true(answers_of(world, NOISE), count, seed))
        found[name] = summary(right, calls)
    share = round(sum(true_bounds) / len(true_bounds), 3)
    return {**found, "share of noisy worlds with true bounds": {"value": share, "at_least": 0.9}}


def worlds(counts: Iterable[int]) -> Iterator[tuple[str, int, list[World]]]:
    """Planted sets that share no source: a name, the number of sources, a world for each seed."""
    for count, sizes in itertools.product(counts, ((1,), (2, 2), (2, 2, 3, 3))):
        if sum(sizes) <= count:
            made = []
            for seed in range(SEEDS):
                places = random.Random(f"{count} {sizes} {seed}").sample(range(count), sum(sizes))
                made.append([frozenset(places.pop() for _ in range(size)) for size in sizes])
            yield f"{count} sources, {'+'.join(map(str, sizes))}", count, made


def summary(right: int, calls: int) -> dict[str, Any]:
    """How many worlds were explained right, of all of them, and the calls of all."""
    return {
        f"right of {SEEDS}": {"value": right, "at_least": SEEDS},
        "calls": {"value": calls, "at_most": calls},
    }


def answers_of(world: World, noise: float = 0.0) -> Answers:
    """Answers of subsets of the sources, where a fixed share of the subsets has the other one."""
    texts = ("I don't know.", "It is Paris.")

    def answer(kept: Sequence[Sequence[int]]) -> list[str]:
        other = [noise > 0 and random.Random(f"{sorted(one)}").random() < noise for one in kept]
        holds = [any(one <= set(subset) for one in world) for subset in kept]
        return [texts[a != b] for a, b in zip(other, holds, strict=True)]

    return answer


def mined(answer: Answers, count: int, level: float, seed: int) -> Any:
    """The rules of ``CertifiedMiner`` where validity and confidence are ``level``."""
    miner = CertifiedMiner("retention", validity=level, confidence=level, seed=seed)
    engine = ProbeEngine.from_function(answer, num_sources=count)
    return miner.mine(engine, lambda output: output == "It is Paris.")


def bounds_are_true(answer: Answers, count: int, seed: int) -> bool:
    """Whether there are rules, and each holds for the share of the subsets that it states.

    The share is that of ``DRAWS`` random subsets, drawn as the certificate's: first how many of the
    other sources are kept, then which. Three of its standard errors are allowed.
    """
    rules, rng = mined(answer, count, 0.9, seed).rules, random.Random(seed)
    for rule in rules:
        others = [i for i in range(count) if i not in rule.sources]
        kept = [
            [*rule.sources, *rng.sample(others, rng.randint(0, len(others)))] for _ in range(DRAWS)
        ]
        share = answer(kept).count("It is Paris.") / DRAWS
        if rule.certificate.bound > share + 3 * (share * (1 - share) / DRAWS) ** 0.5:
            return False
    return len(rules) > 0


if __name__ == "__main__":
    functions = {one.__name__: one for one in (families, explained, certified)}
    sys.stdout.write(json.dumps(functions[sys.argv[1]]()))
