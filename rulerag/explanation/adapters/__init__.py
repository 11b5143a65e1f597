"""Chains of other frameworks: the retriever is run once, generation is repeated on what is kept.

One module a framework; ``frozen`` has what they share. Nothing is imported before a chain of that
framework is there, so that none of them has to be installed.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.adapters.frozen import Changed, FrozenChain, freeze
    from rulerag.explanation.adapters.trace import Trace, read_trace
else:
    __getattr__ = front_door(__name__)
