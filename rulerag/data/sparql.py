"""Gets the triples of a SPARQL endpoint into a file of N-Triples, page by page.

A copy, so that what is mined and asked later does not change with the endpoint, and that every
command which reads RDF reads it. Each page is written before the next is asked for; a call that is
repeated goes on behind the last one.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tqdm import tqdm

from rulerag.errors import ConfigError, DataError, DataFormatError
from rulerag.io import atomic_write, excerpt, prepare_folder, read_json, write_json

PATTERN = "?s ?p ?o"
"""Every triple."""
_ACCEPT = "application/sparql-results+json"
_SHOWN = 200
_NOT_IN_ADDRESSES = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_NOT_IN_NAMES = re.compile(r"\W")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def fetch_sparql(
    endpoint: str,
    out: str | Path,
    *,
    where: str = PATTERN,
    page: int = 10_000,
    timeout: float = 60.0,
    retries: int = 3,
    progress: bool = False,
) -> int:
    """Write the triples of an endpoint to a file.

    Args:
        endpoint: its address.
        out: the file of N-Triples (``.nt``).
        where: the graph pattern whose ``?s ?p ?o`` are taken.
        page: triples asked for at a time; an endpoint may give fewer.
        timeout: seconds that one page may take.
        retries: further attempts at a page after the connection failed or the endpoint was busy.
        progress: show a progress bar.

    Returns:
        How many triples the file has.

    Raises:
        ConfigError: no address, a file that is no ``.nt``, or a pattern without ``?s ?p ?o``.
        DataError: the endpoint cannot be reached or refuses the query; says what it answered.
        DataFormatError: it answers in another form than SPARQL's JSON.
        OutputError: the file cannot be written.
    """
    target = Path(out)
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"{endpoint!r} is no address", hint="say http://localhost:3030/ds/query")
    if target.suffix != ".nt":
        raise ConfigError(f"{target.name!r} is no file of N-Triples", key="out", hint="NAME.nt")
    missing = [name for name in ("?s", "?p", "?o") if name not in where]
    if missing:
        raise ConfigError(f"{where!r} has no {missing[0]}", key="where", hint=f"say {PATTERN!r}")
    prepare_folder(target.parent)
    part, state = target.with_suffix(".nt.part"), target.with_suffix(".nt.state")
    asked = {"endpoint": endpoint, "where": where}
    done = read_json(state) if state.exists() and part.exists() else {}
    if {key: done.get(key) for key in asked} != asked:
        done = {**asked, "triples": 0, "bytes": 0}
        part.write_bytes(b"")
    with tqdm(
        initial=done["triples"], unit=" triples", desc=target.name, disable=not progress
    ) as bar:
        while True:
            query = (
                f"SELECT ?s ?p ?o WHERE {{ {where} }} ORDER BY ?s ?p ?o "
                f"LIMIT {page} OFFSET {done['triples']}"
            )
            lines = list(_lines(_ask(endpoint, query, timeout=timeout, retries=retries), endpoint))
            if not lines:
                break
            # Behind what is known to be whole: a page that was cut short is written again.
            with open(part, "r+b") as file:
                file.truncate(done["bytes"])
                file.seek(done["bytes"])
                file.write("".join(lines).encode())
                done |= {"triples": done["triples"] + len(lines), "bytes": file.tell()}
            write_json(state, done)
            bar.update(len(lines))
    if not done["triples"]:
        part.unlink()
        raise DataError(f"{endpoint} has no triple of this pattern: {where}")
    with atomic_write(target, "wb") as file:
        file.write(part.read_bytes()[: done["bytes"]])
    part.unlink()
    state.unlink(missing_ok=True)
    return int(done["triples"])


def _ask(endpoint: str, query: str, *, timeout: float, retries: int) -> dict[str, Any]:
    """The answer to a query."""
    request = urllib.request.Request(
        endpoint,
        data=urlencode({"query": query}).encode(),
        headers={"Accept": _ACCEPT, "User-Agent": "rulerag"},
    )
    for attempt in range(retries + 1):
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                said = answer.read()
            break
        except urllib.error.HTTPError as error:
            text = " ".join(error.read(2000).decode(errors="replace").split())[:_SHOWN]
            if error.code not in (429, 500, 502, 503, 504) or attempt == retries:
                raise DataError(
                    f"{endpoint} answers {error.code} {error.reason}: {text}",
                    hint="is it the address of queries, and does it take this pattern?",
                ) from error
        except OSError as error:  # refused, timed out, cut off
            if attempt == retries:
                raise DataError(
                    f"{endpoint} cannot be reached ({error})",
                    hint="the same command goes on where it stopped",
                ) from error
        time.sleep(min(2.0**attempt, 30) / 2)
    try:
        found: dict[str, Any] = json.loads(said)
        assert isinstance(found["results"]["bindings"], list)  # noqa: S101
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        text = excerpt(said[:_SHOWN].decode(errors="replace"))
        raise DataFormatError(
            f"{endpoint} does not answer in SPARQL's JSON: {text}",
            hint="is it the address of queries? A page for people is often beside it",
        ) from error
    return found


def _lines(found: dict[str, Any], endpoint: str) -> Iterator[str]:
    """The triples of an answer as lines of N-Triples."""
    for row in found["results"]["bindings"]:
        yield " ".join(_term(row.get(name), name, endpoint) for name in "spo") + " .\n"


def _term(term: Any, name: str, endpoint: str) -> str:
    """A term of SPARQL's JSON results (W3C recommendation, section 3.2.2) as N-Triples has it."""
    if not isinstance(term, dict) or not isinstance(term.get("value"), str):
        raise DataFormatError(f"{endpoint} gives a row without ?{name}")
    kind, value = term.get("type"), term["value"]
    if kind == "uri":
        return f"<{_NOT_IN_ADDRESSES.sub(_escaped, value)}>"
    if kind == "bnode":
        return f"_:{_NOT_IN_NAMES.sub('_', value)}"
    text = f'"{value.translate(_ESCAPES)}"'
    if term.get("xml:lang"):
        return f"{text}@{term['xml:lang']}"
    if term.get("datatype"):
        return f"{text}^^{_term({'type': 'uri', 'value': term['datatype']}, name, endpoint)}"
    return text


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04X}"
