"""The sources of an answer, as cards show them, and everything else that it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from rulerag.errors import UnknownNameError, did_you_mean
from rulerag.io import fingerprint_object

Known = TypeVar("Known")


def named(what: str, name: str, known: Mapping[str, Known]) -> Known:
    """What goes by a name.

    Args:
        what: it is, in a word.
        name: the name.
        known: everything by its name.

    Raises:
        UnknownNameError: nothing has this name.
    """
    if name not in known:
        raise UnknownNameError(f"no {what} is called {name!r}", hint=did_you_mean(name, known))
    return known[name]


class Message(BaseModel):
    """What travels between the service and its faces: frozen, checked, plain JSON on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(Message):
    """One source as the system reads it.

    Args:
        id: of the document; new ones are ``added-1`` and so on.
        title: its title; empty where it has none.
        text: its text, which may be an attacker's: only ever shown as text.
        score: the retriever's; None for one that was added.
        rank: where retrieval had it, from 1; None for one that was added.
        found_by: the mined rules that found it, in words, each with the body atom that the source
            grounds, in words; an empty one where that is not known.
        change: whether it is as retrieved.
        attacks: the names of the attack templates that were injected into it.
    """

    id: str
    title: str = ""
    text: str
    score: float | None = None
    rank: int | None = None
    found_by: Mapping[str, str] = {}
    change: Literal["", "edited", "added"] = ""
    attacks: tuple[str, ...] = ()


class State(Message):
    """Everything that an answer depends on, besides the system.

    Args:
        question: what is asked.
        sources: what is read, in this order.
        instructed: whether the safety instructions are in the prompt.
        instructions: the safety instructions.
        generator: the name of what answers.
        retriever: the name of what searches.
        rules_off: ids of the mined rules that are switched off.
    """

    question: str = ""
    sources: tuple[Source, ...] = ()
    instructed: bool = True
    instructions: str = ""
    generator: str = ""
    retriever: str = ""
    rules_off: tuple[str, ...] = ()

    @property
    def system_message(self) -> str:
        """The instructions that are in the prompt; empty for none."""
        return self.instructions if self.instructed else ""

    @property
    def fingerprint(self) -> str:
        """Names all that an answer depends on besides the system."""
        asked = self.model_dump(mode="json", exclude={"instructed"})
        return fingerprint_object({**asked, "instructions": self.system_message})
