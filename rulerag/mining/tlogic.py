"""Temporal rules by exact counts: what at one time leads to what at a later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.graph import FactTable
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, rule_text

__all__ = ["TLogicMiner"]

Longs = npt.NDArray[np.int64]
# Rows of the join that are held at once: 4 M rows of three int64 columns are about 100 MB.
_CHUNK_ROWS = 4_000_000


class TLogicMiner:
    """Mines cyclic temporal rules ``r1(x, y, t1) => r2(x, y, t2)`` with ``t1 < t2``.

    Every pair of relations is counted, in both directions of the body, over every fact, without
    sampling. ``support`` counts the distinct facts ``r1(x, y, t1)`` that some ``r2(x, y, t2)``
    with ``t2 > t1`` follows, ``body_size`` the distinct facts ``r1(x, y, t1)``, and
    ``confidence`` is their ratio. A relation may predict itself.

    Args:
        lengths: body lengths to mine, in atoms; bodies of one atom are mined today.
        min_confidence: least confidence, a fraction.
        min_support: least support, in facts.
        progress: show a progress bar.

    Raises:
        ConfigError: a threshold out of range, or a length that is not mined.

    References:
        Liu et al. 2022, TLogic (arXiv:2112.08025), section 3: rule support, body support and
        confidence. TLogic samples bodies; here they are counted.
    """

    def __init__(
        self,
        *,
        lengths: Sequence[int] = (1,),
        min_confidence: float = 0.01,
        min_support: int = 2,
        progress: bool = False,
    ) -> None:
        if not lengths or any(length != 1 for length in lengths):
            raise ConfigError(
                f"temporal bodies of length {list(lengths)} are not mined",
                key="lengths",
                hint="use lengths=(1,)",
            )
        if not 0.0 <= min_confidence <= 1.0:
            raise ConfigError(
                f"{min_confidence} is not between 0 and 1", key="min_confidence", hint="say 0.01"
            )
        if min_support < 1:
            raise ConfigError(f"{min_support} is below 1", key="min_support", hint="say 2")
        self.lengths = tuple(lengths)
        self.min_confidence = min_confidence
        self.min_support = min_support
        self.progress = progress

    def mine(self, facts: FactTable) -> RuleBank:
        """Return every rule that passes the thresholds, sorted by head, then confidence.

        Raises:
            MiningError: the facts carry no timestamps.
        """
        if facts.timestamp is None:
            raise MiningError(
                f"{facts.name} has no timestamps, so no temporal rules",
                hint="mine static facts with AmieMiner (--miner amie)",
            )
        support, body = self._count(facts)
        n = len(facts.relations)
        confidence = support / np.maximum(body, 1)[:, None]
        keep = (support >= self.min_support) & (confidence >= self.min_confidence)
        rules = [
            self._rule(facts, int(b) % n, bool(b >= n), int(h), int(support[b, h]), int(body[b]))
            for b, h in np.argwhere(keep)
        ]
        rules.sort(key=lambda r: (r.head.relation, -r.ranking_confidence, r.text))
        return RuleBank(rules)

    def _count(self, facts: FactTable) -> tuple[Longs, Longs]:
        """Rule support of shape (2 R, R) and body support of shape (2 R,).

        Row ``b`` is body relation ``b`` (or the inverse of ``b - R``), column the head relation.
        """
        n = len(facts.relations)
        rows = np.unique(_columns(facts), axis=0)
        subject, relation, object_, time = rows.T
        entities = np.int64(len(facts.entities))
        pair = subject * entities + object_
        head_pair, head_relation, head_last = _last_times(pair, relation, time)
        body_pair = np.concatenate([pair, object_ * entities + subject])
        body_relation = np.concatenate([relation, relation + n])
        body_time = np.concatenate([time, time])
        start = np.searchsorted(head_pair, body_pair, side="left")
        count = np.searchsorted(head_pair, body_pair, side="right") - start
        support = np.zeros(2 * n * n, dtype=np.int64)
        chunks = list(_chunks(count))
        for rows_here in tqdm(chunks, "temporal rules", disable=not self.progress, unit="chunk"):
            body_row, head_row = _expand(start[rows_here], count[rows_here])
            body_row += rows_here.start
            later = head_last[head_row] > body_time[body_row]
            code = body_relation[body_row[later]] * n + head_relation[head_row[later]]
            support += np.bincount(code, minlength=support.size)
        body = np.bincount(body_relation, minlength=2 * n).astype(np.int64)
        return support.reshape(2 * n, n), body

    @staticmethod
    def _rule(
        facts: FactTable, body: int, inverse: bool, head: int, support: int, size: int
    ) -> Rule:
        names = facts.relations.names
        ends = ("?y", "?x") if inverse else ("?x", "?y")
        rule = Rule(
            head=Atom(names[head], "?x", "?y"),
            body=(Atom(names[body], *ends),),
            temporal=True,
            quality=RuleQuality(support=support, body_size=size, confidence=support / size),
            miner="tlogic",
        )
        text = rule_text(rule, facts.relations.label)
        return Rule(rule.head, rule.body, True, rule.quality, text, rule.miner)


def _columns(facts: FactTable) -> Longs:
    if facts.timestamp is None:
        raise MiningError(f"{facts.name} has no timestamps")
    columns = (facts.subject, facts.relation, facts.object, facts.timestamp)
    return np.stack([c.astype(np.int64) for c in columns], axis=1)


def _last_times(pair: Longs, relation: Longs, time: Longs) -> tuple[Longs, Longs, Longs]:
    """The last time of every (pair, relation), sorted by pair: three columns of equal length."""
    order = np.lexsort((time, relation, pair))
    pair, relation, time = pair[order], relation[order], time[order]
    last = np.ones(len(pair), dtype=bool)
    last[:-1] = (pair[1:] != pair[:-1]) | (relation[1:] != relation[:-1])
    return pair[last], relation[last], time[last]


def _chunks(count: Longs) -> Iterator[slice]:
    """Slices of the body rows whose joins stay under the chunk size."""
    total = np.cumsum(count)
    begin = 0
    while begin < len(count):
        done = total[begin - 1] if begin else 0
        end = max(int(np.searchsorted(total, done + _CHUNK_ROWS, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _expand(start: Longs, count: Longs) -> tuple[Longs, Longs]:
    """Row numbers on both sides of a join: left row i meets right rows start[i] + 0…count[i]-1."""
    left = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    offset = np.arange(int(count.sum())) - np.repeat(first, count)
    return left, np.repeat(start, count) + offset
