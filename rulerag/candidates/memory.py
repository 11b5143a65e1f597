"""A scorer that remembers its last questions: a retriever and a reader ask the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.protocols import CandidateScorer, ScoredCandidates
from rulerag.types import Query

_MOST = 2048


class RememberedScorer:
    """What a scorer found for the last some two thousand questions.

    Args:
        scorer: the scorer.
    """

    def __init__(self, scorer: CandidateScorer) -> None:
        self.scorer: CandidateScorer = scorer
        self._known: dict[tuple[object, ...], ScoredCandidates] = {}

    @property
    def fingerprint(self) -> str:
        """That of the scorer."""
        return self.scorer.fingerprint

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.scorer.names

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, its candidates, best first."""
        keys = [_key(query) for query in queries]
        missing = {
            key: query for key, query in zip(keys, queries, strict=True) if key not in self._known
        }
        scored = self.scorer.score(list(missing.values())) if missing else []
        fresh = dict(zip(missing, scored, strict=True))
        found = [fresh[key] if key in fresh else self._known[key] for key in keys]
        if len(self._known) + len(fresh) > _MOST:
            self._known.clear()
        self._known.update(list(fresh.items())[-_MOST:])
        return found


def _key(query: Query) -> tuple[object, ...]:
    """What scores may hang on: all but the id and the gold answers."""
    return query.text, query.subject, query.relation, query.timestamp, query.prediction
