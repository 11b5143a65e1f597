"""What RuleRAG leaves open: the choices of the five benchmarks, and those for any other graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rulerag.composition import Settings, check_choice, check_range, parse_settings
from rulerag.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rulerag.kg import KnowledgeGraph


class RuleQASettings(Settings):
    """The choices that the paper leaves open.

    Args:
        num_queries: size of the balanced query set; the paper's |Q|.
        miner: ``tlogic`` for temporal graphs, ``amie`` for static ones.
        max_atoms: longest rule, head included.
        min_support: least support of a rule in R.
        min_confidence: least confidence of a rule in R (PCA confidence for static rules).
        oracle_rules: how many guiding rules of a query give oracle documents, most supported first.
        min_head_coverage: least head coverage of a static rule in R.
        num_rules: keep that many rules, those of the highest smoothed confidence (support divided
            by body size plus 5, AnyBURL's); all above the thresholds when None.
        corpus: whose facts are the documents of D: ``train``, or ``train+valid`` (dated facts
            only: D then reaches to the first test fact, and holds what F_R and F_G ask about).
        hold_out: training facts, the latest of dated ones, else drawn by seed, that join the
            validation facts before anything else is done, for a graph with too few to train on.
        pairs_per_query: query-document pairs of one F_R query, the latest; all when None.
        balance_from: which test queries the balanced set is drawn from: ``guided``, those with a
            guiding rule, or ``supported``, those with an oracle document.
        degenerate_time: the time that a degenerate query asks about: that of the latest
            ``document`` that states its answer, or ``keep``, the original query's.
        min_head_size: least facts of the head relation of a static rule; 100 when None.
        min_standard_confidence: least standard confidence of a static rule.

    Raises:
        ConfigError: a setting is unknown, of another kind or out of range.
    """

    num_queries: int = Field(ge=1)
    miner: Literal["tlogic", "amie"]
    max_atoms: int = Field(default=2, ge=2)
    min_support: int = Field(default=2, ge=1)
    min_confidence: float = Field(default=0.01, ge=0, le=1)
    oracle_rules: int = Field(default=10, ge=1)
    min_head_coverage: float = Field(default=0.01, ge=0, le=1)
    num_rules: int | None = Field(default=None, ge=1)
    corpus: Literal["train", "train+valid"] = "train"
    hold_out: int = Field(default=0, ge=0)
    pairs_per_query: int | None = Field(default=None, ge=1)
    balance_from: Literal["guided", "supported"] = "guided"
    degenerate_time: Literal["document", "keep"] = "document"
    min_head_size: int | None = Field(default=None, ge=1)
    min_standard_confidence: float = Field(default=0.0, ge=0, le=1)

    def stated(self) -> dict[str, Any]:
        """The settings as a manifest holds them; the last two only where they are set."""
        last = ("min_head_size", "min_standard_confidence")
        return self.model_dump(exclude={key for key in last if not getattr(self, key)})


BENCHMARKS = {
    "ruleqa-i": RuleQASettings(num_queries=1559, miner="tlogic"),
    "ruleqa-y": RuleQASettings(num_queries=1864, miner="tlogic"),
    "ruleqa-w": RuleQASettings(num_queries=2065, miner="tlogic"),
    # No test pair of FB15K-237 is linked in train: rules of one body atom find nothing there.
    "ruleqa-f": RuleQASettings(
        num_queries=1233,
        miner="amie",
        max_atoms=3,
        min_support=18,
        min_confidence=0.1,
        oracle_rules=30,
    ),
    # NELL-995 has 543 validation facts; the paper's F_R and F_G hold 9,115 pairs.
    "ruleqa-n": RuleQASettings(
        num_queries=815, miner="amie", max_atoms=3, min_support=10, oracle_rules=30, hold_out=3000
    ),
}

# Questions whose fact is missing; every rule that proves it is judged by, and three pairs of a
# question are trained on. AMIE's thresholds are those of BRINK (arXiv:2508.08344).
_PROOFS = RuleQASettings(
    num_queries=5000, miner="tlogic", min_confidence=0.3, oracle_rules=100_000, pairs_per_query=3
)
_BRINK = {
    "miner": "amie",
    "max_atoms": 4,
    "min_support": 1,
    "min_confidence": 0.4,
    "min_standard_confidence": 0.3,
    "min_head_coverage": 0.1,
}
MISSING = {"tlogic": _PROOFS, "amie": RuleQASettings.joined(_PROOFS, _BRINK)}

_STATIC = RuleQASettings(
    num_queries=1000, miner="amie", max_atoms=3, min_confidence=0.1, oracle_rules=30, num_rules=5000
)
# What is tried for a graph of one's own, strictest first: thresholds that differ from these.
_TRIED = {
    "tlogic": (
        RuleQASettings(num_queries=1000, miner="tlogic"),
        ({}, {"min_support": 1}, {"min_support": 1, "max_atoms": 3}),
    ),
    "amie": (
        _STATIC,
        (
            {"min_support": 10},
            {"min_support": 10, "min_head_size": 10},
            {"min_support": 2, "min_head_size": 2},
            {"min_support": 1, "min_head_size": 1, "min_confidence": 0.01},
        ),
    ),
}

#: The public graph of each benchmark, as :mod:`rulerag.data.download` names it.
GRAPHS = dict(zip(BENCHMARKS, ("icews14", "yago", "wiki", "fb15k237", "nell995"), strict=True))

_SIZES = ("rules_v1", "rules_v2", "documents", "f_r", "f_g", "queries")
#: Table 1 of the paper; |R| in its first and its later published version.
PUBLISHED: dict[str, Mapping[str, int]] = {
    name: dict(zip(_SIZES, row, strict=True))
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
MISSING_VARIANTS = {
    "missing-incomplete": "questions for facts that rules infer and no document states",
    "missing-complete": "questions for facts that rules infer, which documents state as well",
    "missing-validation": "questions for facts that rules infer and no document states, for tuning",
}


def known_settings(name: str) -> RuleQASettings:
    """The settings of a benchmark.

    Raises:
        ConfigError: there is no benchmark of this name; suggests close ones.
    """
    if name not in BENCHMARKS:
        raise ConfigError(
            f"no benchmark is called {name!r}",
            key="name",
            hint=did_you_mean(name, BENCHMARKS) + " (a graph of your own needs no name)",
        )
    return BENCHMARKS[name]


def missing_settings(graph: KnowledgeGraph) -> RuleQASettings:
    """The settings of questions whose fact is missing."""
    return MISSING["tlogic" if graph.is_temporal else "amie"]


def settings_to_try(graph: KnowledgeGraph, changes: Mapping[str, Any]) -> list[RuleQASettings]:
    """Settings for a graph of one's own, strictest thresholds first.

    Args:
        graph: static or temporal, which decides the miner.
        changes: settings that are fixed.
    """
    base, thresholds = _TRIED["tlogic" if graph.is_temporal else "amie"]
    tried = [RuleQASettings.joined(base, {**one, **changes}) for one in thresholds]
    most = max(Counter(graph.train.relation.tolist()).values())
    # Thresholds that no relation has facts for leave no rule, as AMIE would say each time.
    fitting = [s for s in tried if s.miner != "amie" or (s.min_head_size or 100) <= most]
    return list(dict.fromkeys(fitting)) or tried[-1:]


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings from texts ``KEY=VALUE``.

    Raises:
        ConfigError: an unknown or repeated key, or a value of another type.
    """
    values = parse_settings(pairs)
    RuleQASettings.joined(_STATIC, values)
    return values


def check_settings(
    name: str, graph: KnowledgeGraph, settings: RuleQASettings, seed: int, variant: str
) -> None:
    """Refuse, before any work, what cannot be built.

    Raises:
        ConfigError: an unknown variant, a seed below 0, or settings that do not fit the graph.
    """
    check_range("seed", seed, 0)
    check_choice("variant", variant, VARIANTS)
    if graph.is_temporal != (settings.miner == "tlogic"):
        needed, found = ("dated", "static") if settings.miner == "tlogic" else ("static", "dated")
        raise ConfigError(
            f"{name} is made of {needed} facts, and those of {graph.name!r} are {found}",
            key="kg",
            hint="choose another graph, or leave the name out for a graph of your own",
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
