"""AMIE 3's rules, counted exactly: :mod:`~rulerag.mining.amie.miner` is where to begin."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.mining.amie.miner import AmieMiner
else:
    __getattr__ = front_door(__name__)
