"""Forecasts with rules whose weights are learned: how recent, how frequent, which rules fire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pydantic
from tqdm import tqdm

from rulerag.composition import Settings
from rulerag.errors import EmptyDataError, MiningError
from rulerag.mining.inference.batching import Candidates, applied_rules, in_parts, known_facts
from rulerag.mining.paths import code_rules

if TYPE_CHECKING:
    from rulerag.arrays import Ints, Longs
    from rulerag.kg import FactTable
    from rulerag.mining.inference.learned.explain import Contribution
    from rulerag.mining.inference.learned.logit import Weights
    from rulerag.rules import Rule

# Queries learned between two moves of the progress bar; what is learned does not depend on it.
_PART = 2048


class LearningSettings(Settings):
    """What :class:`LearnedTemporalInference` uses and how it learns.

    Args:
        min_confidence: rules below it are not tried.
        min_body_size: rules with fewer known bodies are not tried.
        rate: size of the steps of weights that all relations share.
        fine_rate: size of the steps of the weights of single relations and rules; the default was
            chosen on validation facts of ICEWS14, few relations with many facts bear 0.1.
        shrinkage: how strongly the latter are drawn to zero.
        passes: how often the past is learned from.
        max_queries: learn from so many of the latest queries only; all when None.
        threads: threads that work on queries in
            :meth:`LearnedTemporalInference.candidates`; no result depends on it.

    Raises:
        ConfigError: a setting is out of range.
    """

    min_confidence: float = pydantic.Field(default=0.01, ge=0, le=1)
    min_body_size: int = 2
    rate: float = pydantic.Field(default=0.1, gt=0, le=10)
    fine_rate: float = pydantic.Field(default=0.03, gt=0, le=10)
    shrinkage: float = pydantic.Field(default=1e-3, ge=0, le=1)
    passes: int = pydantic.Field(default=1, ge=1)
    max_queries: int | None = pydantic.Field(default=None, ge=1)
    threads: int = pydantic.Field(default=1, ge=1)


class LearnedTemporalInference:
    """Forecasts with temporal rules, weighted by what past queries teach.

    An answer's score is a sum of weighted evidence, and its probability among the candidates is
    the softmax of the scores (a conditional logit). Evidence is: how lately and how often the known
    entity and the candidate met, by the asked relation, its inverse, or any; each rule of one body
    atom that fires, its recency and frequency; the confidence and recency of the longer rules that
    reach the candidate; how often it answered the relation before, and how active it was.
    Candidates are the entities that met the known one and those that answered the relation.

    :meth:`fit` asks past facts in the order of time, each from what was known before its time, and
    follows the gradient of the answers' log-likelihood. Nothing in it is random. Rules explain the
    facts that they were mined from too well, so weights are best learned from later ones.

    Args:
        rules: temporal rules as :class:`~rulerag.mining.inference.TemporalInference` takes.
        facts: what is known, all over one vocabulary; of each query the facts before its time
            count.
        settings: what is used and how it is learned; the defaults when None.
        changes: fields of :class:`LearningSettings` by name.

    Raises:
        ConfigError: a setting is unknown or out of range.
        MiningError: the facts or a rule are static, or a body is no walk.

    References:
        McFadden 1974 (conditional logit); Duchi et al. 2011 (AdaGrad); Gastinger et al. 2025
        (CountTRuCoLa, arXiv:2509.09474), which learns confidences from recency and frequency.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        facts: Sequence[FactTable],
        settings: LearningSettings | None = None,
        **changes: Any,
    ) -> None:
        from rulerag.mining.inference.learned.history import build_history  # loads numba
        from rulerag.mining.inference.learned.logit import new_weights

        self.settings = chosen = LearningSettings.joined(settings, changes)
        kept = applied_rules(rules, chosen.min_confidence, chosen.min_body_size)
        relations = known_facts(facts)[0].relations
        self._history = build_history(facts)
        self._coded, self.rules = code_rules(kept, relations)
        self._sizes = (len(facts[0].entities), 2 * len(relations))
        self._weights: Weights = new_weights(self._sizes[1], len(self.rules), 0.0)
        self.learned = 0
        self.loss: list[float] = []

    def fit(
        self, asked: Sequence[FactTable], *, progress: bool = False
    ) -> LearnedTemporalInference:
        """Learn the weights anew, from both queries of every fact.

        Args:
            asked: the facts that are asked, tables over the same vocabulary; never those that it
                is later measured on.
            progress: show a progress bar.

        Returns:
            Itself. ``loss`` then holds the mean loss of each pass (in nats, before each step), and
            ``learned`` how many answers were candidates.

        Raises:
            EmptyDataError: nothing is asked, or no answer is ever a candidate.
            MiningError: the facts are static, or over another vocabulary.
        """
        from rulerag.mining.inference.learned.logit import learn, new_weights

        queries = _past_queries(asked, self._sizes, self.settings.max_queries)
        shape = self._sizes[1], len(self.rules)
        weights, squares = new_weights(*shape, 0.0), new_weights(*shape, 1.0)
        rates = self.settings.rate, self.settings.fine_rate, self.settings.shrinkage
        losses: list[float] = []
        learned = 0
        size = len(queries.subject)
        with tqdm(total=size * self.settings.passes, desc="learning", disable=not progress) as bar:
            for _ in range(self.settings.passes):
                loss, learned = 0.0, 0
                for start in range(0, size, _PART):
                    part = queries.part(start, start + _PART)
                    columns = (part.subject, part.relation, part.time)
                    found, number = learn(
                        self._history,
                        self._coded,
                        weights,
                        squares,
                        *columns,
                        part.bounds,
                        part.answer,
                        rates,
                    )
                    loss, learned = loss + found, learned + number
                    bar.update(len(part.subject))
                losses.append(loss / max(learned, 1))
        if not learned:
            raise EmptyDataError(
                "no past answer is among its query's candidates, so there is nothing to learn from",
                hint="ask facts of later times, or give more known facts",
            )
        self._weights, self.loss, self.learned = weights, losses, learned
        return self

    def candidates(
        self,
        subject: npt.NDArray[np.integer],
        relation: npt.NDArray[np.integer],
        time: npt.NDArray[np.integer],
    ) -> Candidates:
        """Score the answers of queries ``relation(subject, ?)`` at a time.

        Args:
            subject: array of shape (q,), the known entities.
            relation: array of shape (q,), directed relations: ``r`` asks for the object of r,
                ``r + R`` for its subject.
            time: array of shape (q,), timestamps.

        Returns:
            Candidates whose scores are probabilities that add up to 1 for each query.

        Raises:
            MiningError: an id is not the graph's, or nothing is learned yet.
        """
        self._check_fitted()
        from rulerag.mining.inference.learned.logit import predict

        apply = partial(predict, self._history, self._coded, self._weights)
        return in_parts(apply, (subject, relation, time), self._sizes, self.settings.threads)

    def explain(self, subject: int, relation: int, time: int, answer: int) -> list[Contribution]:
        """What speaks for and against one candidate, the strongest first.

        The values add up to the candidate's score: the difference of two candidates' sums is the
        logarithm of the ratio of their probabilities.

        Args:
            subject: the known entity.
            relation: the directed relation asked for.
            time: the time asked for.
            answer: the candidate.

        Raises:
            MiningError: an id is not the graph's, nothing is learned yet, or the entity is no
                candidate.
        """
        from rulerag.mining.inference.learned.explain import contributions

        self._check_fitted()
        for name, value, size in (
            ("entity", subject, self._sizes[0]),
            ("relation", relation, self._sizes[1]),
            ("entity", answer, self._sizes[0]),
        ):
            if not 0 <= value < size:
                raise MiningError(
                    f"{value} is no {name} id of the graph", hint=f"ids are 0 to {size - 1}"
                )
        query = (subject, relation, time)
        return contributions(self._history, self._coded, self._weights, self.rules, query, answer)

    def _check_fitted(self) -> None:
        if not self.learned:
            raise MiningError("no weights are learned yet", hint="call fit([kg.train]) first")


