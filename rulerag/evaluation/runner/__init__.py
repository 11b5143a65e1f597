"""The experiment runner: whole experiments, retrieval alone, or reading alone from a saved run.

:mod:`~rulerag.evaluation.runner.experiment` answers queries through a pipeline and resumes query by
query; :mod:`~rulerag.evaluation.runner.stages` runs one stage and resumes by the identity of its
record; :mod:`~rulerag.evaluation.runner.process` gives a run a process of its own.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.evaluation.runner.experiment import run_experiment, versions
    from rulerag.evaluation.runner.process import in_own_process, peak_memory_mb
    from rulerag.evaluation.runner.stages import (
        RunRecord,
        requests_from_rows,
        run_reading,
        run_retrieval,
    )
else:
    __getattr__ = lazy_names(__name__)
