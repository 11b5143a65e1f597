"""What may be asked of an entity: the ends of relations at which entities like it stand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rulerag.linking.direction import INVERSE
from rulerag.types import Fact


class Roles:
    """How usual it is for an entity to stand at an end of a relation.

    A role is an end of a relation: ``r`` for its subjects, ``^r`` for its objects. Who has one role
    often has certain others (films have directors and genres, genres are of many films), so that
    what an entity is known for says what else can be asked about it.

    Args:
        facts: of the graph; repeated ones count once.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        from scipy.sparse import csr_array

        pairs = {
            one
            for fact in facts
            for one in ((fact.subject, fact.relation), (fact.object, INVERSE + fact.relation))
        }
        self._of: dict[str, list[int]] = {}
        self._roles = sorted({role for _, role in pairs})
        names = {role: n for n, role in enumerate(self._roles)}
        for entity, role in sorted(pairs):
            self._of.setdefault(entity, []).append(names[role])
        starts = np.cumsum([0, *map(len, self._of.values())])
        columns = np.array([role for roles in self._of.values() for role in roles], dtype=np.int64)
        shape = (len(self._of), len(names))
        held = csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        together = (held.T @ held).tocsr()
        self._counts = together.diagonal()
        self._share = together.multiply(1.0 / (1.0 + self._counts[:, None])).tocsr()

    def fits(self, entity: str) -> tuple[dict[str, float], float]:
        """For each role, the largest share of entities with some role of this one that have both.

        Args:
            entity: a raw name.

        Returns:
            By role 1 where a fact says so and the share where others have both; and the share of
            all other roles, which is what may be among entities that nobody has seen: small where
            a role of this entity has been seen often (Laplace's rule).
        """
        mine = self._of.get(entity)
        if mine is None:
            return {}, 1.0
        best = self._share[mine].max(axis=0).tocoo()
        columns = best.coords[-1].tolist()
        found = {self._roles[n]: float(x) for n, x in zip(columns, best.data, strict=True)}
        rest = 1.0 / (2.0 + float(self._counts[mine].max()))
        return found | {self._roles[n]: 1.0 for n in mine}, rest