class _Past(NamedTuple):
    """Distinct queries in the order of time: known entity, directed relation, time, answers."""

    subject: Ints
    relation: Ints
    time: Ints
    bounds: Longs
    answer: Ints

    def part(self, start: int, end: int) -> _Past:
        """Some of the queries."""
        bounds = self.bounds[start : end + 1]
        answer = self.answer[bounds[0] : bounds[-1]]
        subject, relation, time = (column[start:end] for column in self[:3])
        return _Past(subject, relation, time, bounds - bounds[0], answer)


def _past_queries(asked: Sequence[FactTable], sizes: tuple[int, int], limit: int | None) -> _Past:
    from rulerag.mining.indexes import directed_facts, run_starts

    if not any(len(table) for table in asked):
        raise EmptyDataError("no facts to learn from", hint="give [kg.train]")
    if sizes != (len(asked[0].entities), 2 * len(asked[0].relations)):
        raise MiningError(
            "the facts to learn from are over another vocabulary than the known facts",
            hint="give splits of one graph",
        )
    subject, relation, answer, time = directed_facts(asked, (3, 0, 1, 2))
    start = np.flatnonzero(run_starts(time, subject, relation))[-limit if limit else 0 :]
    bounds = np.append(start, len(time)) - start[0]
    return _Past(subject[start], relation[start], time[start], bounds, answer[start[0] :])
