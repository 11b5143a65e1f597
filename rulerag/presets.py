"""The settings behind a bare command: the same as the experiment files under ``configs/``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerag.build import GENERATORS, RETRIEVERS
from rulerag.config import Config, load_config
from rulerag.errors import ConfigError, did_you_mean
from rulerag.generation.hf_shipped import NANO_LLAMA
from rulerag.retrieval.fusion import METHODS

__all__ = ["RULES", "preset"]

RULES = ("none", "guided")

# Chosen on the validation twin of RuleQA-I, never on test queries: benchmarks/tune.py, its table
# in benchmarks/results/ruleqa-i/tune.md.
_EVIDENCE = {"prior": 20, "sharpness": 1.5}
_READER = {"type": "symbolic", "rank_discount": 1.0}
_READERS: dict[str, Mapping[str, Any]] = {"symbolic": _READER, "candidate": {"type": "candidate"}}
_GUIDES = {"type": "head", "max_rules": 8, "rank_by": "support"}
_GUIDED = {"compose": "substitute", "merge": "evidence"}
# Undated facts, chosen on the validation twins of RuleQA-F and RuleQA-N: a question asks for what
# the graph lacks, every grounding of a rule counts by its standard confidence, and the plain query
# fills the places that rules leave.
_STATIC_EVIDENCE = {"prior": 0, "sharpness": 1.0, "static_confidence": "standard"}
_STATIC_GUIDED = {**_GUIDED, "skip_stated": True, "include_plain": True, "plain_weight": 0.1}
# Its table is benchmarks/results/ruleqa-i/fusion.md, by benchmarks/fusion.py. Cosines lie close
# together, so that a higher power is needed to tell the best of a search from the rest.
_GUIDED_DENSE = {"compose": "both", "merge": "evidence", "power": 16.0}
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
    encoder: str | Path | None = None,
    fusion: str | None = None,
    static: bool = False,
    generator: str | Path | None = None,
) -> Config:
    """The configuration of a retriever, with or without rules, and of a reader.

    Args:
        dataset: the dataset folder.
        retriever: ``bm25``, ``lucene``, ``dense`` or ``symbolic`` (which always follows rules).
        rules: ``guided``, or ``none`` for plain retrieval and reading.
        query_set: ``balanced``, ``full`` or a split.
        top_k: documents per query.
        encoder: of dense retrieval, a folder or a name on the Hub; the small one that is installed
            when None.
        fusion: how the rule-guided list is fused with the plain one, a name of
            :data:`~rulerag.retrieval.fusion.METHODS`; not at all when None.
        static: whether the questions ask for what an undated graph lacks (RuleQA-F, RuleQA-N).
        generator: ``symbolic`` (also when None), ``candidate``, a YAML file with a section
            ``generator``, or else a causal language model: a folder or a name on the Hub,
            ``rulerag-nano-llama`` for the small one that is installed.

    Raises:
        ConfigError: an unknown name, the symbolic retriever without rules, an encoder for another
            retriever than dense, nothing to fuse, or a file without the section.
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
        "retriever": _retriever(retriever, rules, encoder),
        "evidence": _STATIC_EVIDENCE if static else _EVIDENCE,
        "generator": _generator(str(generator or "symbolic")),
        "top_k": top_k,
    }
    values.update(_rule_parts(retriever, rules, static))
    if static and retriever == "symbolic":
        values["retriever"]["skip_stated"] = True
    if fusion is not None:
        if fusion not in METHODS:
            raise ConfigError(
                f"unknown method {fusion!r}", key="fusion", hint=did_you_mean(fusion, METHODS)
            )
        if "guided" not in values:
            raise ConfigError(
                "a rule-guided list is fused with the plain one, and there are not two",
                key="fusion",
                hint="--rules guided, with another retriever than symbolic",
            )
        values["fusion"] = {"method": fusion}
    return Config(values)


def _retriever(retriever: str, rules: str, encoder: str | Path | None) -> dict[str, Any]:
    if retriever == "dense":
        return (
            {"type": retriever} if encoder is None else {"type": retriever, "encoder": str(encoder)}
        )
    if encoder is not None:
        raise ConfigError(
            f"{retriever} has no encoder", key="encoder", hint="add --retriever dense"
        )
    if retriever == "symbolic":
        return {"type": retriever}
    return {"type": retriever, "dates": _DATES[rules]}


def _generator(told: str) -> Mapping[str, Any]:
    if told in _READERS:
        return _READERS[told]
    if told.endswith((".yaml", ".yml")):
        config = load_config(told)
        config.check(tuple(config), required=("generator",))
        return config.section("generator").to_dict()
    if told in GENERATORS:
        raise ConfigError(
            f"{told!r} needs settings of its own",
            key="generator",
            hint=f"a YAML file with generator: {{type: {told}, …}}, or the folder of a model",
        )
    # A slip of the pen is told before the Hub is asked for a model of that name.
    likely = difflib.get_close_matches(told, (*_READERS, NANO_LLAMA), 1, 0.8)
    if likely and told != NANO_LLAMA and not Path(told).exists():
        raise ConfigError(
            f"no generator is called {told!r}", key="generator", hint=f"did you mean {likely[0]!r}?"
        )
    return {"type": "huggingface", "model": told}


def _rule_parts(retriever: str, rules: str, static: bool) -> Mapping[str, Any]:
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
    guided = _STATIC_GUIDED if static else _GUIDED
    return {"selector": _GUIDES, "time_aware": _TIME_AWARE, "guided": guided}
