"""Joining scorers: how much each counts is learned from facts of the corpus that are hidden."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np

from rulerag.arrays import Bools, Doubles, Longs
from rulerag.cache import recall_arrays, remember_arrays
from rulerag.candidates.base import Movable
from rulerag.candidates.facts import CorpusFacts
from rulerag.candidates.trees import SETTINGS, Question, grow_trees, order_by_trees
from rulerag.composition import check_range, register
from rulerag.errors import ConfigError, needs_package
from rulerag.io import StoredRecords, fingerprint_object
from rulerag.kg import query_text
from rulerag.protocols import CandidateScorer, ScoredCandidates
from rulerag.types import Query, Support

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

# Fewer fine-tuning questions than this teach less than hidden facts.
_FEW = 30
# Facts that are hidden: this fraction of the corpus at most.
_HIDDEN = 0.05
# The quadratic penalties on weights of standardised features, in nats of all questions together: on
# those that all relations share, and on what a relation adds to them. They are a prior, the same
# for however many questions: few of them move weights little. Chosen on validation questions.
_PENALTY, _OWN_PENALTY = 2.6, 7.8
# Fewer questions teach trees nothing.
_MANY = 300
# Questions that are scored at once where they are learned from.
_AT_ONCE = 512
# Reasons that are given; further ones cost time for every document of every question.
_REASONS = 1


class Learned(NamedTuple):
    """What was learned.

    Args:
        floor: shape (s,), of each scorer the score that stands for none.
        mean: shape (2 s,), of the features.
        spread: shape (2 s,), their standard deviation.
        weight: shape (2 s,), of the standardised features.
        own: by relation id, what it adds to these weights, shape (2 s,).
        questions: how many questions it was learned from.
        loss: the mean negative log-likelihood of the answers, in nats.
        trees: what orders the likeliest candidates; None where questions are few.
    """

    floor: Doubles
    mean: Doubles
    spread: Doubles
    weight: Doubles
    own: Mapping[int, Doubles]
    questions: int
    loss: float
    trees: HistGradientBoostingClassifier | None = None

    def parts(self, scores: Doubles, relation: int, failed: Bools) -> Doubles:
        """What the scorers add to the logarithms of the odds of candidates, shape (m, 2 s).

        Args:
            scores: of candidates, shape (m, s).
            relation: the id of the asked one.
            failed: which scorers failed, shape (s,); they add nothing.
        """
        features = (_features(scores, self.floor) - self.mean) / self.spread
        features[:, np.r_[failed, failed]] = 0
        parts: Doubles = features * (self.weight + self.own.get(relation, 0.0))
        return parts

    def to_bytes(self) -> bytes:
        """All of it, to the last bit."""
        with needs_package("scikit-learn", "learn"):
            import skops.io

        content: bytes = skops.io.dumps(self._asdict())
        return content

    @classmethod
    def from_bytes(cls, content: bytes) -> Learned | None:
        """What :meth:`to_bytes` gave; None where the bytes are something else.

        Nothing in them is run: types other than numbers, arrays and trees are refused.
        """
        with needs_package("scikit-learn", "learn"):
            import skops.io

        try:
            unknown = skops.io.get_untrusted_types(data=content)
            trees = [name for name in unknown if name.startswith("sklearn.ensemble.")]
            return cls(**skops.io.loads(content, trusted=trees))
        except (AttributeError, KeyError, TypeError, ValueError, BadZipFile):
            return None


@register("scorer", "learned", parts={"more": "scorer*"})
class LearnedScorer:
    """Joins scorers: the probability of a candidate, of those that any scorer names.

    Each scorer gives two features, the logarithm of its score and whether it names the candidate
    at all. Their weights are those of a conditional logit (McFadden 1974) that all relations share,
    and what each relation adds to them, drawn to zero where it has few questions. They are learned
    from the fine-tuning questions of the dataset, whose answers no document states. Where there are
    fewer than thirty, questions are made from the corpus's own facts: of undated facts a sample, of
    dated ones the latest. The scorers then see the corpus without these facts, and one that cannot
    be made over other facts is left out. What rules were mined from is not hidden from them, so
    they are trusted somewhat too much.

    A scorer that fails is named in a warning and left out; the others answer. Of equal candidates,
    the one that the first scorer puts first comes first, then the one of the second, and so on.

    What was learned for the corpus of a stored dataset by scorers of this library is kept in the
    cache folder (:mod:`rulerag.cache`), unless a scorer failed.

    Args:
        facts: the facts.
        scorers: those that are joined, over the same facts.
        more: further ones, beside those that a configuration has already.
        examples: questions with answers that the corpus does not state; none to hide facts.
        questions: how many questions are learned from, at most.
        depth: how many candidates of each scorer are looked at.
        seed: decides which questions are learned from, and which facts are hidden.

    Raises:
        ConfigError: no scorer, a number below 1, or a scorer over other names.
    """

    def __init__(
        self,
        facts: CorpusFacts,
        scorers: Sequence[CandidateScorer],
        *,
        more: Sequence[CandidateScorer] = (),
        examples: Sequence[Query] = (),
        questions: int = 3000,
        depth: int = 60,
        seed: int = 0,
    ) -> None:
        if not scorers:
            raise ConfigError("no scorers to join", key="scorers", hint="[{type: analogy}]")
        check_range("questions", questions, 1)
        check_range("depth", depth, 1)
        for scorer in (*scorers, *more):
            if list(scorer.names) != list(facts.names):
                raise ConfigError(
                    f"{_title(scorer)} is not over the facts of the corpus",
                    key="scorers",
                    hint="a scorer takes the facts that it is given, see rulerag.candidates.base",
                )
        self.facts = facts
        self.scorers = (*scorers, *more)
        self.examples = tuple(examples)
        self.questions = questions
        self.depth = depth
        self.seed = seed

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.facts.names

    @cached_property
    def fingerprint(self) -> str:
        """Names the scorers and every setting that changes scores."""
        parts = [scorer.fingerprint for scorer in self.scorers]
        asked = [(one.to_json(), one.prediction, one.answers) for one in self.examples]
        # Answers are told from entities, and names are compared, in readable form.
        labels = {kind: dict(named) for kind, named in self.facts.labels.items()}
        words = labels, self.facts.forward is None
        parts.append(fingerprint_object([asked, words]))
        chosen = SETTINGS, _PENALTY, _OWN_PENALTY
        return fingerprint_object(["learned", chosen, *self._settings.values(), *parts])

    def over(self, facts: CorpusFacts) -> LearnedScorer:
        """The same scorer over other facts."""
        parts = [scorer.over(facts) for scorer in self.scorers if isinstance(scorer, Movable)]
        # Its questions ask for objects; where ends are swapped, facts are hidden instead.
        turned = (facts.forward is None) != (self.facts.forward is None)
        examples = () if turned else self.examples
        return LearnedScorer(facts, parts, examples=examples, **self._settings)

    def with_scorers(self, scorers: Sequence[CandidateScorer]) -> LearnedScorer:
        """Other scorers over the same facts, joined in the same way, learned anew."""
        return LearnedScorer(self.facts, scorers, examples=self.examples, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        names = ("questions", "depth", "seed")
        return {name: getattr(self, name) for name in names}

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, its candidates with their probabilities, best first."""
        learned, size = self.learned, len(self.scorers)
        asked = self._questions(queries, _score_all(self.scorers, queries))
        parts = [learned.parts(one.scores, one.ids[1], one.failed) for one in asked]
        odds = [one.sum(axis=1) for one in parts]
        if learned.trees is not None:
            odds = order_by_trees(learned.trees, learned.floor, self.facts, asked, odds)
        scored = []
        for one, part, of in zip(asked, parts, odds, strict=True):
            order = np.argsort(-of, kind="stable")
            share = np.exp(of[order] - of.max(initial=-np.inf))
            probability = np.maximum(share / share.sum() if len(share) else share, 1e-12)
            reasons = _Reasons(one, part[:, :size] + part[:, size:])
            scored.append(ScoredCandidates(self.names, one.entity[order], probability, reasons))
        return scored

    def _questions(
        self, queries: Sequence[Query], found: Sequence[list[ScoredCandidates] | None]
    ) -> list[Question]:
        """Questions with what each scorer finds for them."""
        ids = np.stack(self.facts.coded(queries), axis=1).tolist()
        scratch = np.zeros(len(self.names))
        asked = []
        for number, (subject, relation, time) in enumerate(ids):
            lists = [None if one is None else one[number] for one in found]
            # Their lists are long, and nothing else of them is needed.
            explains = [None if one is None else one.explain for one in lists]
            asked.append(Question(explains, *self._join(lists, scratch), (subject, relation, time)))
        return asked

    @cached_property
    def learned(self) -> Learned:
        """The weights; read from the cache folder or learned when first needed."""
        arrays = recall_arrays("scorers", self._key) if self._is_kept else None
        content = arrays["learned"].tobytes() if arrays and "learned" in arrays else b""
        return Learned.from_bytes(content) or self.learn()

    @property
    def _is_kept(self) -> bool:
        """Whether fingerprints and the library's version tell all that weights hang on."""
        own = all(type(one).__module__.split(".")[0] == "rulerag" for one in self.scorers)
        return own and isinstance(self.facts.documents, StoredRecords)

    @property
    def _key(self) -> list[str]:
        import scipy
        import sklearn

        versions = np.__version__, scipy.__version__, sklearn.__version__, sys.byteorder
        return ["weights", self.fingerprint, *versions]

    def learn(self) -> Learned:
        """Learn the weights anew, and keep them where they can be kept."""
        learned, whole = self._learn()
        if whole and self._is_kept:
            content = np.frombuffer(learned.to_bytes(), np.uint8)
            remember_arrays("scorers", self._key, {"learned": content})
        return learned

    def _learn(self) -> tuple[Learned, bool]:
        """The weights, and whether every scorer had its say."""
        made = self._hidden_questions() if len(self.examples) < _FEW else self._dataset_questions()
        asked: dict[int, Question] = {}
        for places in self._shares(made.queries):
            queries = [made.queries[place] for place in places]
            found = self._questions(queries, _score_all(made.scorers, queries))
            asked.update(zip(places.tolist(), found, strict=True))
        pairs = [
            (asked[n], np.isin(asked[n].entity, right)) for n, right in enumerate(made.answers)
        ]
        examples = [(one, right) for one, right in pairs if right.any() and not right.all()]
        whole = not any(one.failed.any() for one, _ in pairs)
        if not examples:
            return self._equal_weights(), whole
        known, right = zip(*examples, strict=True)
        learned = _fit(known, right)
        if len(examples) < _MANY:
            return learned, whole
        odds = [learned.parts(one.scores, one.ids[1], one.failed).sum(axis=1) for one in known]
        trees = grow_trees(learned.floor, made.facts, known, odds, right)
        return learned._replace(trees=trees), whole

    def _shares(self, queries: Sequence[Query]) -> list[Longs]:
        """Places of questions that are scored at once: the lists of all scorers are long.

        Those of one relation stay together, for the last digits of a score hang on its company.
        """
        relation = self.facts.coded(queries)[1]
        order = np.argsort(relation, kind="stable")
        firsts = np.searchsorted(relation[order], relation[order][_AT_ONCE::_AT_ONCE])
        return np.split(order, np.unique(firsts))

    def _dataset_questions(self) -> _Examples:
        """Questions of the dataset, at most so many."""
        order = np.random.default_rng(self.seed).permutation(len(self.examples))
        queries = [self.examples[place] for place in sorted(order[: self.questions].tolist())]
        answers = [
            [entity for name in query.answers for entity in self.facts.entities_named(name)]
            for query in queries
        ]
        return _Examples(queries, answers, self.scorers, self.facts)

    def _hidden_questions(self) -> _Examples:
        """Questions for facts that are hidden from the scorers."""
        hidden = self._hidden_facts()
        known = self.facts.select(~hidden)
        if not len(known):
            return _Examples([], [], (), known)
        gold: dict[tuple[str, str, int | None], list[int]] = {}
        table = self.facts.table
        rows = np.flatnonzero(hidden)
        for row in rows.tolist():
            subject, relation, _, time = table.fact(row)
            gold.setdefault((subject, relation, time), []).append(int(table.object[row]))
        chosen = np.random.default_rng(self.seed).permutation(rows)[: self.questions]
        queries = self._queries(chosen)
        answers = [gold[query.subject, query.relation, query.timestamp] for query in queries]
        return _Examples(queries, answers, _over(self.scorers, known), known)

    def _queries(self, rows: Longs) -> list[Query]:
        """The questions for the objects of facts, each once."""
        facts, table = self.facts, self.facts.table
        queries: dict[tuple[str, str, int | None], Query] = {}
        for row in rows.tolist():
            fact = table.fact(row)
            subject = facts.entity(int(table.subject[row]))
            relation = facts.relation(int(table.relation[row]))
            queries[fact.subject, fact.relation, fact.timestamp] = Query(
                f"hidden-{row}",
                query_text(subject, relation),
                fact.subject,
                fact.relation,
                fact.timestamp,
                subject_label=subject,
                relation_label=relation,
                prediction=True,
            )
        return list(queries.values())

    def _equal_weights(self) -> Learned:
        """Every scorer counts alike: where there is nothing to learn from."""
        size = len(self.scorers)
        ones = np.ones(2 * size)
        weight = np.r_[np.ones(size), np.zeros(size)]
        return Learned(np.full(size, 1e-6), 0 * ones, ones, weight, {}, 0, float("nan"))

    def _hidden_facts(self) -> Bools:
        """Which facts are hidden, shape (n,)."""
        facts = self.facts
        count = min(int(len(facts) * _HIDDEN), max(self.questions, 1))
        hidden = np.zeros(len(facts), bool)
        if facts.is_dated:
            if len(np.unique(facts.times)) < 2:
                return hidden | True
            cut = np.quantile(facts.times, 1 - _HIDDEN)
            latest = facts.times >= cut
            return latest if not latest.all() else facts.times == facts.times.max()
        if not count:
            return hidden | True
        hidden[np.random.default_rng(self.seed).permutation(len(facts))[:count]] = True
        # A fact that is stated twice is not hidden while the other stands.
        table, size = facts.table, len(facts.names)
        one, other = table.subject.astype(np.int64), table.object.astype(np.int64)
        code = (table.relation.astype(np.int64) * size + one) * size + other
        same: Bools = np.isin(code, code[hidden])
        return same

    def _join(
        self, lists: Sequence[ScoredCandidates | None], scratch: Doubles
    ) -> tuple[Longs, Doubles]:
        """Candidates of several scorers, shape (m,), and their scores, (m, s); 0 for none.

        In the order in which the scorers name them, the first one's first. ``scratch`` has a zero
        for every entity, and has so again.
        """
        named = [one.entity[: self.depth] for one in lists if one is not None]
        together = np.concatenate([np.zeros(0, np.int64), *named])
        entity, first = np.unique(together, return_index=True)
        entity = entity[np.argsort(first)]
        values = np.zeros((len(entity), len(lists)))
        for column, one in enumerate(lists):
            if one is not None:
                scratch[one.entity] = one.score
                values[:, column] = scratch[entity]
                scratch[one.entity] = 0.0
        return entity, values


