"""From configurations to running systems; the only package that knows every other one.

Read :mod:`~rulerag.assembly.build` first (sections of a configuration become objects), then
:mod:`~rulerag.assembly.presets` (methods by name, from the fragments in ``configs/``); the demo is
the whole library at work on a generated world.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.assembly.build import (
        FACTS_ALONE as FACTS_ALONE,
        make_generator as make_generator,
        make_miner as make_miner,
        make_pipeline as make_pipeline,
        make_retriever as make_retriever,
        make_scorer as make_scorer,
        make_selector as make_selector,
        open_dataset as open_dataset,
    )
    from rulerag.assembly.demo import run_demo as run_demo
    from rulerag.assembly.presets import (
        CONFIGS as CONFIGS,
        experiment as experiment,
        following_all as following_all,
        fragments as fragments,
        is_variant as is_variant,
        method as method,
        preset as preset,
    )
    from rulerag.assembly.spread import SpreadPipeline as SpreadPipeline
else:
    __getattr__ = lazy_names(__name__)
