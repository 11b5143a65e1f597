"""What travels between the service and its faces: frozen, checked, and plain JSON on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rulerag.studio.systems import Record, Source

Goal = Literal["target", "claims"]
"""What is explained: that the system's target condition holds, or each claim of the answer."""


@dataclass(frozen=True)
class Limits:
    """What one studio takes on; more is refused by name.

    Args:
        characters: of one source.
        sources: of one session.
        question: characters of a question.
        undo: edits that can be taken back.
        sessions: that are kept.
        jobs: explanations that run at once.
        waiting: explanations that wait for one of them.
        budget: the most calls of one explanation.
        body: bytes of one request.
    """

    characters: int = 1_000_000
    sources: int = 500
    question: int = 4_000
    undo: int = 100
    sessions: int = 1_000
    jobs: int = 4
    waiting: int = 64
    budget: int = 2_000
    body: int = 16_000_000


class State(Record):
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


class Session(Record):
    """A named piece of work with one system.

    Args:
        id: names it in links.
        name: for people.
        system: the name of the system.
        revision: counts every change; an edit of an older one is refused.
        state: as it is now.
        can_undo: whether there is an earlier state.
        can_redo: whether an undone state can come back.
        explanations: the ids of what was explained, oldest first.
        updated: when it was changed, in seconds since 1970.
    """

    id: str
    name: str
    system: str
    revision: int
    state: State
    can_undo: bool
    can_redo: bool
    explanations: tuple[str, ...] = ()
    updated: float = 0.0


class Edit(Record):
    """Give a source another text."""

    kind: Literal["edit"] = "edit"
    source: str
    text: str
    title: str | None = None


class Add(Record):
    """Add a source, at a place from 0 or at the end."""

    kind: Literal["add"] = "add"
    text: str
    title: str = ""
    place: int | None = None


class Delete(Record):
    """Take a source out."""

    kind: Literal["delete"] = "delete"
    source: str


class Move(Record):
    """Put a source at another place, from 0."""

    kind: Literal["move"] = "move"
    source: str
    place: int


class Inject(Record):
    """Put an attack template into a source; ``payload`` in place of the system's own."""

    kind: Literal["inject"] = "inject"
    source: str
    attack: str
    payload: str | None = None


class Configure(Record):
    """Change the question, what answers, instructions or rules; None leaves one as it is."""

    kind: Literal["configure"] = "configure"
    question: str | None = None
    generator: str | None = None
    instructed: bool | None = None
    instructions: str | None = None
    rules_off: tuple[str, ...] | None = None


Change = Annotated[Edit | Add | Delete | Move | Inject | Configure, Field(discriminator="kind")]
"""One edit of a session."""


class Rule(Record):
    """A minimal rule of an explanation.

    Args:
        sources: places of its sources, from 0.
        sentence: in words.
        certificate: what was tested.
        output: what is answered with these sources alone (of enough), or without them (of gone).
    """

    sources: tuple[int, ...]
    sentence: str
    certificate: str
    output: str | None = None


class ClaimView(Record):
    """What one claim, or the target condition, rests on.

    Args:
        text: the claim.
        start: where it begins in the answer; None where it stands there in other words.
        end: where it ends.
        enough: the minimal rules: with these sources it always comes.
        gone: the minimal sets without which it never comes; the smallest is the repair set.
        against: what takes it away, in sentences.
        complete: whether nothing further is looked for.
    """

    text: str
    start: int | None = None
    end: int | None = None
    enough: tuple[Rule, ...] = ()
    gone: tuple[Rule, ...] = ()
    against: tuple[str, ...] = ()
    complete: bool = True


class View(Record):
    """An explanation as it is known at one moment.

    Args:
        id: of the explanation and of its job.
        session: whose it is.
        state: what was explained.
        goal: what for.
        status: ``waiting``, ``running``, ``done``, ``cancelled`` or ``failed``.
        text: the answer.
        holds: whether the target condition holds for the answer; None where it was not tried.
        condition: the target condition in words.
        claims: what was found; one for the target.
        notes: what has to be known first.
        shown: on what all of it stands, in words.
        probes: different subsets that were asked.
        expected: how many there may be.
        calls: of the generator.
        tokens: of prompts and answers, four characters each.
        money: what they cost; None where no price is known.
        seconds: spent in calls.
        error: why it failed.
    """

    id: str
    session: str
    state: State
    goal: Goal
    status: Literal["waiting", "running", "done", "cancelled", "failed"] = "waiting"
    text: str = ""
    holds: bool | None = None
    condition: str = ""
    claims: tuple[ClaimView, ...] = ()
    notes: tuple[str, ...] = ()
    shown: str = ""
    probes: int = 0
    expected: int = 0
    calls: int = 0
    tokens: int = 0
    money: float | None = None
    seconds: float = 0.0
    error: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing runs or waits."""
        return self.status not in ("waiting", "running")


class Probe(Record):
    """One answered subset of the sources.

    Args:
        kept: places of the sources that were read, from 0.
        output: the answer.
        holds: whether the condition holds for it.
    """

    kept: tuple[int, ...]
    output: str
    holds: bool


class Found(Record):
    """One source of two retrievers.

    Args:
        source: the source, with the rules that found it by either.
        first: its rank by the first, from 1; None where that did not find it.
        second: likewise by the second.
        holds: whether it names an accepted answer; None where none is known.
    """

    source: Source
    first: int | None
    second: int | None
    holds: bool | None = None


class Beside(Record):
    """One question, two ways.

    Args:
        question: its words.
        first: the retriever and the generator of the first way, in words.
        second: of the second.
        found: every source of either, those first that the first way ranks highest.
        answers: what was answered the first way and the second; empty where nothing read.
        accepted: the accepted answers, where the question is a benchmark's.
    """

    question: str
    first: str
    second: str
    found: tuple[Found, ...]
    answers: tuple[str, str]
    accepted: tuple[str, ...] = ()


class SourceMove(Record):
    """A source that another answer read elsewhere, otherwise, or not at all.

    Args:
        title: of the source.
        before: its place among those of the answer before, from 1; None where it was not read.
        now: its place now.
        edited: whether its text is another one.
    """

    title: str
    before: int | None
    now: int | None
    edited: bool = False


class Level(Record):
    """The subsets of one size of an explanation's sources.

    Args:
        kept: how many sources are read.
        subsets: how many such subsets there are; None where they are more than a million.
        asked: how many were asked.
        holding: for how many of these the condition holds.
    """

    kept: int
    subsets: int | None
    asked: int
    holding: int


class Node(Record):
    """One subset of an explanation's sources.

    Args:
        kept: places of the sources that are read, from 0.
        holds: whether the condition holds; None where it was not asked.
    """

    kept: tuple[int, ...]
    holds: bool | None
