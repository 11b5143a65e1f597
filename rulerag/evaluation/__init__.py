"""Metrics, significance, the resumable experiment runner and the tables of its results.

Read :mod:`~rulerag.evaluation.runner` first; :mod:`rulerag.evaluation.page` draws reports.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.evaluation.metrics import (
        AnswerCoverage,
        AnswerMatcher,
        answer_metrics,
        mean_metrics,
        qrels_metrics,
    )
    from rulerag.evaluation.outcomes import OUTCOMES, Outcome, outcome_of
    from rulerag.evaluation.runner import BATCH, peak_memory_mb, run_experiment, versions
    from rulerag.evaluation.significance import (
        LEVEL,
        bootstrap_interval,
        holm,
        paired_randomization_test,
        verdict,
        wilson_interval,
    )
    from rulerag.evaluation.tables import (
        expected_rows,
        format_value,
        load_results,
        markdown_table,
        results_table,
    )
else:
    __getattr__ = lazy_names(__name__)
