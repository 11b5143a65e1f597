"""Generated worlds: readable graphs of any size that know their own truth.

Read :mod:`~rulerag.synthetic.world` first; ``plan`` says how much of what, ``draft`` and
``planting`` draw it, ``names`` and ``schema`` give it words.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.synthetic.names import ENTITY_KINDS as ENTITY_KINDS, NameMaker as NameMaker
    from rulerag.synthetic.world import World as World
else:
    __getattr__ = lazy_names(__name__)
