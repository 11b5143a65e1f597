"""A program: what DeepEval says of systems whose workings are known, as one JSON object."""

from __future__ import annotations

import asyncio
import json
import math
import sys

from deepeval import __version__, evaluate
from deepeval.errors import MissingTestCaseParamsError
from deepeval.evaluate import DisplayConfig
from deepeval.test_case import LLMTestCase

from rulerag.integrations.deepeval import RuleFaithfulness
from tests.integrations.systems import CONTEXTS, QUESTION, partly


def case(response: str) -> LLMTestCase:
    return LLMTestCase(input=QUESTION, actual_output=response, retrieval_context=CONTEXTS)


def main() -> None:
    said = partly(QUESTION, CONTEXTS)
    metric = RuleFaithfulness(partly, threshold=0.7)
    found = {"version": __version__, "score": metric.measure(case(said)), "reason": metric.reason}
    found["passes 0.7"] = metric.success
    found["by heart"] = asyncio.run(metric.a_measure(case("It has 2 million inhabitants.")))
    found["no claim"] = math.isnan(metric.measure(case("I don't know."))) and metric.score is None
    try:
        metric.measure(LLMTestCase(input=QUESTION, actual_output="It is Paris."))
    except MissingTestCaseParamsError as error:
        found["missing"] = str(error)
    cases = [case(said), case("It is Rome."), case("I don't know.")]
    quiet = DisplayConfig(print_results=False, show_indicator=False)
    limited = RuleFaithfulness(partly, threshold=0.6, options={"budget": 50})
    results = evaluate(cases, [limited], display_config=quiet).test_results
    found["evaluated"] = {
        one.input + " " + one.actual_output: [
            [data.score, data.success] for data in one.metrics_data
        ]
        for one in results
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
