"""From configurations to running systems; the only package that knows every other one.

Read :mod:`~rulerag.assembly.build` first (sections of a configuration become objects), then
:mod:`~rulerag.assembly.presets` (methods by name, from the fragments in ``configs/``); the demo is
the whole library at work on a generated world.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.assembly.build import (
        FACTS_ALONE,
        make_generator,
        make_miner,
        make_pipeline,
        make_retriever,
        make_scorer,
        make_selector,
        open_dataset,
    )
    from rulerag.assembly.demo import run_demo
    from rulerag.assembly.presets import (
        CONFIGS,
        experiment,
        following_all,
        fragments,
        is_variant,
        method,
        preset,
    )
    from rulerag.assembly.spread import SpreadPipeline
else:
    __getattr__ = lazy_names(__name__)
