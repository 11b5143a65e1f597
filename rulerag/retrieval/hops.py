"""Following a rule's body hop by hop: what one search finds is what the next asks about.

A chain such as ``born in(x, z), city of(z, y)`` cannot be searched at once: a text of its second
atom does not name the query's subject. So its atoms are searched in turn, each about entities that
an earlier one bound: *what does ann born in ?* finds Velm, *what does Velm city of ?* the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from rulerag.kg.grounding import body_order
from rulerag.retrieval.grounded import far_ends
from rulerag.retrieval.stated import leads_elsewhere
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Query

__all__ = ["Finder", "Step", "Texts", "Trail", "Words", "follow"]


class Step(NamedTuple):
    """One search of a trail: about one atom of the body and one entity.

    Args:
        hop: which hop, from 0.
        atom: the place of the atom in the body.
        variable: the term of the atom that the entity stands for.
        entity: what is asked about.
        weight: how much the entity is trusted: the product of the shares that led to it.
    """

    hop: int
    atom: int
    variable: str
    entity: str
    weight: float


@dataclass
class Trail:
    """One query under one rule, followed atom by atom.

    Args:
        query: the query.
        rule: a rule whose head's subject is the query's subject.
        bridges: how many entities of a hop the next one asks about.
        stated: answers that are not asked for; documents that lead to these alone are left out.

    Attributes:
        bound: for each variable what it may stand for, and the weights of these entities.
    """

    query: Query
    rule: Rule
    bridges: int
    stated: frozenset[str] = frozenset()
    bound: dict[str, dict[str, float]] = field(init=False)
    _order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.bound = {self.rule.head.subject: {self.query.subject: 1.0}}
        self._order = body_order(self.rule)

    def steps(self, hop: int) -> list[Step]:
        """The searches of a hop (from 0), one for each entity to ask about."""
        if hop >= len(self._order):
            return []
        place = self._order[hop]
        atom = self.rule.body[place]
        for end in (atom.subject, atom.object):
            if not end.startswith("?"):
                return [Step(hop, place, end, end, 1.0)]
            if end in self.bound:
                best = sorted(self.bound[end].items(), key=lambda item: -item[1])
                return [Step(hop, place, end, *item) for item in best[: self.bridges]]
        return []

    def asked(self, step: Step, words: tuple[str, str]) -> tuple[Query, Rule]:
        """The query and the one-atom rule whose composition asks about a step.

        Args:
            step: the step.
            words: the query's subject and the step's entity, as texts have them.
        """
        atom = self.rule.body[step.atom]
        ends = ("?x", "?y") if atom.subject == step.variable else ("?y", "?x")
        rule = Rule(
            Atom(self.rule.head.relation, "?x", "?y"),
            (Atom(atom.relation, *ends),),
            temporal=self.rule.temporal,
        )
        text = self.query.text
        if step.entity != self.query.subject:
            text = _renamed(text, *words)
        number = f"{self.query.id}|{self.rule.id}|{step.atom}"
        return replace(self.query, id=number, text=text, subject=step.entity), rule

    def follows(self, step: Step, document: Document) -> bool:
        """Whether a document may be kept of a step: from the second hop on it grounds the atom.

        What a first hop finds is kept as that of any rule. A later one asks about an entity that
        may be of no use, and its best documents may be about something else.
        """
        if self.stated and not leads_elsewhere(
            document, self.rule, step.atom, self._known(step), self.stated
        ):
            return False
        return step.hop == 0 or bool(self._far_ends(step, document))

    def names_answer(self, step: Step) -> bool:
        """Whether a step's atom has the head's object."""
        atom = self.rule.body[step.atom]
        return self.rule.head.object in (atom.subject, atom.object)

    def learn(self, step: Step, found: Sequence[tuple[Document, float]]) -> None:
        """Bind the other end of a step's atom to what its search found.

        Args:
            step: the step.
            found: documents, best first, with their shares of the search's best score.
        """
        atom = self.rule.body[step.atom]
        other = atom.object if atom.subject == step.variable else atom.subject
        # An atom between two ends that are known already binds nothing.
        if not other.startswith("?") or other in self._named(step):
            return
        entities = self.bound.setdefault(other, {})
        for document, share in found:
            for end in self._far_ends(step, document):
                entities[end] = max(entities.get(end, 0.0), step.weight * share)

    def _named(self, step: Step) -> set[str]:
        """The variables of earlier hops."""
        atoms = [self.rule.body[place] for place in self._order[: step.hop]]
        ends = {end for atom in atoms for end in (atom.subject, atom.object)}
        return ends | {self.rule.head.subject}

    def _known(self, step: Step) -> dict[str, dict[str, float]]:
        """What earlier hops bound, and the entity that the step asks about."""
        known = {name: self.bound[name] for name in self._named(step) if name in self.bound}
        known[step.variable] = {step.entity: step.weight}
        return known

    def _far_ends(self, step: Step, document: Document) -> list[str]:
        """The entities at the other end of a step's atom, in the facts that ground it."""
        atom = self.rule.body[step.atom]
        other = atom.object if atom.subject == step.variable else atom.subject
        return far_ends(atom, document.facts, other, self._known(step))


Words = Callable[[str], str]
Texts = Callable[[Query, Rule], list[str]]
Found = TypeVar("Found")


class Finder(Protocol[Found]):
    """Searches in batches; what one query found is opaque to those who follow hops."""

    def search(self, batch: Sequence[Query]) -> list[Found]:
        """What each query of a batch found."""
        ...

    def best(self, found: Found) -> list[tuple[Document, float]]:
        """The best documents of a search, with their shares of its best score."""
        ...

    def keep(self, found: Found, wanted: Callable[[Document], bool]) -> Found:
        """The same search without the documents that are not wanted."""
        ...


def follow(
    trails: Sequence[Trail],
    finder: Finder[Found],
    texts: Texts,
    words: Words,
    *,
    bridge_weight: float = 1.0,
) -> list[list[tuple[float, Found]]]:
    """The searches of every trail, all trails hop by hop together.

    Args:
        trails: queries under rules; what they bind is told in them.
        finder: searches.
        texts: how a query and a one-atom rule become texts.
        words: the words of a raw entity.
        bridge_weight: how much a search counts whose atom does not name the answer.

    Returns:
        For each trail its searches, each with the weight of what led to it.
    """
    searches: list[list[tuple[float, Found]]] = [[] for _ in trails]
    for hop in range(max((len(trail.rule.body) for trail in trails), default=0)):
        asked: list[tuple[int, Step]] = []
        batch: dict[tuple[str, str, str, int | None], Query] = {}
        keys = []
        for number, trail in enumerate(trails):
            for step in trail.steps(hop):
                about, rule = trail.asked(step, (words(trail.query.subject), words(step.entity)))
                for text in texts(about, rule):
                    asked.append((number, step))
                    keys.append((text, about.subject, about.relation, about.timestamp))
                    batch.setdefault(keys[-1], replace(about, text=text))
        found = dict(zip(batch, finder.search(list(batch.values())) if batch else [], strict=True))
        for (number, step), key in zip(asked, keys, strict=True):
            trail = trails[number]
            kept = finder.keep(found[key], partial(trail.follows, step))
            trail.learn(step, finder.best(kept))
            weight = step.weight * (1.0 if trail.names_answer(step) else bridge_weight)
            searches[number].append((weight, kept))
    return searches


def _renamed(text: str, subject: str, entity: str) -> str:
    """A question about another entity; the subject is a word of it, not a part of one."""
    place = re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", text)
    if place is None:
        return f"{entity} {text}"
    return f"{text[: place.start()]}{entity}{text[place.end() :]}"