class _Reasons:
    """What the scorers say for the candidates of one question, those that count most first."""

    def __init__(self, question: Question, counts: Doubles) -> None:
        self._explains, self._named = question.explains, question.scores > 0
        self._counts = counts
        self._place = {int(one): place for place, one in enumerate(question.entity.tolist())}

    def __call__(self, entity: int) -> tuple[Support, ...]:
        place = self._place[entity]
        reasons: list[Support] = []
        for number in np.argsort(-self._counts[place], kind="stable").tolist():
            explain = self._explains[number]
            told = explain(entity) if explain is not None and self._named[place, number] else ()
            reasons += [one for one in told if one.facts not in [r.facts for r in reasons]][:1]
            if len(reasons) == _REASONS:
                break
        return tuple(reasons)


class _Examples(NamedTuple):
    """Questions to learn from.

    Args:
        queries: the questions.
        answers: the entities that answer each.
        scorers: what finds candidates for them; None for one that failed.
        facts: what the scorers know.
    """

    queries: Sequence[Query]
    answers: Sequence[Sequence[int]]
    scorers: Sequence[CandidateScorer | None]
    facts: CorpusFacts


def _title(scorer: CandidateScorer) -> str:
    return str(getattr(scorer, "title", type(scorer).__name__))


def _over(scorers: Sequence[CandidateScorer], facts: CorpusFacts) -> list[CandidateScorer | None]:
    """The same scorers over other facts; None for one that cannot be made over them."""

    def moved(scorer: CandidateScorer) -> CandidateScorer:
        if not isinstance(scorer, Movable):
            raise ConfigError("it cannot be made over other facts, to learn its weight")
        return scorer.over(facts)

    return _each(scorers, moved)


