"""The composition root: names in a configuration become objects here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rulerag.arguments import construct, parameters
from rulerag.build_retrievers import (
    RETRIEVERS,
    Options,
    evidence_model,
    load_component,
    make_retriever,
)
from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, did_you_mean
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Generator, Retriever, RuleMiner, RuleSelector
from rulerag.rules import RuleBank

__all__ = [
    "GENERATORS",
    "MINERS",
    "RETRIEVERS",
    "SELECTORS",
    "Options",
    "load_component",
    "make_generator",
    "make_miner",
    "make_pipeline",
    "make_retriever",
    "make_selector",
    "open_dataset",
]

# One table a family: a name in a configuration, and where its class lives. Nothing is imported
# until a name is used.
MINERS = {
    "amie": "rulerag.mining.amie:AmieMiner",
    "tlogic": "rulerag.mining.tlogic:TLogicMiner",
}
SELECTORS = {"head": "rulerag.retrieval.rule_selection:HeadRelationSelector"}
GENERATORS = {
    "candidate": "rulerag.generation.candidate_reader:CandidateReader",
    "chain-of-knowledge": "rulerag.generation.verified_thought:ChainOfKnowledge",
    "huggingface": "rulerag.generation.huggingface:HuggingFaceGenerator",
    "hybrid": "rulerag.generation.hybrid:HybridReader",
    "openai": "rulerag.generation.openai_compatible:OpenAICompatibleGenerator",
    "symbolic": "rulerag.generation.symbolic_reader:SymbolicReader",
    "verify-and-edit": "rulerag.generation.verified_thought:VerifyAndEdit",
}

# Every key that an experiment file may hold.
_TOP_KEYS = (
    "metadata",
    "dataset",
    "selector",
    "retriever",
    "time_aware",
    "pooled",
    "guided",
    "fusion",
    "evidence",
    "generator",
    "reader_rules",
    "top_k",
    "seed",
    "expected",
)


def make_miner(name: str, **options: Any) -> RuleMiner:
    """A rule miner by name with its own keyword arguments.

    Raises:
        ConfigError: an unknown name, or an option that the miner does not take.
    """
    component = load_component("miner", MINERS, name, key="miner")
    taken = parameters(component)
    for key in options:
        if key not in taken:
            raise ConfigError(
                f"the miner {name!r} has no such option", key=key, hint=did_you_mean(key, taken)
            )
    miner: RuleMiner = component(**options)
    return miner


def open_dataset(config: Config) -> RuleQADataset:
    """The dataset that a configuration names; its key ``prediction`` overrules the manifest's.

    Raises:
        ConfigError: it names none, or the folder is missing; says how to build it.
        DataError: the folder holds no dataset, or not the one that its manifest describes.
    """
    section = config.section("dataset").check(("query_set", "prediction"), required=("path",))
    folder = Path(section.read("path", str))
    if not folder.is_dir():
        name = folder.name if folder.name.startswith("ruleqa-") else "NAME"
        instead = "; or give dataset.path=FOLDER" if config.source is not None else ""
        raise section.error(
            f"the dataset folder {folder} is not here",
            "path",
            hint=f"build it: python -m benchmarks.ruleqa build --name {name} "
            f"--kg GRAPH_FOLDER --out {folder}{instead}",
        )
    asked = section.get("prediction")
    return RuleQADataset.load(
        folder, prediction=None if asked is None else section.read("prediction", bool)
    )


def make_selector(config: Config, rules: RuleBank) -> RuleSelector | None:
    """The selector of guiding rules; None when the configuration has no selector."""
    if not _wants(config, "selector"):
        return None
    section = config.section("selector")
    component = load_component("selector", SELECTORS, section.read("type", str, "head"))
    selector: RuleSelector = construct(component, section, {"bank": rules})
    return selector


def _wants(config: Config, key: str) -> bool:
    """Whether a part is asked for; an empty section asks for it with its defaults."""
    return config.get(key) is not None


def make_generator(
    config: Config,
    dataset: RuleQADataset,
    options: Options | None = None,
    *,
    retriever: Retriever | None = None,
) -> Generator:
    """The reader that a configuration names.

    Some are made of others: ``hybrid`` holds sections ``symbolic`` and ``model``, the
    chain-of-thought baselines a section ``reader``, each as ``generator`` itself.

    Args:
        config: the whole configuration.
        dataset: what is asked about.
        options: what the run adds.
        retriever: what the chain-of-thought baselines search with; that of the configuration.

    Raises:
        ConfigError: an unknown name or key.
    """
    options = options or Options()

    def make(section: Config) -> Any:
        name = section.check(tuple(section), required=("type",)).read("type", str)
        component = load_component("generator", GENERATORS, name)
        given: dict[str, Any] = {"progress": options.progress}
        parts: tuple[str, ...] = ()
        if name == "symbolic":
            labels = dataset.labels["entities"]
            given = {"labels": labels, "evidence": evidence_model(config, dataset)}
        elif name == "candidate":
            from rulerag.generation.candidate_reader import answers_by_relation

            known = answers_by_relation(dataset.corpus)
            given = {"labels": dataset.labels["entities"], "known": known}
        elif name == "hybrid":
            parts, given = ("symbolic", "model"), {"labels": dataset.labels}
        elif "retriever" in parameters(component):
            parts, given = ("reader",), {"retriever": retriever}
            if retriever is None:
                raise section.error("needs a retriever", "type", hint="make a whole pipeline")
        for part in parts:
            given[part] = make(section.check(tuple(section), required=(part,)).section(part))
        return construct(component, section.without(*parts), given)

    generator: Generator = make(config.section("generator"))
    return generator


def make_pipeline(
    config: Config, dataset: RuleQADataset, options: Options | None = None
) -> RuleRAGPipeline:
    """Everything that a configuration names, put together.

    Raises:
        ConfigError: an unknown name or key; names file and key.
    """
    options = options or Options()
    config.check(_TOP_KEYS, required=("retriever", "generator"))
    selector = make_selector(config, dataset.rules)
    retriever = make_retriever(config, dataset, selector, options)
    return RuleRAGPipeline(
        retriever,
        make_generator(config, dataset, options, retriever=retriever),
        selector=selector,
        top_k=config.read("top_k", int, 10),
        reader_rules=config.read("reader_rules", str, "selected"),
        keep_union=options.keep_union,
        fingerprints={"dataset": dataset.fingerprint, "rules": dataset.rules.fingerprint},
        labels=dataset.labels["entities"],
    )
