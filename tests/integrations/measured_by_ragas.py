"""A program: what RAGAS says of systems whose workings are known, as one JSON object.

It runs in a process of its own, because RAGAS changes how event loops work in its process.
"""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import sys

from ragas import EvaluationDataset, SingleTurnSample, __version__, evaluate

from rulerag.integrations.ragas import RuleFaithfulness
from tests.integrations.systems import CONTEXTS, QUESTION, partly


def sample(response: str) -> SingleTurnSample:
    return SingleTurnSample(user_input=QUESTION, retrieved_contexts=CONTEXTS, response=response)


def main() -> None:
    said = partly(QUESTION, CONTEXTS)
    metric = RuleFaithfulness(answer=partly)
    score = metric.single_turn_score(sample(said))
    nothing = asyncio.run(metric.single_turn_ascore(sample("I don't know.")))
    rows = EvaluationDataset([sample(said), sample("It is Rome.")])
    limited = RuleFaithfulness(answer=partly, options={"budget": 50})
    result = evaluate(rows, metrics=[limited], show_progress=False)
    found = {
        "version": __version__,
        "score": score,
        "reason": pickle.loads(pickle.dumps(score)).reason,
        "no claim": math.isnan(nothing),
        "evaluated": result["rule_faithfulness"],
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
