"""Questions by wordings, synonyms and slips of the pen; ``wordings.toml`` has the words."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

_WORDS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8")
)
_NOT_VERBS = re.compile(r"(?:s|ed|of|in|at|by|to|ing)$")


def half(direction: str, *, held_out: bool) -> list[str]:
    """The wordings of a direction (``object`` or ``subject``) that are held out, or the others."""
    wordings: list[str] = _WORDS[direction]
    return wordings[held_out::2]


def word(template: str, entity: str, label: str, *, verb: bool) -> str:
    """A question by a template.

    Args:
        template: the wording.
        entity: the known end's label.
        label: the relation's label.
        verb: whether the label starts with the base form of a verb, which may then be inflected.
    """
    first, _, rest = label.partition(" ")
    low = first if first.isupper() else first[:1].lower() + first[1:]
    verb = verb and low.isalpha() and not _NOT_VERBS.search(low)
    stem = low.removesuffix("e")
    past = _WORDS["past"].get(low, stem[:-1] + "ied" if low.endswith("y") else stem + "ed")
    forms = {"{r}": low, "{ing}": stem + "ing" if verb else low, "{past}": past if verb else low}
    filled = re.sub(
        r"\{(?:r|ing|past)\}", lambda match: f"{forms[match.group()]} {rest}".strip(), template
    )
    return filled.replace("{x}", entity)


def other_words(label: str, *, held_out: bool) -> str:
    """A label with its words replaced by synonyms, where the table has any.

    Args:
        label: the relation in words.
        held_out: whether every word of the table is replaced, or every second one alone: with
            these the settings were chosen.
    """
    table = dict(list(_WORDS["synonyms"].items())[:: 1 if held_out else 2])
    return re.sub(r"\w+", lambda match: table.get(match.group().casefold(), match.group()), label)


def slip(name: str, known: Collection[str], rng: random.Random) -> str:
    """A name with one letter left out, doubled, changed, or swapped with its neighbour.

    Args:
        name: the name.
        known: every name, case folded: a slip makes none of them.
        rng: decides which.
    """
    places = [n for n, letter in enumerate(name) if letter.isalpha()]
    for _ in range(40):
        n = rng.choice(places)
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
        made = rng.choice(
            (
                name[:n] + name[n + 1 :],
                name[:n] + name[n] + name[n:],
                name[:n] + letter + name[n + 1 :],
                name[:n] + name[n : n + 2][::-1] + name[n + 2 :],
            )
        )
        if made.casefold() != name.casefold() and made.casefold() not in known:
            return made
    return name
