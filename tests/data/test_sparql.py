"""A real HTTP server that answers SPARQL, copied page by page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from rulerag.cli import main
from rulerag.data import fetch_sparql
from rulerag.errors import ConfigError, DataError, DataFormatError
from rulerag.kg import KnowledgeGraph

rdflib = pytest.importorskip("rdflib")
compare = pytest.importorskip("rdflib.compare")

TURTLE = """
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:heat :directed_by :mann ; rdfs:label "Heat"@en ; :plot "Two lines\\nand a \\"quote\\"" .
:ali :directed_by :mann ; :year 2001 .
:mann rdfs:label "Michael Mann" ; :knows [ :age 3 ] .
"""


class Endpoint:
    """Answers queries on a graph; may be told to fail, to cap its pages, or to speak HTML."""

    def __init__(self) -> None:
        self.graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
        self.queries: list[str] = []
        self.failures: list[int] = []
        self.cap = 10**6
        self.html = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                query = parse_qs(body)["query"][0]
                outer.queries.append(query)
                if outer.failures:
                    self.send_error(outer.failures.pop(0), "not now")
                    return
                try:
                    said = json.loads(outer.graph.query(query).serialize(format="json"))
                except Exception as error:  # noqa: BLE001 - what a bad query raises
                    self.send_error(400, str(error)[:80].replace("\n", " "))
                    return
                said["results"]["bindings"] = said["results"]["bindings"][: outer.cap]
                text = "<html>Query form</html>" if outer.html else json.dumps(said)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/query"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint()
    threading.Thread(target=one.server.serve_forever, daemon=True).start()
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.mark.parametrize(("page", "cap"), [(1000, 10**6), (3, 10**6), (1000, 2)])
def test_every_triple_is_copied(endpoint: Endpoint, tmp_path: Path, page: int, cap: int) -> None:
    endpoint.cap = cap  # an endpoint may give fewer than are asked for
    count = fetch_sparql(endpoint.url, tmp_path / "films.nt", page=page)
    copied = rdflib.Graph().parse(tmp_path / "films.nt")
    assert count == len(endpoint.graph) == 8
    assert compare.isomorphic(copied, endpoint.graph)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["films.nt"]


def test_the_copy_is_a_graph_like_any_other(
    endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "films.nt"
    with pytest.raises(SystemExit) as stop:
        main(["data", "sparql", endpoint.url, "--out", str(out), "--quiet"])
    assert not stop.value.code
    assert "8 triples" in capsys.readouterr().out
    graph = KnowledgeGraph.load(out)
    facts = {fact[:3] for fact in graph.train}
    film = "http://films.example/"
    assert (f"{film}heat", f"{film}directed_by", f"{film}mann") in facts
    assert graph.entities.label(f"{film}mann") == "Michael Mann"


def test_a_pattern_takes_a_part(endpoint: Endpoint, tmp_path: Path) -> None:
    where = "?s ?p ?o . FILTER(?p = <http://films.example/directed_by>)"
    assert fetch_sparql(endpoint.url, tmp_path / "films.nt", where=where) == 2


def test_what_was_interrupted_goes_on(endpoint: Endpoint, tmp_path: Path) -> None:
    out = tmp_path / "films.nt"
    ask = endpoint.graph.query

    def cut(query: str) -> Any:
        if "OFFSET 4" in query:
            raise ValueError("cut")
        return ask(query)

    endpoint.graph.query = cut
    with pytest.raises(DataError, match="answers 400"):
        fetch_sparql(endpoint.url, out, page=2)
    assert not out.exists()
    part = out.with_suffix(".nt.part")
    part.write_bytes(part.read_bytes() + b"<http://torn")  # written after the last whole page
    endpoint.graph.query = ask
    endpoint.queries.clear()
    assert fetch_sparql(endpoint.url, out, page=2) == 8
    assert "OFFSET 4" in endpoint.queries[0]
    assert compare.isomorphic(rdflib.Graph().parse(out), endpoint.graph)


def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.failures = [503]
    assert fetch_sparql(endpoint.url, tmp_path / "films.nt") == 8


def test_faults_are_named(endpoint: Endpoint, tmp_path: Path) -> None:
    out = tmp_path / "films.nt"
    with pytest.raises(ConfigError, match="is no address"):
        fetch_sparql("films.example", out)
    with pytest.raises(ConfigError, match="no file of N-Triples"):
        fetch_sparql(endpoint.url, tmp_path / "films.csv")
    with pytest.raises(ConfigError, match=r"has no \?o"):
        fetch_sparql(endpoint.url, out, where="?s ?p 3")
    with pytest.raises(DataError, match="answers 400"):
        fetch_sparql(endpoint.url, out, where="?s ?p ?o . nonsense")
    with pytest.raises(DataError, match="no triple of this pattern"):
        fetch_sparql(endpoint.url, out, where="?s <http://nobody.example/> ?o . ?s ?p ?o")
    endpoint.html = True
    with pytest.raises(DataFormatError, match="does not answer in SPARQL's JSON"):
        fetch_sparql(endpoint.url, out)
    endpoint.server.shutdown()
    endpoint.server.server_close()
    with pytest.raises(DataError, match=r"cannot be reached"):
        fetch_sparql(endpoint.url, out, retries=0)
    assert not out.exists()


def test_no_line_can_be_smuggled_in(endpoint: Endpoint, tmp_path: Path) -> None:
    film = rdflib.URIRef("http://films.example/heat")
    text = 'end" .\n<http://evil.example/a> <http://evil.example/b> <http://evil.example/c> .'
    endpoint.graph.add((film, rdflib.URIRef("http://films.example/note"), rdflib.Literal(text)))
    assert fetch_sparql(endpoint.url, tmp_path / "films.nt") == 9
    copied = rdflib.Graph().parse(tmp_path / "films.nt")
    assert len(copied) == 9
    assert text in {str(value) for value in copied.objects()}
