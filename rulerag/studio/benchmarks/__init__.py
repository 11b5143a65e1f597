"""Benchmarks in the studio: a folder with its mined rules (``opened``), its runs (``runs``)."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.studio.benchmarks.opened import Benchmark, RuleExamples
    from rulerag.studio.benchmarks.runs import FAILURES, Run, RunRow, compared, read_run
else:
    __getattr__ = front_door(__name__)
