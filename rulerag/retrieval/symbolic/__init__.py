"""Retrieval by executing rules on the facts that documents state."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.symbolic.chain_completion import (
        DEPTH as DEPTH,
        complete_chains as complete_chains,
    )
    from rulerag.retrieval.symbolic.retriever import SymbolicRetriever as SymbolicRetriever
else:
    __getattr__ = lazy_names(__name__)
