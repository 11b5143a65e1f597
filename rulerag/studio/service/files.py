"""A session as one file that opens anywhere without a model: what it holds, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rulerag import __version__
from rulerag.errors import ConfigError, DataFormatError
from rulerag.explanation.any_answer import Explained
from rulerag.io import fingerprint_object
from rulerag.studio.service.editing import check
from rulerag.studio.service.jobs import Job
from rulerag.studio.service.records import Limits, Session, State, View

FORMAT = "rulerag-studio-session"
VERSION = 1
_EXPLANATIONS, _OUTPUTS = 1_000, 1_000_000


@dataclass(frozen=True)
class SessionFile:
    """What was read of a file.

    Args:
        name: of the session.
        system: its system, as the wire has it.
        state: as it was saved.
        explanations: each as it was known, with everything that is kept of it.
    """

    name: str
    system: Mapping[str, Any]
    state: State
    explanations: tuple[tuple[View, Mapping[str, Any]], ...]


def kept_of(job: Job, fingerprint: str) -> dict[str, Any]:
    """Everything that is kept of an explanation.

    Args:
        job: the explanation.
        fingerprint: of what answered: model, decoding and prompt.
    """
    view = job.view
    sources = [fingerprint_object([one.title, one.text]) for one in view.state.sources]
    return {
        "view": view.model_dump(mode="json"),
        "outputs": [[list(kept), said] for kept, said in dict(job.outputs).items()],
        "explained": None if job.explained is None else job.explained.to_json(),
        "made": {"rulerag": __version__, "generator": fingerprint, "documents": sources},
    }


def view_of(kept: Mapping[str, Any]) -> View:
    """A kept view; what ran when the studio was killed runs no more."""
    view = View.model_validate(kept["view"])
    return view if view.finished else view.model_copy(update={"status": "cancelled"})


def exported(
    session: Session, system: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A session as one JSON object.

    Args:
        session: the session.
        system: its system, as the wire has it.
        kept: its explanations with every probe.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "rulerag": __version__,
        "name": session.name,
        "system": dict(system),
        "state": session.state.model_dump(mode="json"),
        "explanations": list(kept),
    }


def read_session(row: Any, limits: Limits) -> SessionFile:
    """Read what :func:`exported` made; every part is looked at before anything is kept.

    Raises:
        DataFormatError: it is no session, of another version, or damaged.
        ConfigError: it is over a limit.
    """
    if not isinstance(row, Mapping) or row.get("format") != FORMAT:
        raise DataFormatError("no session of the studio", hint="what “Save as file” wrote")
    if row.get("version") != VERSION:
        raise DataFormatError(
            f"written in version {row.get('version')!r} of the format, here {VERSION}",
            hint="open it with the rulerag that wrote it",
        )
    try:
        state = State.model_validate(row["state"])
        kept = tuple((View.model_validate(one["view"]), one) for one in row["explanations"])
        outputs = [[(tuple(k), str(s)) for k, s in one["outputs"]] for _, one in kept]
        for (view, one), answered in zip(kept, outputs, strict=True):
            _check_places(view, one.get("explained"), [places for places, _ in answered])
        system = dict(row["system"], name=str(row["system"]["name"]))
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise DataFormatError(f"a damaged session: {str(error).splitlines()[0]}") from error
    if len(kept) > _EXPLANATIONS or sum(map(len, outputs)) > _OUTPUTS:
        raise ConfigError("holds more than a session has", key="explanations")
    for one in (state, *(view.state for view, _ in kept)):
        check(one, limits)
    return SessionFile(str(row.get("name", "")), system, state, kept)


def _check_places(view: View, explained: Any, answered: Sequence[tuple[Any, ...]]) -> None:
    """Every place that an explanation names is one of its sources.

    Sets of sources are drawn and counted as numbers of so many bits: a place that is none would
    take as much memory as whoever wrote the file likes.

    Raises:
        ValueError: a place is none of a source.
    """
    named = list(answered)
    for claim in view.claims:
        named += [rule.sources for rule in (*claim.enough, *claim.gone)]
    if explained:
        read = Explained.from_json(explained)
        if len(read.documents) != len(view.state.sources):
            raise ValueError("an explanation holds other sources than it names")
        for found in read.claims:
            named += [tuple(one) for one in (*found.retention, *found.omission)]
            named += [places for one in found.spoilers for places in (one.documents, one.enough)]
        named += [one.documents or () for one in read.growth]
    count = len(view.state.sources)
    if not all(type(one) is int and 0 <= one < count for places in named for one in places):
        raise ValueError(f"an explanation names a source that is none of its {count}")
