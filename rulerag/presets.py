"""The settings behind a bare command: the same as the experiment files under ``configs/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerag.build import RETRIEVERS
from rulerag.config import Config
from rulerag.errors import ConfigError, did_you_mean

__all__ = ["RULES", "preset"]

RULES = ("none", "guided")

# Chosen on the validation twin of RuleQA-I, never on test queries: benchmarks/tune.py, its table
# in benchmarks/results/ruleqa-i/tune.md.
_EVIDENCE = {"prior": 20, "sharpness": 1.5}
_READER = {"type": "symbolic", "rank_discount": 1.0}
_GUIDES = {"type": "head", "max_rules": 8, "rank_by": "support"}
_GUIDED = {"compose": "substitute", "merge": "evidence"}
_TIME_AWARE = {"order": "recent", "distinct_facts": True}
# Plain retrieval gains from the words of a date (documents of the same month); guided retrieval,
# which follows dates itself, does better when a date is one word.
_DATES = {"none": "split", "guided": "token"}


def preset(
    dataset: str | Path,
    *,
    retriever: str = "bm25",
    rules: str = "guided",
    query_set: str = "full",
    top_k: int = 10,
) -> Config:
    """The configuration of a retriever, with or without rules, and the symbolic reader.

    Args:
        dataset: the dataset folder.
        retriever: ``bm25``, ``lucene`` or ``symbolic`` (which always follows rules).
        rules: ``guided``, or ``none`` for plain retrieval and reading.
        query_set: ``balanced``, ``full`` or a split.
        top_k: documents per query.

    Raises:
        ConfigError: an unknown name, or the symbolic retriever without rules.
    """
    if retriever not in RETRIEVERS:
        raise ConfigError(
            f"no retriever is called {retriever!r}",
            key="retriever",
            hint=did_you_mean(retriever, RETRIEVERS),
        )
    if rules not in RULES:
        raise ConfigError(f"unknown choice {rules!r}", key="rules", hint=" or ".join(RULES))
    values: dict[str, Any] = {
        "dataset": {"path": str(dataset), "query_set": query_set},
        "retriever": _retriever(retriever, rules),
        "evidence": _EVIDENCE,
        "generator": _READER,
        "top_k": top_k,
    }
    values.update(_rule_parts(retriever, rules))
    return Config(values)


def _retriever(retriever: str, rules: str) -> dict[str, Any]:
    if retriever == "symbolic":
        return {"type": retriever}
    return {"type": retriever, "dates": _DATES[rules]}


def _rule_parts(retriever: str, rules: str) -> Mapping[str, Any]:
    if retriever == "symbolic":
        if rules == "none":
            raise ConfigError(
                "the symbolic retriever executes rules, it cannot go without them",
                key="rules",
                hint="use --rules guided, or another retriever",
            )
        return {"selector": {"type": "head"}, "reader_rules": "found"}
    if rules == "none":
        return {}
    return {"selector": _GUIDES, "time_aware": _TIME_AWARE, "guided": _GUIDED}
