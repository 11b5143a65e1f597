"""Rules among 50 sources: probes, recall and precision on planted rules, and whether bounds hold.

Two tables. Without noise: how many probes find the planted rules before they are tested, and
whether exactly those are found. With a share of the outputs turned round: in how many runs every
bound that the result states is true, against the planted validity of each rule reported.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.explanation.faithfulness import PlantedAnswer
from rulerag.explanation.source_rules import CertifiedMiner, lower_bound
from rulerag.io import write_json

TARGETS = {(1,): 12, (2, 2): 36, (2, 2, 3, 3): 100}
"""Sizes of the planted rules, and the most probes on average that may find them."""


def planted_answer(
    sizes: Sequence[int], seed: int, *, num_sources: int = 50, noise: float = 0.0
) -> PlantedAnswer:
    """Disjoint planted rules of the given sizes at random places."""
    places = random.Random(f"{sizes} {seed}").sample(range(num_sources), sum(sizes))
    rules = [[places.pop() for _ in range(size)] for size in sizes]
    return PlantedAnswer(num_sources, rules, noise=noise, seed=seed)


def measure(
    sizes: Sequence[int], runs: int, *, num_sources: int = 50, noise: float = 0.0
) -> dict[str, Any]:
    """Mine planted rules many times; averages over the runs."""
    totals = dict.fromkeys(("recall", "precision", "search_probes", "probes", "rules"), 0.0)
    true_bounds = tested = 0
    start = time.perf_counter()
    for seed in range(runs):
        answer = planted_answer(sizes, seed, num_sources=num_sources, noise=noise)
        rules = CertifiedMiner("retention", seed=seed).mine(answer.engine(), answer.predicate)
        hits = len(rules.minimal & answer.minimal())
        totals["recall"] += hits / len(sizes)
        totals["precision"] += hits / len(rules) if len(rules) else 1.0
        totals["search_probes"] += rules.num_search_probes
        totals["probes"] += rules.num_probes
        totals["rules"] += len(rules)
        true_bounds += all(rule.bound <= answer.validity(rule.sources) for rule in rules.rules)
        tested += len(rules) > 0
    return {
        "sizes": list(sizes),
        "num_sources": num_sources,
        "noise": noise,
        "runs": runs,
        **{name: total / runs for name, total in totals.items()},
        "runs_with_rules": tested,
        "bounds_true": true_bounds / runs,
        "bounds_true_at_least": lower_bound(true_bounds, runs, 0.025),
        "seconds": time.perf_counter() - start,
    }


def main(out: Path | None = None, *, runs: int = 500) -> dict[str, Any]:
    """Run both tables, print them, and write ``out``/certified.json when given."""
    rows = [measure(sizes, runs, noise=noise) for noise in (0.0, 0.05) for sizes in TARGETS]
    print("planted rules   noise  recall  precision  find probes (target)  all probes  bounds true")
    for row in rows:
        target = TARGETS[tuple(row["sizes"])] if not row["noise"] else "-"
        print(
            f"{row['sizes']!s:<15} {row['noise']:>5.0%} {row['recall']:>7.3f} "
            f"{row['precision']:>10.3f} {row['search_probes']:>11.1f} {f'({target})':>6} "
            f"{row['probes']:>11.1f} {row['bounds_true']:>12.3f}"
        )
    worst = max(r["search_probes"] / TARGETS[tuple(r["sizes"])] for r in rows if not r["noise"])
    print(f"probes to find, as a fraction of the target, worst of three: {worst:.2f}")
    result = {"benchmark": "certified", "ratio": worst, "rows": rows}
    if out is not None:
        write_json(out / "certified.json", result)
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
