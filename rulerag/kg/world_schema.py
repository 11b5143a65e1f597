"""What generated worlds are about: the relations of each kind of world, and how rules join them.

Within one kind of world no two groups share a pair of entity kinds for their head, and every
relation belongs to one part, so a rule between relations of different parts cannot be meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from rulerag.kg.calendar import Calendar

__all__ = ["SCHEMAS", "WORLD_CALENDAR", "Chain", "Clue", "Distractor", "RuleGroup", "Schema"]

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


_STATIC = Schema(
    groups=(
        RuleGroup(
            "has_lived_in",
            "person",
            "city",
            (Clue("went_to_school_in"), Clue("owns_a_house_in"), Clue("is_a_local_hero_of")),
        ),
        RuleGroup(
            "is_affiliated_with",
            "person",
            "organisation",
            (Clue("gives_lectures_at"), Clue("pays_a_salary_to", inverse=True), Clue("advises")),
        ),
        RuleGroup(
            "holds_the_rights_to",
            "person",
            "work",
            (Clue("wrote"), Clue("is_dedicated_to", inverse=True), Clue("translated")),
        ),
        RuleGroup(
            "cooperates_with",
            "organisation",
            "organisation",
            (Clue("supplies"), Clue("owns_shares_of"), Clue("was_founded_by", inverse=True)),
        ),
        RuleGroup(
            "is_performed_in",
            "work",
            "city",
            (Clue("is_set_in"), Clue("was_finished_in"), Clue("bought_a_copy_of", inverse=True)),
        ),
    ),
    chain=Chain("is_a_citizen_of", "was_born_in", "is_located_in", ("person", "city", "country")),
    echo=None,
    distractors=(
        Distractor("dreams_of", "person", "city"),
        Distractor("plays_chess_with", "person", "person"),
        Distractor("has_never_finished", "person", "work"),
        Distractor("holds_an_account_with", "person", "organisation"),
        Distractor("flies_the_flag_of", "organisation", "city"),
        Distractor("mentions", "work", "organisation"),
    ),
)

_TEMPORAL = Schema(
    groups=(
        RuleGroup(
            "visits",
            "person",
            "city",
            (Clue("books_a_trip_to"), Clue("sends_a_parcel_to"), Clue("invites", inverse=True)),
        ),
        RuleGroup(
            "joins",
            "person",
            "organisation",
            (Clue("applies_to"), Clue("makes_an_offer_to", inverse=True), Clue("praises")),
        ),
        RuleGroup(
            "sues",
            "organisation",
            "organisation",
            (Clue("accuses"), Clue("ends_a_contract_with"), Clue("undercuts", inverse=True)),
        ),
        RuleGroup(
            "performs",
            "person",
            "work",
            (Clue("rehearses"), Clue("buys_the_score_of"), Clue("is_offered_to", inverse=True)),
        ),
        RuleGroup(
            "is_shown_in",
            "work",
            "city",
            (Clue("is_shipped_to"), Clue("is_advertised_in"), Clue("asks_for", inverse=True)),
        ),
    ),
    chain=Chain(
        "moves_to",
        "signs_with",
        "opens_a_branch_in",
        ("person", "organisation", "city"),
    ),
    echo="meets",
    distractors=(
        Distractor("writes_about", "person", "city"),
        Distractor("congratulates", "person", "person"),
        Distractor("reviews", "person", "work"),
        Distractor("complains_about", "person", "organisation"),
        Distractor("sponsors", "organisation", "work"),
        Distractor("donates_to", "organisation", "city"),
    ),
)

SCHEMAS: dict[str, Schema] = {"static": _STATIC, "temporal": _TEMPORAL}
