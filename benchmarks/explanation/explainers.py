"""What an explainer is here, and every one that is compared.

An explainer is a function from :class:`~benchmarks.explanation.cases.ProbeQuestion` to
:class:`Ranking`, put on the board by ``@explainer(NAME)``. It returns None where it cannot do what
is asked: with so few calls, or of a model that was not asked to explain itself.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), run by its own package.
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775): self-explanations.
    Rorseth et al. 2025 (arXiv:2510.22689): minimal retention rules.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.explanation.cases import ProbeQuestion
from rulerag.errors import DataError, MissingDependencyError
from rulerag.explanation.attribution import attributions, rule_surrogate, shapley_values
from rulerag.explanation.lattice import mask_of, minimal_transversals
from rulerag.explanation.search import CertifiedMiner, MonoMiner
from rulerag.explanation.similarity import similarity_attribution
from rulerag.text import contains_answer

ENCODER = "bi-encoder:all-minilm-l6-v2"
_REPEATED = 2  # ablations of ContextCite for each call allowed, at most
_NEVER_ONE = -1e-6  # the largest log-probability: of a probability of 1 there is no logit


@dataclass(frozen=True)
class Ranking:
    """What an explainer says.

    Args:
        values: how much each document counts.
        named: the documents that the answer rests on; None for those above the widest gap between
            two values, where an explainer does not say.
        removals: in which order to remove them so that most is lost; None for that of the values.
    """

    values: Sequence[float]
    named: frozenset[int] | None = None
    removals: Sequence[int] | None = None


Explain = Callable[[ProbeQuestion], Ranking | None]


@dataclass(frozen=True)
class Explainer:
    """An explainer on the board.

    Args:
        name: on the board.
        explain: what it does.
        kind: ``asks`` the model about subsets of the documents, ``reads`` the texts, lets the model
            ``tell`` its own reasons, or is a ``baseline`` that explains nothing.
        fixed: takes as many calls as it takes; the others are run once for each budget.
        draws: over how many seeds its measures are averaged.
        calls: of the model, besides those about subsets.
        note: what it is, for the page.
    """

    name: str
    explain: Explain
    kind: str
    fixed: bool
    draws: int
    calls: int
    note: str


EXPLAINERS: dict[str, Explainer] = {}
"""By name, in the order of the board's footnotes."""


def explainer(
    name: str, kind: str = "asks", *, fixed: bool = False, draws: int = 1, calls: int = 0
) -> Callable[[Explain], Explain]:
    """Put a function on the board; its docstring is the note on the page.

    Args:
        name: on the board; a second one of that name takes the place of the first.
        kind: see :class:`Explainer`; all but ``asks`` take no budget.
        fixed: likewise.
        draws: likewise.
        calls: likewise.
    """

    def put(explain: Explain) -> Explain:
        note = " ".join((explain.__doc__ or "").split())
        unbudgeted = fixed or kind != "asks"
        EXPLAINERS[name] = Explainer(name, explain, kind, unbudgeted, draws, calls, note)
        return explain

    return put


@explainer("random order", "baseline", draws=20)
def random_order(asked: ProbeQuestion) -> Ranking:
    """The documents in any order; the mean of twenty."""
    rng = random.Random(asked.seed)
    return Ranking([rng.random() for _ in asked.documents])


@explainer("retrieval", "baseline")
def retrieval(asked: ProbeQuestion) -> Ranking:
    """BM25 of the question with each of the documents."""
    return _similar(asked.question, asked, "bm25")


@explainer("longest document", "baseline")
def longest_document(asked: ProbeQuestion) -> Ranking:
    """The number of letters."""
    return Ranking([float(len(text)) for text in asked.documents])


@explainer("holds the answer", "baseline")
def holds_the_answer(asked: ProbeQuestion) -> Ranking:
    """Documents with the answer in them, word for word; of these, and of others, BM25's first."""
    scores = _similar(asked.question, asked, "bm25").values
    held = [contains_answer(text, [asked.answer]) for text in asked.documents]
    most = max(scores, default=0.0) + 1.0
    values = [score + most * holds for score, holds in zip(scores, held, strict=True)]
    return Ranking(values, frozenset(place for place, holds in enumerate(held) if holds))


def _similar(text: str, asked: ProbeQuestion, scorer: str) -> Ranking:
    found = similarity_attribution(text, asked.documents, scorer, aggregate="max", temperature=1.0)
    scores = [[] for _ in asked.documents]  # type: list[list[float]]
    for column, sentence in enumerate(found.sources):
        scores[sentence.document or 0].append(max(row[column] for row in found.scores))
    return Ranking([max(one, default=0.0) for one in scores])


@explainer("similarity, words", "reads")
def similarity_of_words(asked: ProbeQuestion) -> Ranking:
    """The cosine of question and answer with the nearest sentence of a document, by tf-idf."""
    return _similar(_said(asked), asked, "tf-idf")


@explainer("similarity, encoder", "reads")
def similarity_by_encoder(asked: ProbeQuestion) -> Ranking | None:
    """The same by the vectors of all-MiniLM-L6-v2."""
    try:
        return _similar(_said(asked), asked, ENCODER)
    except (DataError, MissingDependencyError):  # the model was not fetched
        return None


def _said(asked: ProbeQuestion) -> str:
    # One text without a full stop: sentences of it would be compared one by one.
    return f"{asked.question.rstrip('?. ')} {asked.answer}".replace("\n", " ")


