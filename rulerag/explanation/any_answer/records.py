"""What explains an answer: claims, the documents that each rests on, and what was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from rulerag.explanation.levels import Passage
from rulerag.explanation.records import Certificate, Record


class DocumentSet(frozenset[int]):
    """The indices of some documents, with what was shown about them.

    Args:
        indices: places of documents, from 0.
        certificate: on which subsets it was tested.
        output: what is answered with these documents alone (retention) or without them (omission);
            None where that was not asked.
    """

    certificate: Certificate
    output: str | None

    def __new__(
        cls, indices: Iterable[int], certificate: Certificate, output: str | None = None
    ) -> Self:
        """A set; equal to every other set of the same indices."""
        made = super().__new__(cls, indices)
        made.certificate, made.output = certificate, output
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return DocumentSet, (tuple(self), self.certificate, self.output)

    def to_json(self) -> dict[str, Any]:
        """The set as a JSON object."""
        shown = self.certificate.to_json()
        return {"documents": sorted(self), "output": self.output, "certificate": shown}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> DocumentSet:
        """Read the object that ``to_json`` makes."""
        return cls(row["documents"], Certificate.from_json(row["certificate"]), row.get("output"))


@dataclass(frozen=True)
class Spoiler(Record):
    """Documents that take a claim away although others that are enough for it are there.

    Args:
        documents: those that, all together, take it away.
        enough: those that are enough without one of them.
        output: what is answered with both, and nothing else.
    """

    documents: tuple[int, ...]
    enough: tuple[int, ...]
    output: str = ""


@dataclass(frozen=True)
class Moment(Record):
    """Something that became certain while an answer was explained.

    Args:
        calls: of the answer function by then.
        kind: ``tried``, a share of all combinations was tried; ``set``, documents were found that
            are enough, with no guarantee yet; ``against``, documents that speak against the claim;
            ``together``, what all sets of a claim say is true of a share of all combinations;
            ``alone``, what one set says is true of a share of those that hold it.
        claim: its place; None for all of them.
        documents: of the set; None where it is about no single one.
        share: of combinations, that was guaranteed by then with the confidence of the settings;
            ``tried`` is certain. A later moment may take it back: what failed is tested anew.
    """

    calls: int
    kind: Literal["tried", "set", "against", "together", "alone"]
    claim: int | None = None
    documents: tuple[int, ...] | None = None
    share: float | None = None


@dataclass(frozen=True)
class ExplainedClaim(Record):
    """One claim of an answer, and the documents that it rests on.

    Args:
        text: the claim.
        start: where it begins in the answer; None where it does not stand there word for word.
        end: where it ends.
        refusal: it says that there is no answer.
        retention: the minimal sets of documents that are enough: with all of one of them the claim
            is made, whatever else is there.
        omission: the minimal sets without which it is gone, whatever else is there.
        spoilers: documents that speak against it.
        stable: the share of repeated answers to the whole prompt that made the claim.
        complete: whether there is no further set, as far as was shown.
        steps: how many different outputs each step of the ladder decided
            (:data:`rulerag.explanation.claims.verdicts.STEPS`).
    """

    text: str
    start: int | None = None
    end: int | None = None
    refusal: bool = False
    retention: tuple[DocumentSet, ...] = ()
    omission: tuple[DocumentSet, ...] = ()
    spoilers: tuple[Spoiler, ...] = ()
    stable: float = 1.0
    complete: bool = True
    steps: Mapping[str, int] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[int, ...]:
        """The documents of its minimal retention rules, ascending."""
        return tuple(sorted(set().union(*self.retention)))

    @property
    def unsupported(self) -> bool:
        """Whether it is made without any document: known to the model, or made up."""
        return frozenset() in self.retention

    def to_json(self) -> dict[str, Any]:
        """The claim as a JSON object."""
        sets = {
            "retention": [one.to_json() for one in self.retention],
            "omission": [one.to_json() for one in self.omission],
        }
        return {**super().to_json(), **sets, "sources": list(self.sources)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ExplainedClaim:
        """Read the object that ``to_json`` makes."""
        read = {
            key: tuple(map(DocumentSet.from_json, row.get(key, ())))
            for key in ("retention", "omission")
        }
        plain = {key: value for key, value in row.items() if key not in (*read, "steps")}
        claim = super().from_json(plain)
        object.__setattr__(claim, "retention", read["retention"])
        object.__setattr__(claim, "omission", read["omission"])
        object.__setattr__(claim, "steps", dict(row.get("steps", {})))
        return claim


@dataclass(frozen=True)
class Explained(Record):
    """Everything that is known about why an answer came out.

    Args:
        question: what was asked.
        text: the answer.
        documents: what was read.
        claims: the parts of the answer, each with what it rests on.
        empty: what is answered without any document; None where that was not asked.
        num_calls: calls of the answer function.
        seconds: seconds spent in them.
        complete: false where budget or time ended the search.
        notes: what has to be known first: noise, empty documents, an early end.
        again: what was answered to the whole prompt when it was asked again.
        tokens: of all prompts and answers, about four characters each.
        money: what they cost; None where prices are not known.
        frozen: for a chain, what was not run again, what a probe cost, and what no document means.
        settings: how the explanation was made.
        growth: what became certain when, for a picture.
    """

    question: str
    text: str
    documents: tuple[Passage, ...]
    claims: tuple[ExplainedClaim, ...]
    empty: str | None = None
    num_calls: int = 0
    seconds: float = 0.0
    complete: bool = True
    notes: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    tokens: int | None = None
    money: float | None = None
    frozen: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    growth: tuple[Moment, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        made = super().from_json({key: row[key] for key in row if key != "settings"})
        object.__setattr__(made, "settings", dict(row.get("settings", {})))
        return made
