"""The sources of an answer, as cards show them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """What travels between the service and its faces: frozen, checked, plain JSON on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FoundBy(Record):
    """The mined rule whose search found a source.

    Args:
        rule: in words.
        atom: the body atom of it that the source grounds, in words; empty where not known.
    """

    rule: str
    atom: str = ""


class Source(Record):
    """One source as the system reads it.

    Args:
        id: of the document; new ones are ``added-1`` and so on.
        title: its title; empty where it has none.
        text: its text, which may be an attacker's: only ever shown as text.
        score: the retriever's; None for one that was added.
        rank: where retrieval had it, from 1; None for one that was added.
        found_by: the mined rules that found it.
        change: whether it is as retrieved.
        attacks: the names of the attack templates that were injected into it.
    """

    id: str
    title: str = ""
    text: str
    score: float | None = None
    rank: int | None = None
    found_by: tuple[FoundBy, ...] = ()
    change: Literal["", "edited", "added"] = ""
    attacks: tuple[str, ...] = ()
