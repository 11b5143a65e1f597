"""AMIE 3's rules, counted exactly: :mod:`~rulerag.mining.amie.miner` is where to begin."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.amie.miner import AmieMiner as AmieMiner
else:
    __getattr__ = lazy_names(__name__)
