"""Reading episodes: a question, rules and documents of which the first that fires is the answer.

Right by construction: every document states one invented fact, and it is known of each whether a
rule fires on it. The expected completion cites the first document that fires, as the symbolic
reader does when it weighs documents by their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, GenerationRequest, Query
from training.shipped.reader.names import NameSource, Random


@dataclass(frozen=True, slots=True)
class Stage:
    """How hard episodes are.

    Args:
        documents: fewest and most.
        rules: fewest and most; without rules the asked relation itself is read.
        firing: the chance of each document after the first firing one to fire as well.
        near: how much episodes look like what a retriever finds: the chance of a document that
            does not fire to be about the question's subject, and of names and relations to share
            their words.
    """

    documents: tuple[int, int]
    rules: tuple[int, int]
    firing: float = 0.3
    near: float = 0.0


@dataclass(frozen=True, slots=True)
class Episode:
    """A request and what is right.

    Args:
        request: what the reader reads.
        answer: in words.
        fact: the question's subject and the relation of the first firing document, in words.
        inverse: whether the answer stands first in that document.
        fires: for each document whether a rule fires on it.
        signs: for each document whether the question's subject stands first, whether it stands
            last, and whether a rule follows its relation forwards, and backwards.
    """

    request: GenerationRequest
    answer: str
    fact: tuple[str, str]
    inverse: bool
    fires: tuple[bool, ...]
    signs: tuple[tuple[bool, bool, bool, bool], ...]


def make_episode(rng: Random, names: NameSource, stage: Stage) -> Episode:
    """Draw an episode.

    Args:
        rng: decides everything.
        names: of entities and relations.
        stage: how hard.
    """
    num_documents, num_rules = rng.randint(*stage.documents), rng.randint(*stage.rules)
    near = stage.near
    entities = names.entities(rng, num_documents + 3, near)
    relations = names.relations(rng, num_rules + 1 + rng.randint(1, 3), near)
    asked, subject = relations[0], entities[0]
    bodies = _bodies(rng, relations, num_rules)
    followed = bodies or [(asked, False)]
    first = min(rng.randrange(num_documents), rng.randrange(num_documents))
    facts: list[Fact] = []
    for place in range(num_documents):
        wanted = place == first or (place > first and rng.random() < stage.firing)
        while True:
            if wanted:
                fact = _firing(rng, subject, entities, followed)
            else:
                fact = _silent(rng, subject, entities, relations, followed, near)
            if fact not in facts and _fires(fact, subject, followed) == wanted:
                break
            wanted = wanted and (place == first or rng.random() < 0.9)
        facts.append(fact)
    documents = tuple(
        Document(f"d{n}", f"{f.subject} {f.relation} {f.object}.", (f,))
        for n, f in enumerate(facts, start=1)
    )
    head = Atom(asked, "?x", "?y")
    rules = tuple(
        Rule(head, (Atom(r, "?y", "?x") if inverse else Atom(r, "?x", "?y"),))
        for r, inverse in bodies
    )
    query = Query("q", f"what does {subject} {asked} ?", subject, asked, prediction=True)
    best = facts[first]
    inverse = best.subject != subject or (best.relation, False) not in followed
    return Episode(
        GenerationRequest(query, documents, rules),
        best.subject if inverse else best.object,
        (subject, best.relation),
        inverse,
        tuple(_fires(f, subject, followed) for f in facts),
        tuple(
            (
                f.subject == subject,
                f.object == subject,
                (f.relation, False) in followed,
                (f.relation, True) in followed,
            )
            for f in facts
        ),
    )


Body = tuple[str, bool]


def _bodies(rng: Random, relations: list[str], number: int) -> list[Body]:
    """Different one-atom bodies: relation, and whether it is followed backwards."""
    chosen: list[Body] = []
    pool = rng.sample(
        relations[:-1], min(len(relations) - 1, max(1, rng.randint(number // 2, number)))
    )
    while len(chosen) < number:
        body = (rng.choice(pool), rng.random() < 0.4)
        if body not in chosen:
            chosen.append(body)
        elif len(chosen) >= 2 * len(pool) - 1:
            pool = relations[:-1]
    return chosen


def _firing(rng: Random, subject: str, entities: list[str], followed: list[Body]) -> Fact:
    relation, inverse = rng.choice(followed)
    other = rng.choice(entities[1:])
    return Fact(other, relation, subject) if inverse else Fact(subject, relation, other)


def _silent(
    rng: Random,
    subject: str,
    entities: list[str],
    relations: list[str],
    followed: list[Body],
    near: float,
) -> Fact:
    """A document that misses by its subject, its relation, its direction, or all."""
    other, third = rng.sample(entities[1:], 2)
    relation = rng.choice(followed)[0] if rng.random() < 0.5 else rng.choice(relations)
    ends = rng.choice(((subject, other), (other, subject), (other, third)))
    if near and rng.random() < near:
        relation = rng.choice(relations)
        ends = rng.choice(((subject, other), (subject, other), (other, subject)))
    return Fact(ends[0], relation, ends[1])


def _fires(fact: Fact, subject: str, followed: list[Body]) -> bool:
    return (fact.subject == subject and (fact.relation, False) in followed) or (
        fact.object == subject and (fact.relation, True) in followed
    )
