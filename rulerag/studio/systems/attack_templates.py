"""Attack templates by name, each with the publication that it is named after."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from rulerag.composition import Settings, parse_file
from rulerag.studio.systems.predicates import SHIPPED
from rulerag.studio.systems.records import Source, named

_FIELD = re.compile(r"\{(question|payload|permission)\}")


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
    attack = named("attack", name, attacks())
    parts = {"question": question, "payload": payload, "permission": permission}
    # One pass: a payload that names a field is left as it is.
    text = _FIELD.sub(lambda found: parts[found[1]], attack.text).strip()
    joined = {"before": f"{text}\n{source.text}", "after": f"{source.text}\n{text}"}
    return source.model_copy(
        update={
            "text": joined.get(attack.place, text),
            "change": source.change or "edited",
            "attacks": (*source.attacks, name),
        }
    )
