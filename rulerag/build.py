"""The composition root: names in a configuration become objects here and nowhere else."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, RuleRAGError, did_you_mean
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
GENERATORS = {"symbolic": "rulerag.generation.symbolic_reader:SymbolicReader"}

# Every key that an experiment file may hold.
_TOP_KEYS = (
    "metadata",
    "dataset",
    "selector",
    "retriever",
    "time_aware",
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
        index: the folder of a built index (Lucene needs one on disk; BM25 may use one).
        progress: show progress bars.
    """

    index: Path | None = None
    progress: bool = False


def load_component(family: str, table: Mapping[str, str], name: str) -> Any:
    """The class behind a name.

    Raises:
        ConfigError: the family has no such name; lists those it has.
    """
    if name not in table:
        raise ConfigError(
            f"no {family} is called {name!r}", key="type", hint=did_you_mean(name, table)
        )
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _arguments(component: Any, section: Config, *, given: Sequence[str] = ()) -> dict[str, Any]:
    """A section's keys as constructor arguments; a key that no parameter takes is an error."""
    parameters = set(inspect.signature(component).parameters) - set(given)
    plain = section.without("type")
    plain.check(parameters)
    return plain.to_dict()


def _construct(component: Any, section: Config, given: Mapping[str, Any]) -> Any:
    arguments = _arguments(component, section, given=tuple(given))
    try:
        return component(**given, **arguments)
    except ConfigError as error:
        if error.path is not None or error.key is None:
            raise
        raise section.error(error.message, error.key, hint=error.hint) from error
    except TypeError as error:
        # A value of the wrong kind shows up where a constructor computes with it.
        raise section.error(f"{error}", hint="check the kinds of the values") from error


def make_miner(name: str, **options: Any) -> RuleMiner:
    """A rule miner by name with its own keyword arguments.

    Raises:
        ConfigError: an unknown name, or an option that the miner does not take.
    """
    component = load_component("miner", MINERS, name)
    taken = inspect.signature(component).parameters
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
        ConfigError: it names none. DataError: the folder is missing; says how to build it.
    """
    section = config.section("dataset").check(("query_set", "limit"), required=("path",))
    folder = Path(section.read("path", str))
    if not folder.is_dir():
        name = folder.name
        raise ConfigError(
            f"the dataset folder {folder} is not here",
            path=config.source,
            key="dataset.path",
            hint=f"build it: python -m benchmarks.ruleqa build --name {name} "
            f"--kg GRAPH_FOLDER --out {folder}; or give dataset.path=FOLDER",
        )
    return RuleQADataset.load(folder)


def _evidence(config: Config, dataset: RuleQADataset) -> EvidenceModel:
    step = int(dataset.calendar.get("step", 1) or 1)
    model: EvidenceModel = _construct(
        EvidenceModel, config.section("evidence"), {"time_step": step}
    )
    return model


def make_selector(config: Config, rules: RuleBank) -> RuleSelector | None:
    """The selector of guiding rules; None when the configuration has no selector."""
    section = config.section("selector")
    if not section:
        return None
    component = load_component("selector", SELECTORS, section.read("type", str, "head"))
    selector: RuleSelector = _construct(component, section, {"bank": rules})
    return selector


def make_retriever(
    config: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    options: Options | None = None,
) -> Retriever:
    """The retriever with its wrappers: the base, then ``time_aware``, then ``guided``.

    Raises:
        ConfigError: an unknown name or key, or a part that does not fit another.
    """
    options = options or Options()
    section = config.section("retriever")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    component = load_component("retriever", RETRIEVERS, name)
    given: dict[str, Any] = {"documents": dataset.corpus, "progress": options.progress}
    if name == "symbolic":
        if selector is None:
            raise config.error(
                "the symbolic retriever needs guiding rules",
                "selector",
                hint="add selector: {type: head}",
            )
        for wrapper in ("time_aware", "guided"):
            if config.section(wrapper):
                raise config.error(
                    "the symbolic retriever cannot be wrapped",
                    wrapper,
                    hint="it follows rules and time itself",
                )
        given |= {"selector": selector, "evidence": _evidence(config, dataset)}
        retriever: Retriever = _construct(component, section, given)
        return retriever
    retriever = _base(component, name, section, given, dataset, options)
    if config.section("time_aware"):
        from rulerag.retrieval.temporal import TimeAwareRetriever

        unit = int(dataset.calendar.get("step", 1) or 1)
        retriever = _construct(
            TimeAwareRetriever,
            config.section("time_aware"),
            {"retriever": retriever, "time_unit": unit},
        )
    if config.section("guided"):
        retriever = _guided(config, dataset, retriever, selector)
    return retriever


def _base(
    component: Any,
    name: str,
    section: Config,
    given: Mapping[str, Any],
    dataset: RuleQADataset,
    options: Options,
) -> Any:
    if name != "lucene":
        return _construct(component, section, given)
    from rulerag.io import cache_folder

    folder = options.index or cache_folder("lucene", dataset.fingerprint)
    arguments = _arguments(component.build, section, given=("documents", "index_dir", "progress"))
    if (folder / "manifest.json").exists():
        search = {key: value for key, value in arguments.items() if key != "dates"}
        try:
            opened = component(folder, dataset.corpus, progress=options.progress, **search)
            if arguments.get("dates", opened.dates) == opened.dates:
                return opened
        except RuleRAGError:
            if options.index is not None:
                raise
    return component.build(dataset.corpus, folder, progress=options.progress, **arguments)


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
    wrapped: Retriever = _construct(RuleGuidedRetriever, config.section("guided"), given)
    return wrapped


def make_generator(config: Config, dataset: RuleQADataset) -> Generator:
    """The reader that a configuration names.

    Raises:
        ConfigError: an unknown name or key.
    """
    section = config.section("generator")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    component = load_component("generator", GENERATORS, name)
    given = {"labels": dataset.labels["entities"], "evidence": _evidence(config, dataset)}
    generator: Generator = _construct(component, section, given)
    return generator


def make_pipeline(
    config: Config, dataset: RuleQADataset, options: Options | None = None
) -> RuleRAGPipeline:
    """Everything that a configuration names, put together.

    Raises:
        ConfigError: an unknown name or key; names file and key.
    """
    config.check(_TOP_KEYS, required=("retriever", "generator"))
    selector = make_selector(config, dataset.rules)
    return RuleRAGPipeline(
        make_retriever(config, dataset, selector, options),
        make_generator(config, dataset),
        selector=selector,
        top_k=config.read("top_k", int, 10),
        reader_rules=config.read("reader_rules", str, "selected"),
        fingerprints={"dataset": dataset.fingerprint, "rules": dataset.rules.fingerprint},
    )
