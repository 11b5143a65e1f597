"""What systems answer to questions whose fact is missing, and what that is worth.

The measures are BRINK's (Zhou et al. 2026, arXiv:2508.08344). A question has one hard answer, whose
fact was removed, and easy ones, whose facts are left; a system answers with a set of names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.baselines.counts import BASELINES, CountedFacts
from benchmarks.missing.neighbourhood import NeighbourhoodRetriever
from benchmarks.stages.answers import entity_names
from rulerag.arrays import Doubles
from rulerag.assembly import make_pipeline, method
from rulerag.composition import Config, merged_values, read_values
from rulerag.kg.grounding import Statements
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import RuleBank
from rulerag.text import normalize_answer
from rulerag.types import Answer, Query

ROWS: Sequence[Mapping[str, Any]] = read_values(Path(__file__).parent / "systems.yaml")["rows"]
"""The systems, in the order of the table."""
TOP_K = 10
VALIDATION = 300
"""Validation questions that a choice is made by, and a fifth as many where a model reads."""
INFERRED = (1, 2, 3, 5, 10)
"""So many answers that no document states are given; chosen on validation questions too."""
MEASURES = ("any", "f1", "easy", "hard", "alone")
_LONGEST = 50


class Answers(NamedTuple):
    """What a system answers to one question, by normalised names.

    Args:
        stated: what its documents state.
        inferred: further answers, best first.
    """

    stated: tuple[str, ...]
    inferred: tuple[str, ...]

    @classmethod
    def of(cls, stated: Iterable[str], others: Iterable[str]) -> Answers:
        """The same names normalised, each once."""
        first, second = (dict.fromkeys(map(normalize_answer, names)) for names in (stated, others))
        return cls(tuple(first), tuple(name for name in second if name not in first))


@dataclass
class MissingFacts:
    """A graph's datasets of missing facts, each loaded once.

    Args:
        folder: holds ``incomplete``, ``complete`` and ``validation``.
    """

    folder: Path
    _loaded: dict[str, RuleQADataset] = field(default_factory=dict)

    def dataset(self, name: str, bank: str = "") -> RuleQADataset:
        """One of them, with its own rules, with those of another, or with none."""
        if name not in self._loaded:
            self._loaded[name] = RuleQADataset.load(self.folder / name)
        made = self._loaded[name]
        if not bank:
            return made
        rules = RuleBank() if bank == "none" else self.dataset(bank).rules
        return over(made, made.corpus, rules)


def over(dataset: RuleQADataset, corpus: Sequence[Any], rules: RuleBank) -> RuleQADataset:
    """The questions of a dataset over another corpus, with other rules."""
    return RuleQADataset(
        corpus=corpus,
        queries=dataset.queries,
        rules=rules,
        query_sets=dataset.query_sets,
        labels=dataset.labels,
        info=dataset.info,
    )


def drawn(dataset: RuleQADataset, most: int) -> list[Query]:
    """Test questions, at most so many, by a fixed draw."""
    queries = dataset.query_set("full")
    chosen = np.random.default_rng(0).permutation(len(queries))[: most or None]
    return [queries[n] for n in np.sort(chosen)]


def pipeline_of(
    row: Mapping[str, Any],
    choice: Mapping[str, Any],
    dataset: RuleQADataset,
    top_k: int = TOP_K,
) -> RuleRAGPipeline:
    """The system of a row, which reads so many documents."""
    settings = row.get("settings", {})
    config = method(row["method"], static=not dataset.calendar).without("expected").to_dict()
    for changes in (settings, choice, {"top_k": top_k}):
        config = merged_values(config, changes)
    if config["generator"]["type"] != "huggingface":
        config["generator"]["max_candidates"] = _LONGEST
    made = make_pipeline(Config(config), dataset, keep_union=False)
    if "hops" in row:
        made.retriever = NeighbourhoodRetriever(dataset.corpus, made.retriever, row["hops"])
    return made


def answered(
    row: Mapping[str, Any],
    choice: Mapping[str, Any],
    dataset: RuleQADataset,
    queries: Sequence[Query],
) -> tuple[list[Answers], list[Answer]]:
    """The answers of a row's system, and its records where it has documents."""
    labels = dataset.labels["entities"]
    if "counts" in row:
        return list(_counted(row["counts"], dataset, queries)), []
    records = pipeline_of(row, choice, dataset).answer(queries)
    names = entity_names(dataset) if row["method"].endswith("llama") else None
    made = []
    for one in records:
        if names is not None:  # a model says what is stated and what is not in one breath
            parts = map(names.first, re.split(r"[,;\n]| and ", one.text))
            made.append(Answers.of((), filter(None, parts)))
            continue
        stated = Statements([scored.document for scored in one.documents]).of(one.query)
        known = (labels.get(s.object, s.object) for s in stated)
        made.append(Answers.of(known, (c.text for c in one.completion.candidates)))
    return made, records


