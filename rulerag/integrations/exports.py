"""Answers and explanations for other programs: OpenTelemetry spans and samples of RAGAS.

References:
    OpenTelemetry protocol, JSON encoding; OpenInference semantic conventions, which Phoenix reads.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.error import HTTPError, URLError

from rulerag.errors import DataError, DataFormatError, needs_package

Row = Mapping[str, Any]


def ragas_samples(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """What ``ragas.EvaluationDataset.from_list`` takes, one sample for each answer.

    Args:
        rows: lines of ``answers.jsonl`` or ``explanations.jsonl``, as objects.

    Raises:
        DataFormatError: a row is neither.
    """
    samples = []
    for row in rows:
        question, answer, accepted = _parts(row)
        sample: dict[str, Any] = {"user_input": question, "response": answer}
        sample |= {"retrieved_contexts": [one["text"] for one in row["documents"]]}
        samples.append(sample | ({"reference": ", ".join(accepted)} if accepted else {}))
    return samples


def otlp_spans(
    rows: Iterable[Row], *, project: str = "rulerag", time_ns: int | None = None
) -> dict[str, Any]:
    """Spans as a collector's file of JSON holds them: a trace for each answer.

    Under the answer stand the retrieval with its documents and, of an explanation, one span for
    each claim with the smallest sets of documents that it rests on. The same rows give the same
    trace ids.

    Args:
        rows: lines of ``answers.jsonl`` or ``explanations.jsonl``, as objects.
        project: what Phoenix lists them under.
        time_ns: of the first span, since 1970; now when None.

    Raises:
        DataFormatError: a row is neither.
    """
    start = time.time_ns() if time_ns is None else time_ns
    spans = [span for n, row in enumerate(rows) for span in _trace(row, start + n * 10**6)]
    names = {"service.name": "rulerag", "openinference.project.name": project}
    scope = {"scope": {"name": "rulerag"}, "spans": spans}
    return {"resourceSpans": [{"resource": _attributes(names), "scopeSpans": [scope]}]}


def send_spans(spans: Mapping[str, Any], endpoint: str) -> None:
    """Send spans to a server that takes OTLP over HTTP, such as Phoenix.

    Args:
        spans: what :func:`otlp_spans` gave.
        endpoint: the address, with ``/v1/traces`` at its end.

    Raises:
        DataError: the server cannot be reached, or refuses them.
        MissingDependencyError: opentelemetry-proto is not installed.
    """
    with needs_package("opentelemetry-proto", "traces"):
        parse = importlib.import_module("google.protobuf.json_format").ParseDict
        service = importlib.import_module(
            "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
        )

    binary = json.loads(json.dumps(spans), object_hook=_with_binary_ids)
    body = parse(binary, service.ExportTraceServiceRequest()).SerializeToString()
    kind = {"Content-Type": "application/x-protobuf"}
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, body, kind), timeout=30).close()
    except (HTTPError, URLError, OSError, ValueError) as error:
        raise DataError(
            f"{endpoint}: the spans were not taken ({error})",
            hint="an address such as http://localhost:6006/v1/traces",
        ) from error


def _with_binary_ids(value: dict[str, Any]) -> dict[str, Any]:
    """Ids are hexadecimal in OTLP's JSON, and bytes in protobuf's."""
    ids = {key: value[key] for key in ("traceId", "spanId", "parentSpanId") if key in value}
    return value | {key: base64.b64encode(bytes.fromhex(one)).decode() for key, one in ids.items()}


def _parts(row: Row) -> tuple[str, str, Sequence[str]]:
    """Question, answer and accepted answers of a line of either file."""
    for keys in (("query", "answer", "answers"), ("question", "text", "accepted")):
        if {*keys, "documents"} <= row.keys():
            question, answer, accepted = (row[key] for key in keys)
            return question, answer, accepted
    raise DataFormatError(
        "no line of answers.jsonl or explanations.jsonl",
        hint="what rulerag answer --out or rulerag explain --out wrote",
    )


def _trace(row: Row, start: int) -> Iterator[dict[str, Any]]:
    """The spans of one answer."""
    question, answer, accepted = _parts(row)
    trace = hashlib.sha256(json.dumps(row, sort_keys=True, default=str).encode()).hexdigest()
    root = trace[:16]

    def span(name: str, kind: str, attributes: Row, place: int) -> dict[str, Any]:
        own = {"openinference.span.kind": kind, **attributes}
        under = {"parentSpanId": root} if place else {}
        return {
            "traceId": trace[:32],
            "spanId": f"{int(root, 16) ^ place:016x}",
            **under,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(start + place * 1000),
            "endTimeUnixNano": str(start + (place * 1000 + 999 if place else 999_999)),
            "status": {"code": 1},
            **_attributes(own),
        }

    keys = ("query_id", "rules", "fingerprints", "notes")
    about = {key: row[key] for key in keys if row.get(key)} | {"accepted": list(accepted)}
    values = {"input.value": question, "output.value": answer, "metadata": json.dumps(about)}
    yield span("rulerag answer", "CHAIN", values, 0)
    retrieval: dict[str, Any] = {"input.value": question}
    for place, one in enumerate(row["documents"]):
        key = f"retrieval.documents.{place}.document"
        retrieval |= {f"{key}.id": one["id"], f"{key}.content": one["text"]}
        if isinstance(one.get("score"), float):
            retrieval[f"{key}.score"] = one["score"]
        retrieval[f"{key}.metadata"] = json.dumps({"found_by": one.get("found_by") or []})
    yield span("retrieval", "RETRIEVER", retrieval, 1)
    for place, claim in enumerate(row.get("claims") or (), 2):
        ids = {one["index"]: one["id"] or str(one["index"]) for one in row["documents"]}
        sets = {
            kind: [[ids[source] for source in one["documents"]] for one in claim[kind]]
            for kind in ("retention", "omission")
        }
        rests = " or ".join(" and ".join(one) for one in sets["retention"])
        found = {"input.value": claim["text"], "output.value": rests, "metadata": json.dumps(sets)}
        yield span("explanation", "EVALUATOR", found, place)


def _attributes(values: Row) -> dict[str, Any]:
    return {
        "attributes": [
            {"key": key, "value": {"doubleValue" if isinstance(one, float) else "stringValue": one}}
            for key, one in values.items()
        ]
    }
