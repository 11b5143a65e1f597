"""The composition root: names in a configuration become objects here and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from rulerag.arguments import arguments, construct, parameters
from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, DataError, RetrievalError, did_you_mean
from rulerag.io import cache_folder
from rulerag.kg.evidence import EvidenceModel
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Generator, Retriever, RuleMiner, RuleSelector
from rulerag.rules import RuleBank

__all__ = [
    "GENERATORS",
    "MINERS",
    "RETRIEVERS",
    "SELECTORS",
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
RETRIEVERS = {
    "bm25": "rulerag.retrieval.bm25:BM25Retriever",
    "lucene": "rulerag.retrieval.lucene:LuceneRetriever",
    "symbolic": "rulerag.retrieval.symbolic:SymbolicRetriever",
}
GENERATORS = {
    "huggingface": "rulerag.generation.huggingface:HuggingFaceGenerator",
    "openai": "rulerag.generation.openai_compatible:OpenAICompatibleGenerator",
    "symbolic": "rulerag.generation.symbolic_reader:SymbolicReader",
}

# The settings that a BM25 index is built with, and where the opened retriever keeps them.
_KEPT_BY_BM25 = {
    "k1": "k1",
    "b": "b",
    "dates": "tokenizer.dates",
    "stopwords": "tokenizer.stopwords",
    "min_token_length": "tokenizer.min_length",
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
    "evidence",
    "generator",
    "reader_rules",
    "top_k",
    "seed",
    "expected",
)


@dataclass(frozen=True)
class Options:
    """What a run adds to a configuration: never part of its fingerprint.

    Args:
        index: the folder of an index built by `rulerag index`; without one, BM25 indexes in
            memory and Lucene keeps its index in the cache folder.
        progress: show progress bars.
        keep_union: also compute the untrimmed union, as the pipeline does by default.
    """

    index: Path | None = None
    progress: bool = False
    keep_union: bool = True


def load_component(family: str, table: Mapping[str, str], name: str, *, key: str = "type") -> Any:
    """The class behind a name.

    Args:
        family: what the classes are called, for messages.
        table: the names of the family.
        name: one of them.
        key: where the name stood, for messages.

    Raises:
        ConfigError: the family has no such name; lists those it has.
    """
    if name not in table:
        raise ConfigError(
            f"no {family} is called {name!r}", key=key, hint=did_you_mean(name, table)
        )
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


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
    """The dataset that a configuration names.

    Raises:
        ConfigError: it names none, or the folder is missing; says how to build it.
        DataError: the folder holds no dataset, or not the one that its manifest describes.
    """
    section = config.section("dataset").check(("query_set",), required=("path",))
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
    return RuleQADataset.load(folder)


def _evidence(config: Config, dataset: RuleQADataset) -> EvidenceModel:
    step = int(dataset.calendar.get("step", 1) or 1)
    model: EvidenceModel = construct(EvidenceModel, config.section("evidence"), {"time_step": step})
    return model


def make_selector(config: Config, rules: RuleBank) -> RuleSelector | None:
    """The selector of guiding rules; None when the configuration has no selector."""
    if not _wants(config, "selector"):
        return None
    section = config.section("selector")
    component = load_component("selector", SELECTORS, section.read("type", str, "head"))
    selector: RuleSelector = construct(component, section, {"bank": rules})
    return selector


def make_retriever(
    config: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    options: Options | None = None,
) -> Retriever:
    """The retriever with its wrappers: the base, ``time_aware``, ``pooled`` or ``guided``.

    Raises:
        ConfigError: an unknown name or key, or a part that does not fit another.
    """
    options = options or Options()
    section = config.section("retriever")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    component = load_component("retriever", RETRIEVERS, name)
    given: dict[str, Any] = {"documents": dataset.corpus, "progress": options.progress}
    if name == "symbolic":
        _check_symbolic(config, selector, options)
        given |= {"selector": selector, "evidence": _evidence(config, dataset)}
        retriever: Retriever = construct(component, section, given)
        return retriever
    retriever = _base(component, name, section, given, dataset, options)
    if _wants(config, "time_aware"):
        from rulerag.retrieval.temporal import TimeAwareRetriever

        unit = int(dataset.calendar.get("step", 1) or 1)
        retriever = construct(
            TimeAwareRetriever,
            config.section("time_aware"),
            {"retriever": retriever, "time_unit": unit},
        )
    if _wants(config, "pooled") and _wants(config, "guided"):
        raise config.error(
            "pooled and guided retrieval exclude each other",
            "pooled",
            hint="guided: {merge: evidence} pools its searches itself",
        )
    if _wants(config, "pooled"):
        from rulerag.retrieval.pooled import PooledRetriever

        retriever = construct(PooledRetriever, config.section("pooled"), {"retriever": retriever})
    if _wants(config, "guided"):
        retriever = _guided(config, dataset, retriever, selector)
    return retriever


def _wants(config: Config, key: str) -> bool:
    """Whether a part is asked for; an empty section asks for it with its defaults."""
    return config.get(key) is not None


def _check_symbolic(config: Config, selector: RuleSelector | None, options: Options) -> None:
    """Refuse what the symbolic retriever has no use for."""
    if selector is None:
        raise config.error(
            "the symbolic retriever needs guiding rules",
            "selector",
            hint="add selector: {type: head}",
        )
    for wrapper in ("time_aware", "pooled", "guided"):
        if _wants(config, wrapper):
            raise config.error(
                "the symbolic retriever cannot be wrapped",
                wrapper,
                hint="it follows rules and time itself",
            )
    if options.index is not None:
        raise ConfigError(
            "the symbolic retriever keeps no index on disk", key="index", hint="leave --index out"
        )


def _base(
    component: Any,
    name: str,
    section: Config,
    given: Mapping[str, Any],
    dataset: RuleQADataset,
    options: Options,
) -> Any:
    """A text retriever on its index: the one that was named, or one of its own."""
    if name == "lucene":
        arguments(component.build, section, given=("index_dir", *given))
        opening = section.without("dates")  # the index knows how it treats dates
        if options.index is not None:
            opened = construct(component, opening, {**given, "index_dir": options.index})
            return _check_index(opened, section, {"dates": "dates"}, options.index)
        dates = section.read("dates", str, "split")
        folder = cache_folder("lucene", f"{dataset.fingerprint}-{dates}")
        if (folder / "manifest.json").exists():
            try:
                return construct(component, opening, {**given, "index_dir": folder})
            except (DataError, RetrievalError):
                pass  # a damaged cache is no reason to stop
        return construct(component.build, section, {**given, "index_dir": folder})
    if options.index is None:
        return construct(component, section, given)
    arguments(component, section, given=tuple(given))
    search = Config({key: section[key] for key in section if key == "threads"})
    opened = construct(component.load, search, {**given, "folder": options.index})
    return _check_index(opened, section, _KEPT_BY_BM25, options.index)


def _check_index(opened: Any, section: Config, kept: Mapping[str, str], folder: Path) -> Any:
    """The opened retriever; settings that its index was not built with are an error."""
    for key, place in kept.items():
        value = attrgetter(place)(opened)
        if key in section and section[key] != value:
            raise section.error(
                f"is {section[key]!r} here, and the index {folder} was built with {value!r}",
                key,
                hint="name an index that fits, or leave --index out",
            )
    return opened


def _guided(
    config: Config, dataset: RuleQADataset, retriever: Retriever, selector: RuleSelector | None
) -> Retriever:
    from rulerag.retrieval.rule_guided import RuleGuidedRetriever

    if selector is None:
        raise config.error(
            "rule-guided retrieval needs guiding rules",
            "selector",
            hint="add selector: {type: head}",
        )
    relations, entities = dataset.labels["relations"], dataset.labels["entities"]
    given = {
        "retriever": retriever,
        "selector": selector,
        "rule_label": lambda name: relations.get(name, name),
        "entity_label": lambda name: entities.get(name, name),
    }
    wrapped: Retriever = construct(RuleGuidedRetriever, config.section("guided"), given)
    return wrapped


def make_generator(
    config: Config, dataset: RuleQADataset, options: Options | None = None
) -> Generator:
    """The reader that a configuration names.

    Raises:
        ConfigError: an unknown name or key.
    """
    section = config.section("generator")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    component = load_component("generator", GENERATORS, name)
    given: dict[str, Any] = {"progress": (options or Options()).progress}
    if name == "symbolic":
        given = {"labels": dataset.labels["entities"], "evidence": _evidence(config, dataset)}
    generator: Generator = construct(component, section, given)
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
    return RuleRAGPipeline(
        make_retriever(config, dataset, selector, options),
        make_generator(config, dataset, options),
        selector=selector,
        top_k=config.read("top_k", int, 10),
        reader_rules=config.read("reader_rules", str, "selected"),
        keep_union=options.keep_union,
        fingerprints={"dataset": dataset.fingerprint, "rules": dataset.rules.fingerprint},
    )