@explainer("self-explanation", "tells", calls=1)
def self_explanation(asked: ProbeQuestion) -> Ranking | None:
    """The model names the words that helped it; documents with any of them, most of them first."""
    if asked.reading is None:
        return None
    held = [
        sum(contains_answer(text, [word]) for word in asked.reading.keywords if word.strip())
        for text in asked.documents
    ]
    return Ranking(held, frozenset(place for place, number in enumerate(held) if number))


@explainer("judged citations", "tells", calls=8)
def judged_citations(asked: ProbeQuestion) -> Ranking | None:
    """The model is shown each document and says whether it supports the answer: yes against no."""
    if asked.reading is None:
        return None
    support = asked.reading.support
    return Ranking(support, frozenset(place for place, odds in enumerate(support) if odds > 0))


@explainer("leave-one-out", fixed=True)
def leave_one_out(asked: ProbeQuestion) -> Ranking:
    """What is lost without each document alone."""
    return _attributed(asked, "leave-one-out", None)


@explainer("exact Shapley", fixed=True)
def exact_shapley(asked: ProbeQuestion) -> Ranking:
    """Shapley values from every subset."""
    return Ranking(shapley_values(asked.scores).values)


@explainer("exact rules", fixed=True)
def exact_rules(asked: ProbeQuestion) -> Ranking:
    """Minimal retention rules, from the lattice walked level by level."""
    least = asked.threshold
    found = MonoMiner("retention").mine(asked.engine(), lambda text: float(text) >= least)
    return _of_rules(found.minimal, len(asked.documents))


@explainer("certified rules")
def certified_rules(asked: ProbeQuestion) -> Ranking:
    """Minimal retention rules, searched for by bisection and tested on random subsets."""
    least = asked.threshold
    miner = CertifiedMiner("retention", seed=asked.seed)
    found = miner.mine(asked.engine(), lambda text: float(text) >= least)
    return _of_rules(found.minimal, len(asked.documents))


def _of_rules(rules: frozenset[frozenset[int]], count: int) -> Ranking:
    """The values of the formula that the rules are; what any of them holds is named.

    A smallest set that meets every rule is removed first: without it no rule is whole.
    """
    values = rule_surrogate(rules, [str(place) for place in range(count)]).values
    named = frozenset(place for rule in rules for place in rule)
    if not named:
        return Ranking(values, named)
    first = min(minimal_transversals(map(mask_of, rules)), key=int.bit_count)
    order = sorted(range(count), key=lambda place: (not first >> place & 1, -values[place]))
    return Ranking(values, named, order)


def _attributed(asked: ProbeQuestion, method: str, samples: int | None) -> Ranking:
    """What ``rulerag explain --attribution METHOD --value log-probability`` returns."""
    (found,), _ = attributions(asked.scores, None, [method], samples=samples, seed=asked.seed)
    return Ranking(found.values, removals=found.removals)


def _sampled(method: str, asked: ProbeQuestion) -> Ranking:
    return _attributed(asked, method, asked.calls)


for _name, _note in {
    "kernel": "A Gaussian process over the subsets.",
    "guided": "A linear function on each side of the rules that it finds first.",
    "linear": "A LASSO on random subsets.",
}.items():
    _explain = partial(_sampled, _name)
    _explain.__doc__ = _note
    explainer(_name)(_explain)


@explainer("Shapley")
def sampled_shapley(asked: ProbeQuestion) -> Ranking | None:
    """Shapley values from random orders and their reverses."""
    orders = (asked.calls - 2) // (len(asked.documents) - 1)
    return _attributed(asked, "shapley", orders) if orders >= 4 else None  # fewer are refused


@explainer("Banzhaf")
def sampled_banzhaf(asked: ProbeQuestion) -> Ranking:
    """The difference of the means of random subsets with and without a document."""
    return _attributed(asked, "banzhaf", asked.calls - 2)


@explainer("ContextCite")
def context_cite(asked: ProbeQuestion) -> Ranking | None:
    """The installed package's own ablations and regression on the logit of the probability."""
    try:
        package = context_cite_package()
    except MissingDependencyError:
        return None
    count = len(asked.documents)
    masks = ablations(count, asked.calls)
    logs = np.minimum(asked.scores(masks), _NEVER_ONE)
    logits = logs - np.log(-np.expm1(logs))
    kept = np.array([[mask >> i & 1 for i in range(count)] for mask in masks], dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its LASSO on flat scores
        weights, _ = package.solver.LassoRegression().fit(kept, logits, asked.tokens)
    return Ranking(tuple(map(float, weights)))


def ablations(count: int, calls: int) -> list[int]:
    """The masks that the package draws, with repetition, until so many distinct ones are out."""
    masks = list[int]()
    for seed in range(_REPEATED * calls):
        kept = context_cite_package().utils._create_mask(count, 0.5, seed)
        mask = mask_of(np.flatnonzero(kept).tolist())
        if len({*masks, mask}) > calls:
            break
        masks.append(mask)
    return masks


@cache
def context_cite_package() -> Any:
    """The package, imported without its download of sentence data, which nothing here needs.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import nltk

        download, nltk.download = nltk.download, lambda *_, **__: True
        try:
            import context_cite
            import context_cite.context_partitioner
            import context_cite.utils
        finally:
            nltk.download = download
    except ImportError:
        raise MissingDependencyError("context-cite", "dev") from None
    return context_cite
