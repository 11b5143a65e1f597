"""Explainers at equal numbers of probes, on formulas and on generated worlds with known truth.

Every explainer gets the same budget of probes and the same 0/1 score (whether the output matches
the answer), what a text-only API gives. Values of sources are those of ``rulerag explain
--attribution NAME``; ``LASSO 0.01`` is our linear surrogate with a fixed penalty. ContextCite is
not here: what it explains, the probability of the answer, needs a language model;
``explanation_contextcite`` has it. The linear datamodeling score is taken on random subsets that
no explainer of the case asked at that budget.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4: top-k drop and LDS.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.common.world_questions import world_questions
from rulerag.errors import ProbeBudgetError
from rulerag.explanation.attribution import (
    Attribution,
    attributions,
    linear_surrogate,
    rule_surrogate,
)
from rulerag.explanation.faithfulness import (
    PlantedAnswer,
    comprehensiveness,
    linear_datamodeling_score,
    rule_scores,
    sufficiency,
)
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing import ProbeEngine, SetValue, matches_answer, valued
from rulerag.explanation.records import CertifiedRules
from rulerag.explanation.source_rules import CertifiedMiner
from rulerag.generation import SymbolicReader
from rulerag.io import write_json
from rulerag.ruleqa import graph_labels
from rulerag.synthetic import World
from rulerag.types import GenerationRequest

BUDGETS = (32, 64, 128, 256)
_TOP = 3


@dataclass(frozen=True)
class Case:
    """Something to explain, with the truth.

    Args:
        family: what kind of case it is.
        engine: makes an engine that allows so many probes and adds the masks asked to a set.
        predicate: whether an output is the answer.
        rules: the true minimal retention rules; None where only their sources are known.
        sources: the sources that decide.
        num_sources: how many sources there are.
    """

    family: str
    engine: Callable[[int | None, set[int]], ProbeEngine]
    predicate: Callable[[str], bool]
    rules: frozenset[frozenset[int]] | None
    sources: frozenset[int]
    num_sources: int


def _recorded(inner: ProbeEngine, budget: int | None, asked: set[int]) -> ProbeEngine:
    """An engine with a budget of its own over one without."""

    def answer(batch: list[tuple[int, ...]]) -> list[str]:
        asked.update(mask_of(kept) for kept in batch)
        return inner.probe(batch)

    size, names = inner.num_sources, inner.names
    return ProbeEngine.from_function(answer, num_sources=size, names=names, max_probes=budget)


@dataclass(frozen=True)
class Explained:
    """What an explainer found: values, a prediction for any subset, rules where it has any.

    Args:
        attribution: values of the sources.
        predict: the score of a subset, up to a constant.
        asked: the masks of the subsets asked.
        rules: minimal retention rules; None where it looks for none.
    """

    attribution: Attribution
    predict: Callable[[int], float]
    asked: frozenset[int]
    rules: frozenset[frozenset[int]] | None = None


def _rules(case: Case, budget: int, seed: int) -> Explained:
    asked: set[int] = set()
    engine = case.engine(budget, asked)
    try:
        found = CertifiedMiner("retention", seed=seed).mine(engine, case.predicate)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, CertifiedRules):
            raise
        found = error.partial
    surrogate = rule_surrogate(found.minimal, engine.names)
    return Explained(surrogate, surrogate.predict, frozenset(asked), found.minimal)


def _lasso(case: Case, budget: int, seed: int) -> Explained:
    asked: set[int] = set()
    engine = case.engine(budget, asked)
    found = linear_surrogate(engine, case.predicate, ablations=budget, penalty=0.01, seed=seed)
    return Explained(found, found.predict, frozenset(asked))


def _attributed(method: str, case: Case, budget: int, samples: int | None, seed: int) -> Explained:
    """What ``explain_answer`` returns for ``attribution=[method]``."""
    asked: set[int] = set()
    engine = case.engine(budget, asked)
    (found,), _ = attributions(engine, case.predicate, [method], samples=samples, seed=seed)
    rules = None
    if found.surrogate is not None:
        rules = frozenset(map(frozenset, found.surrogate.rules))
    return Explained(found, found.predict, frozenset(asked), rules)


def _guided(case: Case, budget: int, seed: int) -> Explained:
    return _attributed("guided", case, budget, budget, seed)


def _linear(case: Case, budget: int, seed: int) -> Explained:
    return _attributed("linear", case, budget, budget, seed)


def _banzhaf(case: Case, budget: int, seed: int) -> Explained:
    return _attributed("banzhaf", case, budget, budget - 2, seed)


def _shapley(case: Case, budget: int, seed: int) -> Explained | None:
    permutations = (budget - 2) // (case.num_sources - 1)
    if permutations < 4:  # fewer are refused there, too
        return None
    return _attributed("shapley", case, budget, permutations, seed)


def _leave_one_out(case: Case, budget: int, seed: int) -> Explained | None:
    if case.num_sources + 1 > budget:
        return None
    return _attributed("leave-one-out", case, budget, None, seed)


EXPLAINERS: dict[str, Callable[[Case, int, int], Explained | None]] = {
    "certified rules": _rules,
    "guided surrogate": _guided,
    "linear surrogate": _linear,
    "LASSO 0.01": _lasso,
    "Banzhaf": _banzhaf,
    "Shapley": _shapley,
    "leave-one-out": _leave_one_out,
}


def formulas(runs: int, num_sources: int = 24) -> Iterator[Case]:
    """Planted formulas: AND, OR, DNF, one that a source spoils, and one with 5 % of noise."""
    for seed in range(runs):
        chance = random.Random(f"formulas {seed}")
        a, b, c, d, e, f = chance.sample(range(num_sources), 6)
        families: dict[str, tuple[list[Any], float]] = {
            "AND": ([{a, b, c}], 0.0),
            "OR": ([{a}, {b}, {c}], 0.0),
            "DNF": ([{a, b}, {c, d, e}], 0.0),
            "non-monotone": ([{a, b}, ({c}, {d, e, f})], 0.0),
            "noisy DNF": ([{a, b}, {c, d}], 0.05),
        }
        for family, (clauses, noise) in families.items():
            planted = PlantedAnswer(num_sources, clauses, noise=noise, seed=seed)
            if not planted.says_yes((1 << num_sources) - 1):
                continue  # there is no answer to explain
            # A clause that the full set spoils is no rule; its sources are not asked for.
            rules = planted.minimal() if planted.is_monotone else frozenset({frozenset({a, b})})
            sources = frozenset(index for rule in rules for index in rule)
            engine = partial(_recorded, planted.engine())
            yield Case(family, engine, planted.predicate, rules, sources, num_sources)


def worlds(runs: int, num_documents: int = 24, num_facts: int = 4000) -> Iterator[Case]:
    """Answers of the symbolic reader in a generated world, on true support and distractors.

    The truth is each document that states a supporting fact of the answer.
    """
    world = World.generate(num_facts, kind="static", seed=1)
    corpus, questions = world_questions(world)
    reader = SymbolicReader(labels=graph_labels(world.graph)["entities"])
    chance, made = random.Random(7), 0
    for question in questions:
        if made == runs:
            return
        query, support = question.query, question.support
        near = [d for d in question.near if d.id not in support]
        others = [d for d in chance.sample(corpus, num_documents) if d.id not in support]
        chosen = list({d.id: d for d in (*support.values(), *near, *others)}.values())
        chosen = chosen[:num_documents]
        chance.shuffle(chosen)
        request = GenerationRequest(query, tuple(chosen), question.rules)
        answer = reader.generate([request])[0].text
        if answer not in query.answers:
            continue
        made += 1
        yield Case(
            "world",
            partial(_recorded, ProbeEngine.from_generator(reader, request)),
            matches_answer(answer),
            None,
            frozenset(place for place, d in enumerate(chosen) if d.id in support),
            len(chosen),
        )


def measure(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Every explainer on every case at every budget; one row for each family and budget."""
    collected: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    for number, case in enumerate(cases):
        value = valued(case.engine(None, set()), case.predicate)
        for budget in BUDGETS:
            found, seconds = _explain(case, budget, number)
            seen = frozenset[int]().union(*(one.asked for one in found.values()))
            for name, one in found.items():
                scores = _scores(case, one, value, seen, number)
                scores["seconds"] = seconds[name]
                collected.setdefault((case.family, budget, name), []).append(scores)
    return [
        {
            "family": family,
            "budget": budget,
            "explainer": name,
            "cases": len(rows),
            **{key: fmean(row[key] for row in rows) for key in rows[0]},
        }
        for (family, budget, name), rows in collected.items()
    ]


