"""What generated worlds are about: the relations of each kind of world, and how rules join them.

Within one kind of world no two groups share a pair of entity kinds for their head, and every
relation belongs to one part, so a rule between relations of different parts cannot be meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from rulerag.kg import Calendar

WORLD_CALENDAR = Calendar(unit="day", origin="2020-01-01")


@dataclass(frozen=True)
class Clue:
    """A relation that a rule has in its body.

    Args:
        relation: its raw name.
        inverse: whether it holds from the head's object to the head's subject.
    """

    relation: str
    inverse: bool = False


@dataclass(frozen=True)
class RuleGroup:
    """Several rules of one body atom for one head relation.

    Args:
        head: the head relation.
        subject: the entity kind of its subjects.
        object: the entity kind of its objects.
        clues: the body relations; a seed deals the confidences out to them.
    """

    head: str
    subject: str
    object: str
    clues: tuple[Clue, ...]


@dataclass(frozen=True)
class Chain:
    """One rule of two body atoms, ``first(x, z), second(z, y) => head(x, y)``.

    Args:
        head: the head relation.
        first: the relation from the subject to the middle entity.
        second: the relation from the middle entity to the object.
        kinds: the entity kinds of x, z and y.
    """

    head: str
    first: str
    second: str
    kinds: tuple[str, str, str]


@dataclass(frozen=True)
class Distractor:
    """A relation without any rule, between entities that rules speak of too."""

    relation: str
    subject: str
    object: str


@dataclass(frozen=True)
class Schema:
    """Everything a kind of world can hold.

    Args:
        groups: the groups of one-atom rules, the first ones first in small worlds.
        chain: the two-atom rule.
        echo: a relation between people that follows itself on a later day; dated worlds only.
        distractors: relations without rules.
    """

    groups: tuple[RuleGroup, ...]
    chain: Chain
    echo: str | None
    distractors: tuple[Distractor, ...]


def _group(head: str, clues: str) -> RuleGroup:
    """A group from a head, ``subject relation object``, and clues, inverse ones with a ``~``."""
    subject, relation, object_ = head.split()
    names = clues.split()
    relations = tuple(Clue(name.removeprefix("~"), name.startswith("~")) for name in names)
    return RuleGroup(relation, subject, object_, relations)


def _distractors(*facts: str) -> tuple[Distractor, ...]:
    """Distractors, each from ``subject relation object``."""
    return tuple(Distractor(r, s, o) for s, r, o in map(str.split, facts))


_STATIC = Schema(
    groups=(
        _group("person has_lived_in city", "went_to_school_in owns_a_house_in is_a_local_hero_of"),
        _group(
            "person is_affiliated_with organisation", "gives_lectures_at ~pays_a_salary_to advises"
        ),
        _group("person holds_the_rights_to work", "wrote ~is_dedicated_to translated"),
        _group(
            "organisation cooperates_with organisation", "supplies owns_shares_of ~was_founded_by"
        ),
        _group("work is_performed_in city", "is_set_in was_finished_in ~bought_a_copy_of"),
    ),
    chain=Chain("is_a_citizen_of", "was_born_in", "is_located_in", ("person", "city", "country")),
    echo=None,
    distractors=_distractors(
        "person dreams_of city",
        "person plays_chess_with person",
        "person has_never_finished work",
        "person holds_an_account_with organisation",
        "organisation flies_the_flag_of city",
        "work mentions organisation",
    ),
)

_TEMPORAL = Schema(
    groups=(
        _group("person visits city", "books_a_trip_to sends_a_parcel_to ~invites"),
        _group("person joins organisation", "applies_to ~makes_an_offer_to praises"),
        _group("organisation sues organisation", "accuses ends_a_contract_with ~undercuts"),
        _group("person performs work", "rehearses buys_the_score_of ~is_offered_to"),
        _group("work is_shown_in city", "is_shipped_to is_advertised_in ~asks_for"),
    ),
    chain=Chain("moves_to", "signs_with", "opens_a_branch_in", ("person", "organisation", "city")),
    echo="meets",
    distractors=_distractors(
        "person writes_about city",
        "person congratulates person",
        "person reviews work",
        "person complains_about organisation",
        "organisation sponsors work",
        "organisation donates_to city",
    ),
)

SCHEMAS: dict[str, Schema] = {"static": _STATIC, "temporal": _TEMPORAL}
