"""How seconds and memory of scoring grow with the facts: the embedded world at 10^5 to 10^7.

Each size and scorer is measured in a process of its own: a world is generated, the scorer is made
over its training facts, and the first questions (one for each subject and relation of its test
facts) are scored, once to make what is kept between questions and once more.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.common.process_cost import in_fresh_process
from rulerag.candidates import CorpusFacts
from rulerag.composition import find
from rulerag.evaluation.runner import peak_memory_mb
from rulerag.synthetic import World
from rulerag.types import Query

SIZES = (100_000, 1_000_000, 10_000_000)
SCORERS = ("most-frequent", "relation-prior", "analogy", "walks", "rules")
QUESTIONS = 1000


def measure(scorer: str, size: int) -> dict[str, Any]:
    """One scorer on a world of so many facts, in a fresh process.

    Raises:
        RuntimeError: the process failed.
    """
    return in_fresh_process("benchmarks.candidates.growth", scorer, str(size))


def _child(scorer: str, size: int) -> dict[str, Any]:
    world = World.generate(size, kind="static")
    table, asked = world.graph.train, world.graph.test
    world_mb = peak_memory_mb()
    queries: dict[tuple[str, str], Query] = {}
    for row in range(len(asked)):
        subject, relation, _, _ = asked.fact(row)
        queries[subject, relation] = Query("q", "?", subject, relation, prediction=True)
        if len(queries) == QUESTIONS:
            break
    facts = CorpusFacts.of_table(table)
    entry = find("scorer", scorer)
    given = {"facts": facts, "bank": world.rules, "time_step": 1}
    made = entry.maker(**{name: given[name] for name in entry.injected})
    seconds = []
    for _ in range(2):
        started = time.process_time()
        made.score(list(queries.values()))
        seconds.append(round(time.process_time() - started, 2))
    return {
        "facts": len(table),
        "entities": len(facts.names),
        "questions": len(queries),
        "first_cpu": seconds[0],
        "again_cpu": seconds[1],
        "world_mb": round(world_mb),
        "peak_mb": round(peak_memory_mb()),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_child(sys.argv[1], int(sys.argv[2]))))
