"""Metrics, significance, the resumable experiment runner and the tables of its results.

Read :mod:`~rulerag.evaluation.runner` first; :mod:`rulerag.evaluation.page` draws reports.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.evaluation.metrics import (
        AnswerMatcher,
        EntityMatcher,
        answer_metrics,
        mean_metrics,
    )
    from rulerag.evaluation.runner import run_experiment, versions
    from rulerag.evaluation.significance import (
        LEVEL,
        bootstrap_interval,
        holm,
        paired_randomization_test,
        verdict,
    )
    from rulerag.evaluation.tables import expected_rows, format_value, load_results, results_table

__all__ = [
    "LEVEL",
    "AnswerMatcher",
    "EntityMatcher",
    "answer_metrics",
    "bootstrap_interval",
    "expected_rows",
    "format_value",
    "holm",
    "load_results",
    "mean_metrics",
    "paired_randomization_test",
    "results_table",
    "run_experiment",
    "verdict",
    "versions",
]

__getattr__ = front_door(__name__)
