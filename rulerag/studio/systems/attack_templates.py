"""Attack templates by name, each with the publication that it is named after."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from rulerag.composition import Settings, parse_file
from rulerag.errors import UnknownNameError, did_you_mean
from rulerag.studio.systems.sources import Source

SHIPPED = Path(__file__).resolve().parent.parent / "shipped"
"""Systems, corpora and attack templates that come with the studio."""


class Attack(Settings):
    """A text that is put into a source.

    Args:
        name: of the template.
        title: for people.
        about: what it tries.
        source: the publication that it is named after; the wording is our own.
        place: where in the source it goes.
        text: with ``{question}``, ``{payload}`` (what the attacker wants to be said) and
            ``{permission}`` (what the instructions forbid, in words).
    """

    name: str
    title: str
    about: str
    source: str
    place: Literal["before", "after", "instead"] = "after"
    text: str


@cache
def attacks() -> dict[str, Attack]:
    """Every template by its name."""
    rows = parse_file(SHIPPED / "attacks.yaml")["attacks"]
    read = TypeAdapter(list[Attack]).validate_python(rows)
    return {one.name: one for one in read}


def injected(source: Source, name: str, question: str, payload: str, permission: str) -> Source:
    """A source with an attack in it.

    Args:
        source: as it was.
        name: of the template.
        question: what is asked.
        payload: what the attacker wants to be said.
        permission: what the instructions forbid, in words.

    Raises:
        UnknownNameError: no template has this name.
    """
    if name not in attacks():
        raise UnknownNameError(f"no attack is called {name!r}", hint=did_you_mean(name, attacks()))
    attack = attacks()[name]
    # One pass: a payload that names a field is left as it is.
    filled = attack.text
    parts = {"{question}": question, "{payload}": payload, "{permission}": permission}
    pieces, rest = list[str](), filled
    while rest:
        places = [(rest.find(key), key) for key in parts if key in rest]
        if not places:
            pieces.append(rest)
            break
        start, key = min(places)
        pieces += [rest[:start], parts[key]]
        rest = rest[start + len(key) :]
    text = "".join(pieces).strip()
    joined = {"before": f"{text}\n{source.text}", "after": f"{source.text}\n{text}"}
    return source.model_copy(
        update={
            "text": joined.get(attack.place, text),
            "change": source.change or "edited",
            "attacks": (*source.attacks, name),
        }
    )
