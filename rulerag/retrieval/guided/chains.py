"""Following a rule's body hop by hop: what one search finds is what the next is about.

A chain such as ``born in(x, z), city of(z, y)`` cannot be searched at once: a text of its second
atom does not name the query's subject. So its atoms are searched in turn, each about entities that
an earlier one bound: *what does ann born in ?* finds Velm, *what does Velm city of ?* the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rulerag.kg.grounding import body_order
from rulerag.retrieval.guided.provenance import Bound, far_ends
from rulerag.rules import Atom, Rule
from rulerag.text import contains_answer
from rulerag.types import Document, Query


class PathStep(NamedTuple):
    """One search of a rule path: about one atom of the body and one entity.

    Args:
        hop: which hop, from 0.
        atom: the index of the atom in the body.
        variable: the term of the atom that the entity stands for.
        entity: what the search is about.
        weight: how much the entity is trusted: the product of the normalised scores of the
            documents that led to it.
    """

    hop: int
    atom: int
    variable: str
    entity: str
    weight: float


@dataclass
class RulePath:
    """The state of one query under one rule, followed atom by atom.

    Args:
        query: the query.
        rule: a rule whose head's subject is the query's subject.
        beam_width: how many entities of a hop the next one searches for.

    Attributes:
        bound: for each variable what it may stand for, and the weights of these entities.
    """

    query: Query
    rule: Rule
    beam_width: int
    bound: dict[str, dict[str, float]] = field(init=False)
    _order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.bound = {self.rule.head.subject: {self.query.subject: 1.0}}
        self._order = body_order(self.rule)

    def steps(self, hop: int) -> list[PathStep]:
        """The searches of a hop (from 0), one for each entity of the beam."""
        if hop >= len(self._order):
            return []
        number = self._order[hop]
        atom = self.rule.body[number]
        for end in (atom.subject, atom.object):
            if not end.startswith("?"):
                return [PathStep(hop, number, end, end, 1.0)]
            if end in self.bound:
                best = sorted(self.bound[end].items(), key=lambda item: -item[1])
                return [PathStep(hop, number, end, *item) for item in best[: self.beam_width]]
        return []

    def question(self, step: PathStep, words: tuple[str, str]) -> tuple[Query, Rule]:
        """The query and the one-atom rule whose composition searches for a step.

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

    def names_answer(self, step: PathStep) -> bool:
        """Whether a step's atom has the head's object."""
        atom = self.rule.body[step.atom]
        return self.rule.head.object in (atom.subject, atom.object)

    def bind(self, step: PathStep, found: Iterable[tuple[Iterable[str], float]]) -> None:
        """Bind the other end of a step's atom to what its search found.

        Args:
            step: the step.
            found: of each document :meth:`far_ends` and its normalised score.
        """
        other = self._other(step)
        # An atom between two ends that are known already binds nothing.
        if not other.startswith("?") or other in self._earlier_variables(step):
            return
        entities = self.bound.setdefault(other, {})
        for ends, fraction in found:
            for end in ends:
                entities[end] = max(entities.get(end, 0.0), step.weight * fraction)

    def far_ends(self, step: PathStep, document: Document, known: Bound | None = None) -> list[str]:
        """The entities at the other end of a step's atom, in the facts that ground it.

        Of a text without facts, whatever else it mentions may be there, where it mentions the
        entity of the step.

        Args:
            step: the step.
            document: its facts are looked at.
            known: :meth:`known` of the step, for many documents.
        """
        if not document.facts:
            named = document.entities
            return [name for name in named if name != step.entity] if step.entity in named else []
        atom = self.rule.body[step.atom]
        return far_ends(atom, document.facts, self._other(step), known or self.known(step))

    def known(self, step: PathStep) -> dict[str, dict[str, float]]:
        """What earlier hops bound, and the entity that the step is about."""
        known = {
            name: self.bound[name] for name in self._earlier_variables(step) if name in self.bound
        }
        known[step.variable] = {step.entity: step.weight}
        return known

    def _other(self, step: PathStep) -> str:
        """The term at the other end of a step's atom."""
        atom = self.rule.body[step.atom]
        return atom.object if atom.subject == step.variable else atom.subject

    def _earlier_variables(self, step: PathStep) -> set[str]:
        """The variables of earlier hops."""
        atoms = [self.rule.body[number] for number in self._order[: step.hop]]
        ends = {end for atom in atoms for end in (atom.subject, atom.object)}
        return ends | {self.rule.head.subject}


def mentions(document: Document, entity: str, words: str) -> bool:
    """Whether a text without facts mentions an entity, as far as its words tell.

    Args:
        document: with linked entities, or with its text alone.
        entity: a raw name.
        words: its label.
    """
    if document.facts:
        return False
    if entity in document.entities:
        return True
    return contains_answer(f"{document.title} {document.text}", [words])


def _renamed(text: str, subject: str, entity: str) -> str:
    """A question about another entity; the subject is a word of it, not a part of one."""
    found = re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", text)
    if found is None:
        return f"{entity} {text}"
    return f"{text[: found.start()]}{entity}{text[found.end() :]}"
