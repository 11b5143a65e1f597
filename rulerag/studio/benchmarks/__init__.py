"""Benchmarks in the studio: a folder with its mined rules (``opened``), its runs (``runs``).

``comparing`` asks a folder's queries two ways and says where one of them helps.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.studio.benchmarks.comparing import Difference, Differences, Way, differences
    from rulerag.studio.benchmarks.opened import (
        SYMBOLIC,
        Benchmark,
        RuleExamples,
        Understood,
        retrieval_ways,
    )
    from rulerag.studio.benchmarks.runs import (
        FAILURES,
        Run,
        RunPair,
        RunRow,
        compared,
        read_run,
    )
else:
    __getattr__ = front_door(__name__)
