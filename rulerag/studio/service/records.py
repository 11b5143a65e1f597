"""What travels between the service and its faces: frozen, checked, and plain JSON on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from rulerag.explanation.explaining import ExplainedClaim, Explanation, explanation_lines
from rulerag.studio.systems import Message, Source, State

Part = tuple[Literal["same", "added", "removed"], str]
"""Words of an answer, and whether the one before had them."""

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
        sessions: that are kept for one browser.
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


class Reply(Message):
    """The last answer of a session.

    Args:
        text: the answer.
        holds: whether the target condition holds; None without one.
        condition: the condition in words.
        generator: what answered, in words.
        question: what was asked.
        state: names all that it depends on (``State.fingerprint``).
        opened: it came with a session's file, and was not asked here.
        sources: what was read, with fingerprints in place of texts.
        before: the answer before, None where there was none.
        words: what of that stayed (``same``), is new (``added``) or gone (``removed``).
        moves: the sources that are read elsewhere than then, otherwise or no more.
    """

    text: str
    holds: bool | None = None
    condition: str = ""
    generator: str = ""
    question: str = ""
    state: str = ""
    opened: bool = False
    sources: tuple[Source, ...] = ()
    before: str | None = None
    words: tuple[Part, ...] = ()
    moves: tuple[dict[str, Any], ...] = ()


class Session(Message):
    """A named piece of work with one system.

    Args:
        id: names it in links.
        name: for people.
        system: the name of the system.
        revision: counts every change; an edit of an older one is refused.
        state: as it is now.
        can_undo: whether there is an earlier state.
        can_redo: whether an undone state can come back.
        reply: the last answer; of another state where ``reply.state`` is another fingerprint.
        explanations: the ids of what was explained, oldest first.
    """

    id: str
    name: str
    system: str
    revision: int
    state: State
    can_undo: bool
    can_redo: bool
    reply: Reply | None = None
    explanations: tuple[str, ...] = ()


class Edit(Message):
    """Give a source another text."""

    kind: Literal["edit"] = "edit"
    source: str
    text: str
    title: str | None = None


class Add(Message):
    """Add a source, at a place from 0 or at the end."""

    kind: Literal["add"] = "add"
    text: str
    title: str = ""
    place: int | None = None


class Delete(Message):
    """Take a source out."""

    kind: Literal["delete"] = "delete"
    source: str


class Move(Message):
    """Put a source at another place, from 0."""

    kind: Literal["move"] = "move"
    source: str
    place: int


class Inject(Message):
    """Put an attack template into a source; ``payload`` in place of the system's own."""

    kind: Literal["inject"] = "inject"
    source: str
    attack: str
    payload: str | None = None


class Configure(Message):
    """Change the question, what answers, instructions or rules; None leaves one as it is."""

    kind: Literal["configure"] = "configure"
    question: str | None = None
    generator: str | None = None
    instructed: bool | None = None
    instructions: str | None = None
    rules_off: tuple[str, ...] | None = None


Change = Annotated[Edit | Add | Delete | Move | Inject | Configure, Field(discriminator="kind")]
"""One edit of a session."""


def _explanation(given: Any) -> Explanation:
    return given if isinstance(given, Explanation) else Explanation.from_json(given)


class View(Message):
    """An explanation as it is known at one moment.

    Args:
        id: of the explanation and of its job.
        session: whose it is.
        state: what was explained.
        goal: what for.
        each: each set is certified by itself, where not every subset is asked.
        status: ``waiting``, ``running``, ``done``, ``cancelled`` or ``failed``.
        holds: whether the target condition holds for the answer; None where it was not tried.
        condition: the target condition in words.
        probes: different subsets that were asked.
        expected: how many there may be.
        error: why it failed, or why it is not kept.
        opened: its answers came with a session's file; what follows from them was found here.
        explanation: the answer and what it rests on, by places of the sources from 0; None before
            anything was asked.
    """

    id: str
    session: str
    state: State
    goal: Goal
    each: bool = False
    status: Literal["waiting", "running", "done", "cancelled", "failed"] = "waiting"
    holds: bool | None = None
    condition: str = ""
    probes: int = 0
    expected: int = 0
    error: str = ""
    opened: bool = False
    explanation: (
        Annotated[
            Explanation,
            PlainValidator(_explanation),
            PlainSerializer(Explanation.to_json, return_type=dict[str, Any]),
        ]
        | None
    ) = None

    @property
    def finished(self) -> bool:
        """Whether nothing runs or waits."""
        return self.status not in ("waiting", "running")

    @property
    def text(self) -> str:
        """The answer; empty before it is known."""
        return "" if self.explanation is None else self.explanation.text

    @property
    def claims(self) -> tuple[ExplainedClaim, ...]:
        """What each claim of the answer, or the target condition, rests on."""
        return () if self.explanation is None else self.explanation.claims

    @property
    def sentences(self) -> list[str]:
        """The same in words, with what was tested; none before anything is known."""
        return [] if self.explanation is None else explanation_lines(self.explanation)


class Probe(Message):
    """One subset of an explanation's sources.

    Args:
        kept: places of the sources that are read, from 0.
        output: the answer; None where it was not asked.
        holds: whether the condition holds for it; None likewise.
    """

    kept: tuple[int, ...]
    output: str | None = None
    holds: bool | None = None


class Found(Message):
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


class Beside(Message):
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
