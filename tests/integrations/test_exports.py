"""Answers and explanations as spans that a server takes, and as samples of RAGAS."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly import make_pipeline, preset
from rulerag.cli import main
from rulerag.errors import DataError, DataFormatError
from rulerag.explanation.explaining import explain_answer
from rulerag.integrations import otlp_spans, ragas_samples, read_trace, send_spans
from rulerag.io import read_jsonl, write_jsonl
from rulerag.ruleqa import build
from rulerag.synthetic import World

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rows() -> tuple[Rows, Rows]:
    """Two answers, and their explanations, as the commands write them."""
    dataset = build("ruleqa-i", World.generate(900, seed=1).graph)
    pipeline = make_pipeline(preset("x", rules="guided"), dataset)
    answers = pipeline.answer(dataset.query_set("full")[:2])
    explained = [explain_answer(one, pipeline.generator).to_json() for one in answers]
    return [json.loads(json.dumps(one.to_json())) for one in answers], explained


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A server that keeps what it is sent, and refuses what is no protobuf."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            fits = self.path == "/v1/traces" and "protobuf" in self.headers["content-type"]
            self.send_response(200 if fits else 415)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
        server.shutdown()


def values(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.double_value for one in span.attributes}


def test_a_server_of_opentelemetry_gets_answer_documents_and_claims(
    rows: tuple[Rows, Rows], collector: tuple[str, list[bytes]]
) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    address, bodies = collector
    _, explained = rows
    send_spans(otlp_spans(explained, project="mine", time_ns=10**18), address)
    request = service.ExportTraceServiceRequest.FromString(bodies[0])
    (group,) = request.resource_spans
    assert values(group.resource)["openinference.project.name"] == "mine"
    spans = group.scope_spans[0].spans
    assert len({span.trace_id for span in spans}) == 2
    assert len({span.span_id for span in spans}) == len(spans)
    first = [span for span in spans if span.trace_id == spans[0].trace_id]
    root, retrieval, *claims = first
    assert [span.parent_span_id for span in first[1:]] == [root.span_id] * (len(first) - 1)
    assert values(root)["output.value"] == explained[0]["text"]
    assert json.loads(values(root)["metadata"])["accepted"] == list(explained[0]["accepted"])
    for place, document in enumerate(explained[0]["documents"]):
        key = f"retrieval.documents.{place}.document.content"
        assert values(retrieval)[key] == document["text"]
    sets = json.loads(values(claims[0])["metadata"])["retention"]
    ids = [one["id"] for one in explained[0]["documents"]]
    expected = explained[0]["claims"][0]["retention"]
    assert sets == [[ids[n] for n in one["documents"]] for one in expected] != []
    assert all(root.start_time_unix_nano <= one.start_time_unix_nano for one in first)
    assert all(one.end_time_unix_nano <= root.end_time_unix_nano for one in first)


def test_spans_that_are_refused_and_rows_that_are_none(
    rows: tuple[Rows, Rows], collector: tuple[str, list[bytes]]
) -> None:
    pytest.importorskip("opentelemetry.proto")
    spans = otlp_spans(rows[0])
    with pytest.raises(DataError, match=r"not taken .*415"):
        send_spans(spans, collector[0].replace("traces", "logs"))
    with pytest.raises(DataError, match=r"not taken .* such as http"):
        send_spans(spans, "localhost")
    for make in (otlp_spans, ragas_samples):
        with pytest.raises(DataFormatError, match=r"no line of answers\.jsonl or explanations"):
            make([{"query": "a"}])  # type: ignore[operator]


def test_files_are_read_by_ragas_and_as_traces(
    rows: tuple[Rows, Rows], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, explained = rows
    write_jsonl(tmp_path / "answers.jsonl", answers)
    write_jsonl(tmp_path / "explanations.jsonl", explained)

    def run(*words: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as end:
            main(["export", *words])
        return end.value.code, "".join(capsys.readouterr())

    file, samples = str(tmp_path / "answers.jsonl"), tmp_path / "samples.jsonl"
    assert run(file, "--format", "ragas", "--out", str(samples))[0] == 0
    assert ragas_samples(explained) == list(read_jsonl(samples))
    assert run(file, "--out", str(tmp_path / "spans.json"))[0] == 0
    with pytest.raises(DataFormatError, match="spans of 2 traces"):
        read_trace(tmp_path / "spans.json")
    assert run(file) == (
        2,
        "error: key 'out': neither a file nor a server — --out FILE, or --to URL\n",
    )
    assert run(file, "--format", "ragas", "--to", "http://x")[0] == 2
    (tmp_path / "empty.jsonl").touch()
    assert "holds no answer" in run(str(tmp_path / "empty.jsonl"), "--out", "x")[1]
    if find_spec("ragas") is None:
        pytest.skip("ragas is not installed")
    # In a process of its own: where RAGAS is imported, event loops are left open.
    code = "import json, sys; from ragas import EvaluationDataset as Data; " + (
        "rows = [json.loads(line) for line in open(sys.argv[1])]; "
        "print(json.dumps([one.response for one in Data.from_list(rows).samples]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(samples)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [one["answer"] for one in answers]


def test_the_same_rows_have_the_same_trace(rows: tuple[Rows, Rows]) -> None:
    once, again = (otlp_spans(rows[0], time_ns=5) for _ in range(2))
    assert once == again
