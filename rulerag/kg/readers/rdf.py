"""RDF: N-Triples, Turtle and what else rdflib reads; labels become labels, the rest facts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError, EmptyDataError, MissingDependencyError
from rulerag.io import decode, excerpt, read_bytes
from rulerag.kg.labels import LabelCandidates
from rulerag.kg.readers.detect import RDF_ENDINGS, GraphFiles, RawGraph
from rulerag.kg.readers.tables import Facts

_CORE, _SKOS = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2004/02/skos/core#"
# What names a thing for people, the best first; then what else it is called.
_LABELS = (
    *(f"{_SKOS}prefLabel", f"{_CORE}label", "http://schema.org/name", "https://schema.org/name"),
    "http://xmlns.com/foaf/0.1/name",
)
_ALIASES = (f"{_SKOS}altLabel", "http://schema.org/alternateName")
_LANGUAGES = ("en", None)  # of labels, those that are taken first; None: no language is stated


def read_rdf(files: GraphFiles) -> RawGraph:
    """Read files of RDF, one or several a split.

    Facts are the triples of two IRIs. Triples with a literal other than a label and those with a
    blank node, which has no name, are left out and counted. The raw names are the IRIs.

    Args:
        files: the files.

    Raises:
        MissingDependencyError: rdflib is not installed.
        DataFormatError: a file is no RDF of its ending; names the line where rdflib does.
        EmptyDataError: there is no triple of two IRIs.
    """
    named: dict[str, dict[str, list[tuple[int, int, str]]]] = {"labels": {}, "aliases": {}}
    facts, skipped = Facts(), Counter[str]()
    for split, path in files.splits.items():
        rows = []
        for subject, predicate, value in _triples(files.parts or (path,)):
            kind = _kind(subject, value)
            for what, known in (("labels", _LABELS), ("aliases", _ALIASES)):
                if kind == "literal" and str(predicate) in known:
                    place = _language(value), known.index(str(predicate)), str(value).strip()
                    named[what].setdefault(str(subject), []).append(place)
                    kind = what
            if kind == "fact":
                rows.append((0, [str(subject), str(predicate), str(value)]))
            elif kind not in named:
                skipped[_REASONS[kind]] += 1
        # A parsed graph has no order of its own; ids shall not depend on chance.
        facts.add(split, sorted(rows), path)
    for why, count in skipped.items():
        facts.leave_out(why, 0, count)
    try:
        raw = facts.graph({"parsed_by": "rdflib"})
    except EmptyDataError as error:
        raise EmptyDataError(
            error.message,
            path=files.root,
            hint="facts are triples of two IRIs; literals such as numbers are no entities",
        ) from error
    raw.labels = {name: _best(found, name) for name, found in named["labels"].items()}
    raw.aliases = {
        name: tuple(dict.fromkeys(text for *_, text in sorted(found)))
        for name, found in named["aliases"].items()
    }
    return raw


_REASONS = {
    "literal": "the object is a literal (a number, a date, a text), no entity",
    "blank": "an end is a blank node, which has no name",
}


def _triples(paths: Iterable[Path]) -> Iterator[tuple[Any, Any, Any]]:
    """The triples of all files, each once."""
    try:
        import rdflib
    except ImportError as error:
        raise MissingDependencyError("rdflib", "rdf") from error
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # ill-typed literals are left out
    graph: Any = rdflib.Graph()
    for path in paths:
        form = RDF_ENDINGS[Path(path.name.removesuffix(".gz")).suffix.lower()]
        data = read_bytes(path)
        decode(data, path)  # an error of ours for bytes that are no text
        try:
            graph.parse(data=data, format=form, publicID=path.absolute().as_uri())
        except Exception as error:
            # Each parser of rdflib raises errors of its own; the one of Turtle knows the line.
            line = getattr(error, "lines", None)
            reason = " ".join(str(error).split())
            raise DataFormatError(
                f"cannot be read as {form}: {excerpt(reason)}",
                path=path,
                line=None if line is None else int(line) + 1,
                hint="the ending of a file says which form of RDF it has",
            ) from error
    yield from graph


def _kind(subject: Any, value: Any) -> str:
    import rdflib

    if isinstance(value, rdflib.Literal):
        return "literal"
    blank = isinstance(subject, rdflib.BNode) or isinstance(value, rdflib.BNode)
    return "blank" if blank else "fact"


def _language(value: Any) -> int:
    language = (value.language or "").split("-")[0] or None
    return _LANGUAGES.index(language) if language in _LANGUAGES else len(_LANGUAGES)


def _best(labels: list[tuple[int, int, str]], name: str) -> LabelCandidates:
    text = min(labels)[2] or name
    return text, f"{text} ({name})"
