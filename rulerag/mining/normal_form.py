"""One way to write a static rule, so that a rule from another tool gets the same identifier."""

from __future__ import annotations

from rulerag.rules import Atom

__all__ = ["normal_form", "parallel_order"]

# Variables of a body beyond the head's two, in order of appearance.
_FURTHER = ("?z", "?w", "?v", "?u")


def parallel_order(one: Atom, two: Atom) -> tuple[Atom, Atom]:
    """The one order of two atoms between the head's ends: same direction first, then by name."""
    if (two.subject, two.relation) < (one.subject, one.relation):
        return two, one
    return one, two


def normal_form(head: Atom, body: tuple[Atom, ...]) -> tuple[Atom, tuple[Atom, ...]]:
    """The rule as :class:`rulerag.mining.amie.AmieMiner` writes it.

    The head's variables become ``?x`` and ``?y``, further ones ``?z``, ``?w`` and so on. Of two
    body atoms that share a third variable, the one with ``?x`` comes first. Longer bodies keep
    their order. Constants stay as they are.
    """
    names: dict[str, str] = {}
    for end, name in ((head.subject, "?x"), (head.object, "?y")):
        if end.startswith("?"):
            names.setdefault(end, name)
    if len(body) == 2:
        body = _two_atoms(body[0], body[1], names)
    further = (*_FURTHER, *(f"?v{n}" for n in range(1, 2 * len(body) + 1)))
    for atom in body:
        for end in (atom.subject, atom.object):
            if end.startswith("?") and end not in names:
                names[end] = further[sum(name in further for name in names.values())]
    renamed = [
        Atom(a.relation, names.get(a.subject, a.subject), names.get(a.object, a.object))
        for a in (head, *body)
    ]
    return renamed[0], tuple(renamed[1:])


def _two_atoms(one: Atom, two: Atom, names: dict[str, str]) -> tuple[Atom, Atom]:
    def place(atom: Atom) -> tuple[bool, str, str, str]:
        ends = [names.get(end, end) for end in (atom.subject, atom.object)]
        return "?x" not in ends, ends[0], ends[1], atom.relation

    if {one.subject, one.object} == {two.subject, two.object}:
        renamed = [
            Atom(a.relation, names.get(a.subject, a.subject), names.get(a.object, a.object))
            for a in (one, two)
        ]
        return (one, two) if parallel_order(*renamed)[0] == renamed[0] else (two, one)
    return (one, two) if place(one) <= place(two) else (two, one)
