"""What unknown words mean, by the company that they keep: whom they join, and how else.

Words that no pattern knows, said often enough, have a profile: the kinds of their ends, and which
relations hold of the same two before, after or the other way round, near or far. A relation has
such a profile too, because rules hold ("who applies to a firm, joins it later"). Words mean the
relation whose profile makes their own likely, against the possibility that they mean none: each
cell of a profile is a rate with a gamma prior, so that counts are negative binomial (Gelman et al.,
Bayesian Data Analysis, section 2.6). How much likelier it has to be is learned on known words that
are held out in turn, some with all other words of their relation; words that keep no company mean
nothing here. That words which join the same pairs mean the same is DIRT's idea (Lin and Pantel
2001, section 3) and PATTY's; here rules join the pairs as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.extraction.slots import EntityKinds
from rulerag.types import Fact

Words = tuple[str, ...]

# Words said less often, or with less company, are left alone.
LEAST_SAID, _LEAST_COMPANY = 4, 3
# Pseudo-occurrences of the average profile: in that of a relation, and in that of no known one.
_PRIOR, _PRIOR_NONE = 3.0, 1.0
# How much likelier words are to mean none of the relations than each of them, as a logarithm.
_NONE = 2.0
# How likely words are to name the object of their relation first, before any evidence.
_TURNED = 0.05
_LEAN = {False: math.log(1 - _TURNED), True: math.log(_TURNED)}
# The share of a pair's ends that must be of the kinds of a relation.
_FITTING = 0.7
# Of so many pairs.
_EXAMPLES = 20
# By how much, as a logarithm, a meaning must be likelier than any other, and than none: the least
# of these that is right often enough on words held out.
_MARGINS = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 9.0, 12.0)
_RIGHT = 0.95
_FOLDS, _GROUPS, _ROUNDS = 3, 9, 8
# Of a pair with more facts, those near in time alone.
_NEAR = 12


class Said(NamedTuple):
    """One clause.

    Args:
        words: its stems.
        fact: its ends and time, with the relation that the words mean; an empty one if unknown.
    """

    words: Words
    fact: Fact


class Guess(NamedTuple):
    """What unknown words mean.

    Args:
        relation: the relation.
        turned: whether the words name its object first.
        margin: by how much, as a natural logarithm, it is likelier than the second best.
        said: how many clauses say these words.
        company: how many facts of the same pairs spoke for or against it.
    """

    relation: str
    turned: bool
    margin: float
    said: int
    company: int


@dataclass
class Company:
    """What was found about unknown words.

    Args:
        guesses: by words.
        margin: how much likelier than the rest a meaning had to be; None where nothing could be
            learned about that.
        right: of held-out words that were given a meaning at this margin, the fraction of clauses
            for which it was right.
        unknown: how many clauses have words that were said often enough, and are unknown.
        odds: of unknown words with company, for each relation that they may mean, and whether they
            name its object first, how much likelier that makes their company than no relation
            does: a natural logarithm.
    """

    guesses: dict[Words, Guess] = field(default_factory=dict)
    margin: float | None = None
    right: float = 0.0
    unknown: int = 0
    odds: dict[Words, dict[tuple[str, bool], float]] = field(default_factory=dict)


def understand(said: Iterable[Said], kinds: EntityKinds) -> Company:
    """Give unknown words a meaning, where their company says enough.

    Args:
        said: all clauses with two names, known words and unknown ones; known facts without words
            have none.
        kinds: which entities can be subject and object of a relation.
    """
    profiles = _Profiles(said, kinds)
    unknown = np.flatnonzero(profiles.meaning < 0)
    found = Company(unknown=int(profiles.size[unknown].sum()))
    if not len(unknown) or not profiles.relations:
        return found
    found.margin, found.right = _margin(profiles)
    meaning = profiles.meaning
    if found.margin is not None:
        guesses = _settle(profiles, meaning, unknown, found.margin)
        found.guesses = {profiles.words[n]: guess for n, guess in guesses.items()}
    for one in _compared(profiles, meaning, meaning, unknown, None):
        found.odds[profiles.words[one.unit]] = {
            (profiles.relations[relation], turned): likely - one.none
            for (relation, turned), likely in one.choices.items()
        }
    return found


class _Profiles:
    """Units (words, or known facts without words), and how often each stands beside each other.

    Attributes:
        words: of each unit; of facts without words, none.
        meaning: of each unit, the number of its relation; -1 where it is unknown.
        size: how many different clauses each has.
        beside: rows of (unit, other unit, cell): one for each clause of the unit whose pair has a
            fact of the other unit in this cell.
        fits: for each unit and relation, whether its ends are of the relation's kinds: [unit, 2,
            relation], the second as it stands and turned around.
    """

    def __init__(self, said: Iterable[Said], kinds: EntityKinds) -> None:
        clauses = list(dict.fromkeys(said))
        self.relations = sorted({one.fact.relation for one in clauses if one.fact.relation})
        number = {name: n for n, name in enumerate(self.relations)}
        known: dict[int, set[Words]] = {}
        for words, fact in clauses:
            if fact.relation and words:
                known.setdefault(number[fact.relation], set()).add(words)
        # Facts without words, and words of relations that are said in few, are dealt out to as many
        # units as there are folds: what is held out is never all of a relation. By chance, else
        # facts of the same two would be held out together.
        rng = np.random.default_rng(0)
        members: dict[tuple[Words, int], list[Fact]] = {}
        for words, fact in clauses:
            meaning = number.get(fact.relation, -1)
            if meaning >= 0 and (not words or len(known[meaning]) < _FOLDS):
                words = (*words, f"#{rng.integers(_FOLDS)}")
            members.setdefault((words, meaning), []).append(fact)
        often = {k: v for k, v in members.items() if k[1] >= 0 or len(v) >= LEAST_SAID}
        self.words = [words for words, _ in often]
        self.meaning = np.array([meaning for _, meaning in often], dtype=np.int64)
        self.size = np.array([len(one) for one in often.values()], dtype=np.int64)
        self.facts = list(often.values())
        self.beside = self._beside()
        self.fits = np.zeros((len(often), 2, len(self.relations)), dtype=bool)
        for unit, facts in enumerate(self.facts):
            for relation, name in enumerate(self.relations):
                self.fits[unit, :, relation] = _fitting(facts, name, kinds)

    def _beside(self) -> Longs:
        pairs: dict[tuple[str, str], list[tuple[int, int, bool]]] = {}
        for unit, facts in enumerate(self.facts):
            for fact in facts:
                ends = (fact.subject, fact.object)
                key = min(ends, ends[::-1])
                pairs.setdefault(key, []).append((fact.timestamp or 0, unit, key == ends))
        lags = [
            abs(one[0] - other[0])
            for own in pairs.values()
            for one, other in pairwise(own)
            if one[0] != other[0]
        ]
        far = float(np.median(lags)) if lags else 0.0
        rows: list[tuple[int, int, int]] = []
        for own in pairs.values():
            own.sort()
            for here, (time, unit, way) in enumerate(own):
                start = max(0, here - _NEAR)
                cells = {
                    (unit, other, _cell(at - time, far, way == same))
                    for there, (at, other, same) in enumerate(own[start : here + _NEAR], start)
                    if there != here
                }
                rows += sorted(cells)
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def table(self, meaning: Longs) -> Doubles:
        """How often each unit stands beside facts of each relation: [unit, relation, cell]."""
        shape = len(self.words), len(self.relations), _CELLS
        unit, other, cell = self.beside.T
        known = meaning[other] >= 0
        place = (unit[known] * shape[1] + meaning[other[known]]) * _CELLS + cell[known]
        return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


_CELLS = 10


def _cell(lag: int, far: float, same: bool) -> int:
    """A cell of a profile: one of five lags, from long before to long after, and two ways."""
    step = int(np.sign(lag)) * (2 if abs(lag) > far else 1)
    return step + 2 + (0 if same else 5)


_TURN = np.array([5, 6, 7, 8, 9, 0, 1, 2, 3, 4])
"""The cells of a profile whose ends change places."""


def _fitting(facts: Sequence[Fact], relation: str, kinds: EntityKinds) -> tuple[bool, bool]:
    plain = turned = 0.0
    facts = facts[:_EXAMPLES]
    for fact in facts:
        a, b = fact.subject, fact.object
        plain += kinds.fits(a, relation, "subject") * kinds.fits(b, relation, "object") > 0
        turned += kinds.fits(b, relation, "subject") * kinds.fits(a, relation, "object") > 0
    least = _FITTING * len(facts)
    return plain >= least, turned >= least


def _settle(
    profiles: _Profiles,
    known: Longs,
    units: Longs,
    margin: float,
    hidden: Longs | None = None,
) -> dict[int, Guess]:
    """Give units a meaning; these keep company with the others in turn, until nothing changes.

    Args:
        profiles: all units.
        known: the meaning of each unit; -1 for unknown.
        units: the unknown ones that are given a meaning.
        margin: the least.
        hidden: relations that are no choice.
    """
    meaning, found = known, dict[int, Guess]()
    for _ in range(_ROUNDS):
        found = dict(_guesses(profiles, known, meaning, units, margin, hidden))
        new = known.copy()
        for unit, guess in found.items():
            if not guess.turned:  # those stand beside others the other way round
                new[unit] = profiles.relations.index(guess.relation)
        if (new == meaning).all():
            break
        meaning = new
    return found


class _Compared(NamedTuple):
    """How likely the company of a unit is, for each relation that it may mean, and for none."""

    unit: int
    company: int
    choices: dict[tuple[int, bool], float]
    none: float


def _guesses(
    profiles: _Profiles,
    known: Longs,
    meaning: Longs,
    units: Longs,
    margin: float,
    hidden: Longs | None,
) -> Iterator[tuple[int, Guess]]:
    for one in _compared(profiles, known, meaning, units, hidden):
        scores = [(likely + _LEAN[way], r, way) for (r, way), likely in one.choices.items()]
        scores.append((one.none + _NONE, -1, False))
        scores.sort(reverse=True)
        (best, relation, turned), second = scores[0], scores[1][0]
        if relation >= 0 and best - second >= margin:
            size = int(profiles.size[one.unit])
            name = profiles.relations[relation]
            yield one.unit, Guess(name, turned, best - second, size, one.company)


def _compared(
    profiles: _Profiles, known: Longs, meaning: Longs, units: Longs, hidden: Longs | None
) -> Iterator[_Compared]:
    table = profiles.table(meaning)
    size = len(profiles.relations)
    given = known >= 0
    counts = np.zeros((size, size, _CELLS))
    np.add.at(counts, known[given], table[given])
    totals = np.bincount(known[given], weights=profiles.size[given], minlength=size)
    open_ = np.ones(size, dtype=bool)
    if hidden is not None:
        open_[hidden] = False
    open_ &= totals > 0
    for unit in units.tolist():
        n = int(profiles.size[unit])
        own = table[unit]
        company = int(own.sum())
        if company < _LEAST_COMPANY:
            continue
        choices = [
            (int(relation), turned)
            for turned in (False, True)
            for relation in np.flatnonzero(profiles.fits[unit, int(turned)] & open_)
        ]
        if not choices:
            continue
        chosen = [r for r, _ in choices]
        # Of words that name the object first, the company stands the other way round.
        rows = np.stack([counts[r][:, _TURN] if turned else counts[r] for r, turned in choices])
        rows = np.minimum(rows.reshape(len(choices), -1), totals[chosen, None])
        c = np.minimum(own.ravel(), n)
        seen = np.flatnonzero(rows.sum(0) + c)
        rows, c = rows[:, seen], c[seen]
        average = (rows.sum(0) + 0.5) / (totals[chosen].sum() + 1)
        hits = rows + _PRIOR * average
        misses = totals[chosen, None] - rows + _PRIOR * (1 - average)
        likely = _log(c, n, hits, misses)
        none = _log(c, n, _PRIOR_NONE * average, _PRIOR_NONE * (1 - average))
        yield _Compared(
            unit, company, dict(zip(choices, likely.tolist(), strict=True)), float(none)
        )


def _log(counts: Doubles, n: int, hits: Doubles, misses: Doubles) -> Doubles:
    """The log-likelihood of counts among ``n`` clauses, each cell with a beta prior."""
    # Imported here: it takes half a second, and most of what reads texts needs none of it.
    from scipy.special import betaln

    found: Doubles = betaln(counts + hits, n - counts + misses) - betaln(hits, misses)
    return np.asarray(found.sum(-1))


def _margin(profiles: _Profiles) -> tuple[float | None, float]:
    """The least margin that is right on known words held out, and how often it is.

    A third of the words of every relation is held out at a time, and with it all that is known of
    some relations: words of these mean nothing that could be chosen, as new words may. They count
    as if they were half of all clauses.
    """
    known = np.flatnonzero((profiles.meaning >= 0) & (profiles.size >= LEAST_SAID))
    fold = np.full(len(profiles.words), -1)
    dealt = [0] * len(profiles.relations)
    for unit in known.tolist():
        relation = int(profiles.meaning[unit])
        fold[unit] = dealt[relation] % _FOLDS
        dealt[relation] += 1
    for margin in _MARGINS:
        # Clauses of relations that are a choice, and of others: all, with a meaning, a right one.
        counts = np.zeros((2, 3))
        for group in range(_GROUPS):
            hidden = np.arange(group, len(profiles.relations), _GROUPS)
            held = fold == group % _FOLDS
            gone = np.isin(profiles.meaning, hidden)
            meaning = np.where(held | gone, -1, profiles.meaning)
            guesses = _settle(profiles, meaning, np.flatnonzero(held), margin, hidden)
            for unit in np.flatnonzero(held).tolist():
                size, guess = profiles.size[unit], guesses.get(unit)
                true = profiles.relations[profiles.meaning[unit]]
                right = guess is not None and guess.relation == true and not guess.turned
                counts[int(gone[unit])] += size, size * (guess is not None), size * right
        weight = counts[0, 0] / counts[1, 0] if counts[1, 0] else 0.0
        given, right = counts[0, 1] + weight * counts[1, 1], counts[0, 2]
        # As if one more, wrong one, were among them: of a few nothing is known.
        if given and right >= _RIGHT * (given + profiles.size[known].mean() / 2):
            return margin, float(right / given)
    return None, 0.0
