"""A program: what RAGAS or DeepEval says of systems whose workings are known, as one JSON object.

It runs in a process of its own, because RAGAS changes how event loops work in its process, and
because of what :mod:`tests.integrations.apart` says.
"""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import sys
from typing import Any

from tests.integrations.systems import CONTEXTS, QUESTION, partly

SAID = partly(QUESTION, CONTEXTS)


def by_ragas() -> dict[str, Any]:
    from ragas import EvaluationDataset, SingleTurnSample, __version__, evaluate

    from rulerag.integrations.ragas import RuleFaithfulness

    said, wrong, nothing = (
        SingleTurnSample(user_input=QUESTION, retrieved_contexts=CONTEXTS, response=response)
        for response in (SAID, "It is Rome.", "I don't know.")
    )
    metric = RuleFaithfulness(answer=partly)
    score = metric.single_turn_score(said)
    limited = RuleFaithfulness(answer=partly, options={"budget": 50})
    result = evaluate(EvaluationDataset([said, wrong]), metrics=[limited], show_progress=False)
    return {
        "version": __version__,
        "score": score,
        "reason": pickle.loads(pickle.dumps(score)).reason,
        "no claim": math.isnan(asyncio.run(metric.single_turn_ascore(nothing))),
        "evaluated": result["rule_faithfulness"],
    }


def by_deepeval() -> dict[str, Any]:
    from deepeval import __version__, evaluate
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.evaluate import DisplayConfig
    from deepeval.test_case import LLMTestCase

    from rulerag.integrations.deepeval import RuleFaithfulness

    said, by_heart, wrong, nothing = (
        LLMTestCase(input=QUESTION, actual_output=output, retrieval_context=CONTEXTS)
        for output in (SAID, "It has 2 million inhabitants.", "It is Rome.", "I don't know.")
    )
    metric = RuleFaithfulness(partly, threshold=0.7)
    found = {"version": __version__, "score": metric.measure(said), "reason": metric.reason}
    found["passes 0.7"] = metric.success
    found["by heart"] = asyncio.run(metric.a_measure(by_heart))
    found["no claim"] = math.isnan(metric.measure(nothing)) and metric.score is None
    try:
        metric.measure(LLMTestCase(input=QUESTION, actual_output="It is Paris."))
    except MissingTestCaseParamsError as error:
        found["missing"] = str(error)
    limited = RuleFaithfulness(partly, threshold=0.6, options={"budget": 50})
    quiet = DisplayConfig(print_results=False, show_indicator=False)
    results = evaluate([said, wrong, nothing], [limited], display_config=quiet).test_results
    found["evaluated"] = {
        one.actual_output: [[data.score, data.success] for data in one.metrics_data]
        for one in results
    }
    return found


if __name__ == "__main__":
    measured = by_ragas() if sys.argv[1] == "ragas" else by_deepeval()
    sys.stdout.write(json.dumps(measured) + "\n")
