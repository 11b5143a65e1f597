"""What the commands about rules share: reading banks, and making them smaller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rulerag.cli.common import say
from rulerag.errors import ConfigError
from rulerag.mining.pruning import DEFAULT_SCORE, SCORES, check_score, prune_subsumed, top_rules
from rulerag.mining.runtime import check_count
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.kg import FactTable, KnowledgeGraph


@dataclass(frozen=True)
class Smaller:
    """How a bank is made smaller.

    Args:
        prune: drop subsumed rules.
        prune_covered: drop rules that predict nothing new on a graph.
        per_head: rules of each head that stay; all when None.
        score: what ranks them; the default score when None.

    Raises:
        ConfigError: an unknown score, a number below 1, or a score without a number.
    """

    prune: Annotated[
        bool,
        typer.Option("--prune", help="drop rules that a rule as confident subsumes, on any graph"),
    ] = False
    prune_covered: Annotated[
        bool,
        typer.Option("--prune-covered", help="static: drop rules that predict nothing new here"),
    ] = False
    per_head: Annotated[int | None, typer.Option(help="keep the N best rules of each head")] = None
    score: Annotated[
        str | None,
        typer.Option(
            help=f"ranks the rules of a head: {', '.join(SCORES)} (default {DEFAULT_SCORE})"
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.per_head is not None:
            check_count("top", self.per_head, 1)
        if self.score is not None:
            check_score(self.score)
            if self.per_head is None:
                raise ConfigError(
                    "tells the best rules of a head, and all are kept",
                    key="score",
                    hint="say how many to keep: --per-head 10",
                )

    def of(self, bank: RuleBank, facts: FactTable | None = None) -> RuleBank:
        """The smaller bank; each step says what it left."""
        if self.prune:
            bank = _told("not subsumed", bank, prune_subsumed(bank))
        if self.prune_covered:
            if facts is None:
                raise ConfigError(
                    "needs the graph of the rules", key="prune-covered", hint="--kg FOLDER"
                )
            from rulerag.mining.pruning import prune_covered  # loads numba

            bank = _told("predicting something new", bank, prune_covered(bank, facts))
        if self.per_head is not None:
            score = self.score or DEFAULT_SCORE
            bank = _told(f"best by {score}", bank, top_rules(bank, self.per_head, score))
        return bank


def _told(words: str, before: RuleBank, after: RuleBank) -> RuleBank:
    say(f"{len(after):,} of {len(before):,} rules {words}")
    return after


def load_bank(file: Path, format: str = "auto", graph: KnowledgeGraph | None = None) -> RuleBank:
    """Read a bank in any format.

    Raises:
        ConfigError: TLogic's format without a graph.
    """
    from rulerag.mining.formats import detect_format, import_rules

    if format == "auto":
        # A bank of no rules is an empty file, which tells no format.
        empty = file.is_file() and not file.stat().st_size
        format = "jsonl" if empty else detect_format(file)
    if format == "tlogic" and graph is None:
        raise ConfigError(
            "TLogic's format names relations by their ids in a graph",
            path=file,
            hint="name the graph that the rules were mined from: --kg FOLDER",
        )
    return import_rules(file, format, graph)
