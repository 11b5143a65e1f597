"""Benchmarks in the studio: a folder with its mined rules (``opened``), its runs (``runs``).

``comparing`` asks a folder's queries two ways and says where one of them helps.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.benchmarks.comparing import (
        Differences as Differences,
        Way as Way,
        differences as differences,
    )
    from rulerag.studio.benchmarks.opened import (
        SYMBOLIC as SYMBOLIC,
        Benchmark as Benchmark,
        Understood as Understood,
    )
    from rulerag.studio.benchmarks.runs import (
        Run as Run,
        RunPair as RunPair,
        RunRow as RunRow,
        gain as gain,
        read_run as read_run,
    )
else:
    __getattr__ = lazy_names(__name__)
