"""What unknown words mean, by the company that they keep: who they join, and what else is said of these.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from rulerag.arrays import Doubles, Longs
from rulerag.extraction.slots import EntityKinds
from rulerag.types import Fact

Words = tuple[str, ...]

# Words said less often, or with less company, are left alone.
LEAST_SAID, _LEAST_COMPANY = 4, 3
# Pseudo-occurrences of the average profile: in that of a relation, and in that of no known one.
_PRIOR, _PRIOR_NONE = 3.0, 1.0
# How likely words are to name the object of their relation first, before any evidence.
_TURNED = 0.05
# The share of a pair's ends that must be of the kinds of a relation.
_FITTING = 0.7
# By how much, as a logarithm, a meaning must be likelier than any other, and than none: the least
# of these that is right often enough on words held out.
_MARGINS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 11.0)
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
        tested: clauses of held-out known words that were given a meaning at this margin.
        right: how many of these were right.
        unknown: how many clauses have words that were said often enough, and are unknown.
    """

    guesses: dict[Words, Guess] = field(default_factory=dict)
    margin: float | None = None
    tested: int = 0
    right: int = 0
    unknown: int = 0


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
    found.margin, found.tested, found.right = _margin(profiles)
    if found.margin is not None:
        guesses = _settle(profiles, profiles.meaning, unknown, found.margin)
        found.guesses = {profiles.words[n]: guess for n, guess in guesses.items()}
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
        # Known facts without words are dealt out to as many units as there are folds.
        dealt = [0] * len(self.relations)
        members: dict[tuple[Words, int], list[Fact]] = {}
        for words, fact in clauses:
            meaning = number.get(fact.relation, -1)
            if not words:
                words = (f"#{dealt[meaning] % _FOLDS}",)
                dealt[meaning] += 1
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
            for one, other in zip(own, own[1:], strict=False)
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
        found = np.zeros(shape)
        unit, other, cell = self.beside.T
        known = meaning[other] >= 0
        np.add.at(found, (unit[known], meaning[other][known], cell[known]), 1.0)
        return found


_CELLS = 10


def _cell(lag: int, far: float, same: bool) -> int:
    """A cell of a profile: five lags (long before, before, at once, after, long after), two ways."""
    step = int(np.sign(lag)) * (2 if abs(lag) > far else 1)
    return step + 2 + (0 if same else 5)


_TURN = np.array([5, 6, 7, 8, 9, 0, 1, 2, 3, 4])
"""The cells of a profile whose ends change places."""


def _fitting(facts: Sequence[Fact], relation: str, kinds: EntityKinds) -> tuple[bool, bool]:
    plain = turned = 0.0
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


def _guesses(
    profiles: _Profiles,
    known: Longs,
    meaning: Longs,
    units: Longs,
    margin: float,
    hidden: Longs | None,
) -> Iterator[tuple[int, Guess]]:
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
        scores: list[tuple[float, int, bool]] = []
        for turned in (False, True):
            fitting = np.flatnonzero(profiles.fits[unit, int(turned)] & open_)
            if not len(fitting):
                continue
            c = np.minimum(own[:, _TURN] if turned else own, n)
            every = counts[fitting].sum(0)
            seen = np.flatnonzero((every + c).ravel())
            c, every = c.ravel()[seen], every.ravel()[seen]
            average = (every + 0.5) / (totals[fitting].sum() + 1)
            lean = np.log(_TURNED if turned else 1 - _TURNED)
            for relation in fitting.tolist():
                hits = np.minimum(counts[relation].ravel()[seen], totals[relation])
                more = hits + _PRIOR * average, totals[relation] - hits + _PRIOR * (1 - average)
                scores.append((lean + _log(c, n, *more), relation, turned))
            if not turned:
                more = _PRIOR_NONE * average, _PRIOR_NONE * (1 - average)
                scores.append((_log(c, n, *more), -1, False))
        scores.sort(reverse=True)
        if len(scores) < 2 or scores[0][1] < 0:
            continue
        first, second = scores[0], scores[1]
        if first[0] - second[0] >= margin:
            name = profiles.relations[first[1]]
            yield unit, Guess(name, first[2], first[0] - second[0], n, company)


def _log(counts: Doubles, n: int, hits: Doubles, misses: Doubles) -> float:
    """The log-likelihood of counts among ``n`` clauses, each with a beta prior."""
    return float((betaln(counts + hits, n - counts + misses) - betaln(hits, misses)).sum())


def _margin(profiles: _Profiles) -> tuple[float | None, int, int]:
    """The least margin that is right on known words held out, and how often.

    A third of the words of every relation is held out at a time, and with it all that is known of
    some relations: words of these mean nothing that could be chosen, as new words may.
    """
    known = np.flatnonzero((profiles.meaning >= 0) & (profiles.size >= LEAST_SAID))
    fold = np.full(len(profiles.words), -1)
    dealt = [0] * len(profiles.relations)
    for unit in known.tolist():
        relation = int(profiles.meaning[unit])
        fold[unit] = dealt[relation] % _FOLDS
        dealt[relation] += 1
    for margin in _MARGINS:
        tested = right = 0
        for group in range(_GROUPS):
            hidden = np.arange(group, len(profiles.relations), _GROUPS)
            held = fold == group % _FOLDS
            units = np.flatnonzero(held)
            meaning = np.where(held | np.isin(profiles.meaning, hidden), -1, profiles.meaning)
            for unit, guess in _settle(profiles, meaning, units, margin, hidden).items():
                size = int(profiles.size[unit])
                true = profiles.relations[profiles.meaning[unit]]
                tested += size
                right += size * (guess.relation == true and not guess.turned)
        if tested and right >= _RIGHT * tested:
            return margin, tested, right
    return None, 0, 0