def _score_all(
    scorers: Sequence[CandidateScorer | None], queries: Sequence[Query]
) -> list[list[ScoredCandidates] | None]:
    """What each scorer finds; None for one that fails."""
    return _each(scorers, lambda scorer: scorer.score(queries))


def _each(
    scorers: Sequence[CandidateScorer | None], made: Callable[[CandidateScorer], T]
) -> list[T | None]:
    """What is made of each scorer; None for one that fails, which a warning names.

    Raises:
        Exception: that of the last scorer, where every one fails.
    """
    found: list[T | None] = []
    last: Exception | None = None
    for scorer in scorers:
        one = None
        if scorer is not None:
            try:
                one = made(scorer)
            except Exception as error:  # noqa: BLE001  (one that fails shall not stop the others)
                last = error
                told = f"{type(error).__name__}: {error}"
                _LOG.warning("the scorer %s fails and is left out: %s", _title(scorer), told)
        found.append(one)
    if last is not None and all(one is None for one in found):
        raise last
    return found


def _features(values: Doubles, floor: Doubles) -> Doubles:
    """Features of candidates, shape (m, 2 s), from scores of shape (m, s)."""
    return np.hstack([np.log(np.maximum(values, floor)), (values > 0).astype(np.float64)])


def _fit(asked: Sequence[Question], answers: Sequence[Bools]) -> Learned:
    """The weights that make the answers of questions likeliest.

    Args:
        asked: the questions.
        answers: of each, which of its candidates answer, shape (m,); some do, and some do not.
    """
    from scipy.optimize import minimize

    values = np.concatenate([one.scores for one in asked])
    right = np.concatenate(answers).astype(np.float64)
    named = values > 0
    # Half of the least that a scorer says, but for outliers, stands for nothing.
    floor = np.array(
        [
            np.quantile(column[there], 0.02) / 2 if there.any() else 1e-6
            for column, there in zip(values.T, named.T, strict=True)
        ]
    )
    features = _features(values, floor)
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread < 1e-9] = 1.0
    features = (features - mean) / spread
    sizes = np.array([len(one.scores) for one in asked])
    starts = np.cumsum(sizes) - sizes
    question = np.repeat(np.arange(len(sizes)), sizes)
    relations, of_question = np.unique([one.ids[1] for one in asked], return_inverse=True)
    relation = of_question[question]
    by_relation = np.argsort(relation, kind="stable")
    firsts = np.searchsorted(relation[by_relation], np.arange(len(relations)))
    shape = len(relations), features.shape[1]

    def shares(score: Doubles, of: Doubles) -> tuple[Doubles, Doubles]:
        """Logarithms of sums of odds by question, and the fraction of each candidate."""
        most = np.maximum.reduceat(np.where(of > 0, score, -np.inf), starts)
        odds = np.exp(np.minimum(score - most[question], 0)) * of
        total = np.add.reduceat(odds, starts)
        return most + np.log(total), odds / total[question]

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        weight, own = weights[: shape[1]], weights[shape[1] :].reshape(shape)
        score = features @ weight + np.einsum("ij,ij->i", features, own[relation])
        every, among = shares(score, np.ones(len(score)))
        best, wanted = shares(score, right)
        slopes = features * (among - wanted)[:, None] / len(sizes)
        shared = slopes.sum(axis=0) + 2 * shared_penalty * weight
        added = np.add.reduceat(slopes[by_relation], firsts, axis=0) + 2 * own_penalty * own
        penalty = shared_penalty * (weight**2).sum() + own_penalty * (own**2).sum()
        return float((every - best).mean() + penalty), np.r_[shared, added.ravel()]

    shared_penalty, own_penalty = _PENALTY / len(sizes), _OWN_PENALTY / len(sizes)
    start = np.zeros(shape[1] * (1 + len(relations)))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    weight, own = found.x[: shape[1]], found.x[shape[1] :].reshape(shape)
    by_id = dict(zip(relations.tolist(), own, strict=True))
    return Learned(floor, mean, spread, weight, by_id, len(sizes), float(found.fun))