def _counted(name: str, dataset: RuleQADataset, queries: Sequence[Query]) -> Iterable[Answers]:
    """The answers of a baseline that counts the facts of the whole corpus."""
    (baseline,) = (one for one in BASELINES if one.name == name)
    facts, labels = CountedFacts(dataset.corpus), dataset.labels["entities"]
    statements = Statements(dataset.corpus)
    for query in queries:
        known = {one.object for one in statements.of(query)}
        ranked = (one.name for one in baseline.candidates(facts, query) if one.name not in known)
        best = itertools.islice(ranked, max(INFERRED))
        yield Answers.of(*((labels.get(name, name) for name in names) for names in (known, best)))


def measured(
    answers: Sequence[Answers], queries: Sequence[Query], inferred: int
) -> dict[str, Doubles]:
    """One value a query of each measure, of shape (n,).

    ``any``: some answer is right. ``f1``: of the set. ``easy``, ``hard``: an easy answer and the
    hard one are among them; not a number in ``easy`` where the question has none. ``alone``: the
    hard one, of questions that have no other.

    Args:
        answers: of a system.
        queries: the questions.
        inferred: how many answers that no document states are given.
    """
    rows = []
    for given, query in zip(answers, queries, strict=True):
        hard, *easy = map(normalize_answer, query.answers)
        named, right = {*given.stated, *given.inferred[:inferred]}, {hard, *easy}
        shared, hit = len(named & right), float(hard in named)
        f1 = 2 * shared / (len(named) + len(right))
        apart = (float(not named.isdisjoint(easy)), np.nan) if easy else (np.nan, hit)
        rows.append((float(shared > 0), f1, apart[0], hit, apart[1]))
    return dict(zip(MEASURES, np.array(rows).T, strict=True))


def hard_over_easy(values: Mapping[str, Doubles]) -> tuple[float, float, float]:
    """HHR, hard hits over easy hits of the questions with both kinds, and its 95 % interval.

    The interval is the bootstrap's over questions.
    """
    both = ~np.isnan(values["easy"])
    hard, easy = values["hard"][both], values["easy"][both]
    if not easy.any():
        return (np.nan,) * 3
    draws = np.random.default_rng(0).integers(len(hard), size=(2000, len(hard)))
    ratios = hard[draws].sum(axis=1) / np.maximum(easy[draws].sum(axis=1), 1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(hard.sum() / easy.sum()), float(low), float(high)


def chosen(row: Mapping[str, Any], facts: MissingFacts) -> tuple[Mapping[str, Any], int]:
    """The choice of a row and how many inferred answers it gives, best by F1 on validation."""
    dataset = facts.dataset("validation", row.get("bank", ""))
    queries = drawn(dataset, VALIDATION // 5 if "sample" in row else VALIDATION)
    tried: list[tuple[float, int, int, Mapping[str, Any]]] = []
    for choice in row.get("choices", ({},)):
        answers, _ = answered(row, choice, dataset, queries)
        for inferred in INFERRED:
            score = float(measured(answers, queries, inferred)["f1"].mean())
            tried.append((score, -inferred, len(tried), choice))
    _, inferred, _, choice = max(tried, key=lambda one: (round(one[0], 6), one[1], -one[2]))
    return choice, -inferred
