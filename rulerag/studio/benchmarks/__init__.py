"""Benchmarks in the studio: a folder with its mined rules (``opened``), its runs (``runs``).

``comparing`` asks a folder's queries two ways and says where one of them helps.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.benchmarks.comparing import Differences, Way, differences
    from rulerag.studio.benchmarks.opened import SYMBOLIC, Benchmark, Understood
    from rulerag.studio.benchmarks.runs import Run, RunPair, RunRow, gain, read_run
else:
    __getattr__ = lazy_names(__name__)
