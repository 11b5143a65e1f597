"""The five RuleQA benchmarks: what the paper leaves open, our choices, the published sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rulerag.errors import ConfigError, did_you_mean
from rulerag.kg.graph import KnowledgeGraph

__all__ = [
    "BENCHMARKS",
    "GRAPHS",
    "PUBLISHED",
    "VARIANTS",
    "RuleQASettings",
    "check_settings",
    "known_settings",
]


@dataclass(frozen=True)
class RuleQASettings:
    """The choices that the paper leaves open.

    Args:
        num_queries: size of the balanced query set; the paper's |Q|.
        miner: ``tlogic`` for temporal graphs, ``amie`` for static ones.
        max_atoms: longest rule, head included.
        min_support: least support of a rule in R.
        min_confidence: least confidence of a rule in R (PCA confidence for static rules).
        min_head_coverage: least head coverage of a static rule in R.
        num_rules: keep that many rules, those of the highest smoothed confidence (support divided
            by body size plus 5, AnyBURL's); all above the thresholds when None.
        oracle_rules: how many guiding rules of a query give oracle documents, most supported first.
        corpus: whose facts are the documents of D: ``train``, or ``train+valid`` (dated facts
            only: D then reaches to the first test fact, and holds what F_R and F_G ask about).
        hold_out: training facts, drawn by seed, that join the validation facts before anything
            else is done, for a graph with too few of these to train on.
        pairs_per_query: query-document pairs of one F_R query, the latest; all when None.
        balance_from: which test queries the balanced set is drawn from: ``guided``, those with a
            guiding rule, or ``supported``, those with an oracle document.
        degenerate_time: the time that a degenerate query asks about: that of the latest
            ``document`` that states its answer, or ``keep``, the original query's.
    """

    num_queries: int
    miner: str
    max_atoms: int = 2
    min_support: int = 2
    min_confidence: float = 0.01
    oracle_rules: int = 10
    min_head_coverage: float = 0.01
    num_rules: int | None = None
    corpus: str = "train"
    hold_out: int = 0
    pairs_per_query: int | None = None
    balance_from: str = "guided"
    degenerate_time: str = "document"


BENCHMARKS = {
    "ruleqa-i": RuleQASettings(1559, "tlogic"),
    "ruleqa-y": RuleQASettings(1864, "tlogic"),
    "ruleqa-w": RuleQASettings(2065, "tlogic"),
    # No test pair of FB15K-237 is linked in train: rules of one body atom find nothing there.
    "ruleqa-f": RuleQASettings(
        1233, "amie", max_atoms=3, min_support=18, min_confidence=0.1, oracle_rules=30
    ),
    # NELL-995 has 543 validation facts; the paper's F_R and F_G hold 9,115 pairs.
    "ruleqa-n": RuleQASettings(
        815, "amie", max_atoms=3, min_support=10, oracle_rules=30, hold_out=3000
    ),
}

#: The public graph of each benchmark, as ``benchmarks.data`` names it.
GRAPHS = {
    "ruleqa-i": "icews14",
    "ruleqa-y": "yago",
    "ruleqa-w": "wiki",
    "ruleqa-f": "fb15k237",
    "ruleqa-n": "nell995",
}

#: Table 1 of the paper; |R| in its first and its later published version.
PUBLISHED: dict[str, Mapping[str, int]] = {
    name: dict(
        zip(("rules_v1", "rules_v2", "documents", "f_r", "f_g", "queries"), row, strict=True)
    )
    for name, row in {
        "ruleqa-i": (557, 6_015, 77_508, 6_594, 7_440, 1_559),
        "ruleqa-y": (99, 1_138, 243_633, 28_153, 22_765, 1_864),
        "ruleqa-w": (78, 772, 584_364, 50_996, 62_375, 2_065),
        "ruleqa-f": (367, 4_477, 49_088, 8_082, 9_645, 1_233),
        "ruleqa-n": (234, 2_594, 18_177, 4_351, 4_764, 815),
    }.items()
}

#: What the test queries of a build are.
VARIANTS = {
    "test": "questions about the test facts",
    "validation": "questions about the validation facts, for tuning",
    "degenerate": "the test questions, turned into questions that the corpus answers directly",
}

# The least value of each whole number, and the hint beside it.
_LEAST = {
    "num_queries": (1, "say 1000"),
    "max_atoms": (2, "a head and one body atom"),
    "min_support": (1, "say 2"),
    "num_rules": (1, "say 1000"),
    "oracle_rules": (1, "say 10"),
    "hold_out": (0, "0 holds none out"),
    "pairs_per_query": (1, "say 3"),
}
_CHOICES = {
    "corpus": ("train", "train+valid"),
    "balance_from": ("guided", "supported"),
    "degenerate_time": ("document", "keep"),
}


def known_settings(name: str) -> RuleQASettings:
    """The settings of a benchmark.

    Raises:
        ConfigError: there is no benchmark of this name; suggests close ones.
    """
    if name not in BENCHMARKS:
        raise ConfigError(
            f"no benchmark is called {name!r}", key="name", hint=did_you_mean(name, BENCHMARKS)
        )
    return BENCHMARKS[name]


def check_settings(
    name: str, graph: KnowledgeGraph, settings: RuleQASettings, seed: int, variant: str
) -> None:
    """Refuse, before any work, what cannot be built.

    Raises:
        ConfigError: a setting is out of range, or the graph is of the other kind.
    """
    for key, (least, hint) in _LEAST.items():
        value = getattr(settings, key)
        if value is not None and value < least:
            raise ConfigError(f"{value} is below {least}", key=key, hint=hint)
    for key in ("min_confidence", "min_head_coverage"):
        if not 0 <= getattr(settings, key) <= 1:
            raise ConfigError(
                f"{getattr(settings, key)} is no fraction", key=key, hint="between 0 and 1"
            )
    if seed < 0:
        raise ConfigError(f"{seed} is below 0", key="seed", hint="say 0")
    for key, known in (*_CHOICES.items(), ("variant", tuple(VARIANTS))):
        value = variant if key == "variant" else getattr(settings, key)
        if value not in known:
            raise ConfigError(f"unknown {key} {value!r}", key=key, hint=did_you_mean(value, known))
    if graph.is_temporal != (settings.miner == "tlogic"):
        needed, found = ("dated", "static") if settings.miner == "tlogic" else ("static", "dated")
        raise ConfigError(
            f"{name} is made of {needed} facts, and those of {graph.name!r} are {found}",
            key="kg",
            hint="choose another graph or another benchmark",
        )
    if settings.corpus != "train" and not graph.is_temporal:
        raise ConfigError(
            "undated validation facts would answer the fine-tuning questions about them",
            key="corpus",
            hint="take train",
        )
    if settings.hold_out >= len(graph.train):
        raise ConfigError(
            f"{settings.hold_out:,} of {len(graph.train):,} training facts cannot be held out",
            key="hold_out",
            hint="0 holds none out",
        )