def _explain(case: Case, budget: int, seed: int) -> tuple[dict[str, Explained], dict[str, float]]:
    """What each explainer finds, those that need more probes left out; and its seconds."""
    found, seconds = {}, {}
    for name, explain in EXPLAINERS.items():
        start = time.perf_counter()
        one = explain(case, budget, seed)
        if one is not None:
            found[name], seconds[name] = one, time.perf_counter() - start
    return found, seconds


def _scores(
    case: Case, found: Explained, value: SetValue, asked: frozenset[int], seed: int
) -> dict[str, float]:
    """Every measure; predictions are tried on subsets that are not among those asked."""
    ranking = found.attribution.ranking
    removals = ranking if found.attribution.removals is None else found.attribution.removals
    count = len(case.sources)
    hits = len(found.attribution.top(count) & case.sources) / count
    scores = {
        "sources_found": hits,
        "top_drop": comprehensiveness(value, removals, min(_TOP, count)),
        "sufficiency_loss": sufficiency(value, ranking, count),
        "lds": linear_datamodeling_score(
            value, found.predict, samples=64, seed=seed + 10_000, asked=asked
        ),
        "probes": float(len(found.asked)),
    }
    if case.rules is not None:
        rules = rule_scores(found.rules or (), case.rules)
        scores |= {
            "rule_precision": rules.precision if found.rules is not None else 0.0,
            "rule_recall": rules.recall,
            "rule_f1": rules.f1,
        }
    return scores


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run everything, print a table, and write ``explainers.json`` into ``--out`` when given."""
    parser = argparse.ArgumentParser(description="Explainers at equal numbers of probes.")
    parser.add_argument("--runs", type=int, default=40, help="cases of each family")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    rows = measure([*formulas(given.runs), *worlds(given.runs)])
    keys = ("sources_found", "top_drop", "sufficiency_loss", "lds")
    print(f"{'family':<13} {'budget':>6} {'explainer':<17}" + "".join(f"{k:>17}" for k in keys))
    for row in rows:
        numbers = "".join(f"{row[key]:>17.3f}" for key in keys)
        print(f"{row['family']:<13} {row['budget']:>6} {row['explainer']:<17}{numbers}")
    result = {"benchmark": "explainers", "runs": given.runs, "rows": rows}
    if given.out is not None:
        write_json(given.out / "explainers.json", result)
    return result


if __name__ == "__main__":
    main()
