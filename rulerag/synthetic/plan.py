"""How many facts, entities and queries of each part a generated world holds, before any is drawn.

Every count is a whole number fixed here, so a planted confidence is met by construction (up to
half a fact) and not by luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rulerag.synthetic.schema import SCHEMAS, RuleGroup, Schema

# Confidences of a group's rules, best first: one row for each group.
_CONFIDENCES = (
    (0.85, 0.6, 0.4),
    (0.8, 0.65, 0.45),
    (0.85, 0.55, 0.4),
    (0.8, 0.6, 0.5),
    (0.75, 0.6, 0.45),
)
_FEW_CONFIDENCES = (0.85, 0.5)  # a small world has one group of two rules
_CHAIN_CONFIDENCE = 0.7
_CHAIN_HEADS = 110  # AMIE looks at head relations of 100 facts or more only
_ECHO_CONFIDENCE = 0.4
# With 64 blocks the weakest rule (0.4) holds 25 times, above the usual least support of 20.
_FULL_BLOCKS = 64
# A static rule's reverse would hold too if every head fact came from a clue. Head facts without a
# clue keep the reverse below this confidence. Dated worlds need none: a head comes after its clue.
_REVERSE_CONFIDENCE = 0.2
_STRUCTURED_SHARE = 0.75  # the rest of the facts are distractors


@dataclass(frozen=True)
class GroupPlan:
    """The counts of one group of rules.

    A *block* is one known subject with one fact of every clue, each about an object of its own.
    An *asked* subject has its head fact in validation or test.

    Args:
        group: the relations.
        confidences: the confidences, best first; clue ``i`` here is the one with confidence ``i``.
        blocks: how many blocks.
        dated: whether the world is dated.
    """

    group: RuleGroup
    confidences: tuple[float, ...]
    blocks: int
    dated: bool

    @property
    def num_clues(self) -> int:
        """How many of the group's clues are used."""
        return len(self.confidences)

    @cached_property
    def fillers(self) -> int:
        """Head facts without a clue, for each block."""
        if self.dated:
            return 1
        needed = self.confidences[0] / _REVERSE_CONFIDENCE - sum(self.confidences)
        return max(1, int(-(-needed // 1)))

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """Asked subjects whose answer follows from clue i.

        The most confident rule has little room for body facts whose head is held out.
        """
        shares = (0.13, *(0.2 for _ in self.confidences[1:]))
        return tuple(max(1, round(share * self.blocks)) for share in shares)

    def conflicts(self, clue: int) -> int:
        """Asked subjects of a clue for whom the next, weaker clue points to a wrong object."""
        return round(0.25 * self.asked[clue]) if clue + 1 < self.num_clues else 0

    def agreements(self, clue: int) -> int:
        """Asked subjects of a clue for whom the next, weaker clue points to the answer too."""
        return round(0.15 * self.asked[clue]) if clue + 1 < self.num_clues else 0

    @cached_property
    def tails(self) -> int:
        """Asked subjects whose answer follows from no clue."""
        return max(1, round(0.25 * sum(self.asked)))

    @property
    def misled(self) -> int:
        """Those of the tails for whom the weakest clue points to a wrong object."""
        return self.tails // 2

    @property
    def num_asked(self) -> int:
        """All asked subjects."""
        return sum(self.asked) + self.tails

    def body_size(self, clue: int) -> int:
        """Training facts of a clue."""
        size = self.blocks + self.asked[clue]
        if clue:
            size += self.conflicts(clue - 1) + self.agreements(clue - 1)
        return size + (self.misled if clue == self.num_clues - 1 else 0)

    def support(self, clue: int) -> int:
        """Blocks in which the clue's head fact is there too.

        A dated rule answers for every body fact, a static one (PCA) for those whose subject has
        some head fact in training, which are the blocks.
        """
        size = self.body_size(clue) if self.dated else self.blocks
        return min(self.blocks, round(self.confidences[clue] * size))

    @cached_property
    def train_heads(self) -> int:
        """Training facts of the head relation."""
        matched = sum(self.support(clue) for clue in range(self.num_clues))
        return matched + self.fillers * self.blocks + (self.num_asked if self.dated else 0)

    @property
    def num_facts(self) -> int:
        """Facts of all splits."""
        bodies = sum(self.body_size(clue) for clue in range(self.num_clues))
        return bodies + self.train_heads + self.num_asked

    @property
    def num_objects(self) -> int:
        """How many entities serve as objects.

        Fewer than the subjects, so that the subject is the functional end (the one that PCA
        confidence looks at), and room for every block's objects to differ.
        """
        return max(self.num_clues + self.fillers + 3, int(0.35 * self.blocks))


@dataclass(frozen=True)
class ChainPlan:
    """The counts of the two-atom rule: known and asked subjects, middle entities."""

    blocks: int
    dated: bool
    confidence: float = _CHAIN_CONFIDENCE

    @property
    def num_asked(self) -> int:
        """Subjects whose head fact is held out."""
        return max(1, round(0.15 * self.blocks))

    @property
    def num_middles(self) -> int:
        """Middle entities, each with one fact of the second relation."""
        return max(4, self.blocks // 4)

    @property
    def support(self) -> int:
        """Known subjects whose head fact is what the rule predicts."""
        size = self.blocks + (self.num_asked if self.dated else 0)
        return min(self.blocks, round(self.confidence * size))

    @property
    def num_facts(self) -> int:
        """Facts of all splits: both body relations, one head fact for every subject."""
        return 2 * (self.blocks + self.num_asked) + self.num_middles


@dataclass(frozen=True)
class EchoPlan:
    """The counts of the relation that follows itself: pairs that meet twice, once, or are asked."""

    blocks: int
    confidence: float = _ECHO_CONFIDENCE

    @property
    def num_asked(self) -> int:
        """Pairs that meet once in training and again in validation or test."""
        return max(1, round(0.12 * self.blocks))

    @property
    def doubles(self) -> int:
        """Pairs that meet twice in training; the support."""
        return round(self.confidence * self.blocks)

    @property
    def singles(self) -> int:
        """Pairs that meet once and never again."""
        return max(0, self.blocks - 2 * self.doubles - self.num_asked)

    @property
    def body_size(self) -> int:
        """Training facts."""
        return self.singles + 2 * self.doubles + self.num_asked

    @property
    def num_facts(self) -> int:
        """Facts of all splits."""
        return self.body_size + self.num_asked


@dataclass(frozen=True)
class WorldPlan:
    """The counts of a whole world.

    Args:
        schema: the relations.
        num_facts: facts of all splits.
        blocks: the size of every part.
        groups: the groups of one-atom rules.
        chain: the two-atom rule, where the world is large enough.
        echo: the rule from a relation to itself, where the world is dated and large enough.
    """

    schema: Schema
    num_facts: int
    blocks: int
    groups: tuple[GroupPlan, ...]
    chain: ChainPlan | None
    echo: EchoPlan | None

    @property
    def dated(self) -> bool:
        """Whether the facts carry times."""
        return self.groups[0].dated

    @cached_property
    def _structured(self) -> int:
        parts = [*self.groups, *(p for p in (self.chain, self.echo) if p is not None)]
        return sum(part.num_facts for part in parts)

    @cached_property
    def pools(self) -> dict[str, int]:
        """How many entities of each kind may be drawn; those in no fact are left out later."""
        many = 3 * self.blocks + 12
        few = max(30, self.blocks // 2, *(group.num_objects for group in self.groups))
        return {
            "person": many,
            "organisation": many,
            "work": many,
            "city": few,
            "country": max(4, self.blocks // 16),
        }

    @classmethod
    def solve(cls, num_facts: int, kind: str, max_body_atoms: int) -> WorldPlan:
        """The richest plan whose rules are all well supported, as large as the size allows."""
        richest = len(SCHEMAS[kind].groups)
        for groups in range(richest, 0, -1):
            plan = cls._fit(num_facts, kind, max_body_atoms, _CONFIDENCES[:groups])
            if plan.blocks >= _FULL_BLOCKS:
                return plan
        return cls._fit(num_facts, kind, max_body_atoms, (_FEW_CONFIDENCES,))

    @classmethod
    def _fit(
        cls,
        num_facts: int,
        kind: str,
        max_body_atoms: int,
        confidences: tuple[tuple[float, ...], ...],
    ) -> WorldPlan:
        """The plan with a group for each row of confidences and the most blocks that fit."""
        schema, dated = SCHEMAS[kind], kind == "temporal"
        # Both extra parts come before the third group: a world should show every rule shape.
        extras = len(confidences) >= 2

        def plan(blocks: int) -> WorldPlan:
            groups = zip(schema.groups, confidences, strict=False)
            return cls(
                schema,
                num_facts,
                blocks,
                tuple(GroupPlan(group, own, blocks, dated) for group, own in groups),
                ChainPlan(max(blocks, _CHAIN_HEADS), dated)
                if extras and max_body_atoms > 1
                else None,
                EchoPlan(blocks) if extras and schema.echo else None,
            )

        room = _STRUCTURED_SHARE * num_facts
        low, high = 1, max(2, num_facts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if plan(middle)._structured <= room else (low, middle)
        return plan(low)
