"""Metrics, significance, the resumable experiment runner and the tables of its results.

Read :mod:`~rulerag.evaluation.runner` first; :mod:`rulerag.evaluation.page` draws reports.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.evaluation.metrics import (
        AnswerCoverage as AnswerCoverage,
        AnswerMatcher as AnswerMatcher,
        answer_metrics as answer_metrics,
        mean_metrics as mean_metrics,
        qrels_metrics as qrels_metrics,
    )
    from rulerag.evaluation.outcomes import (
        OUTCOMES as OUTCOMES,
        Outcome as Outcome,
        outcome_of as outcome_of,
    )
    from rulerag.evaluation.runner import (
        BATCH as BATCH,
        peak_memory_mb as peak_memory_mb,
        run_experiment as run_experiment,
        versions as versions,
    )
    from rulerag.evaluation.significance import (
        LEVEL as LEVEL,
        bootstrap_interval as bootstrap_interval,
        holm as holm,
        paired_randomization_test as paired_randomization_test,
        verdict as verdict,
        wilson_interval as wilson_interval,
    )
    from rulerag.evaluation.tables import (
        expected_rows as expected_rows,
        format_value as format_value,
        load_results as load_results,
        markdown_table as markdown_table,
        results_table as results_table,
    )
else:
    __getattr__ = lazy_names(__name__)
