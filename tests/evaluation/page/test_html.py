"""The report page: complete, escaped, self-contained, and honest about what it was given."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rulerag.errors import DataFormatError, OutputError
from rulerag.evaluation.page.html import render_report, rule_rows, write_report
from rulerag.evaluation.page.svg import (
    confidence_mark,
    document_roles,
    evidence_flow,
    recall_curves,
)
from rulerag.explanation.records.certificates import Certificate, NamedRule
from rulerag.explanation.report.explain import explain_answer
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import (
    Answer,
    Document,
    Fact,
    GenerationRequest,
    Query,
    RuleHit,
    ScoredDocument,
)

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps the text and the counts of tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def rule(relation: str, *body: Atom, confidence: float = 0.5, support: int = 10) -> Rule:
    head = Atom(relation, "?x", "?y")
    return Rule(head, body, quality=RuleQuality(support=support, pca_confidence=confidence))


CONSULT = rule("visits", Atom("consults", "?x", "?y"), confidence=0.9)
PRAISE = rule("visits", Atom("praises", "?y", "?x"), confidence=0.4)
CHAIN = rule("lives_in", Atom("works_at", "?x", "?z"), Atom("seat", "?z", "?y"), confidence=0.7)


@pytest.fixture(scope="module")
def explanation() -> dict[str, Any]:
    """A real explanation: two documents that name France, found by two rules, and one idle one."""
    texts = [
        ("consults", "Oslo", "France"),
        ("praises", "France", "Oslo"),
        ("blames", "Oslo", "Iran"),
    ]
    documents = [
        Document(f"d{n}", f"{s} {r} {o} <b>&.", (Fact(s, r, o),))
        for n, (r, s, o) in enumerate(texts)
    ]
    hits = [
        (RuleHit(CONSULT.id, 1, 3.0, 0),),
        (RuleHit(PRAISE.id, 1, 2.0, 0),),
        (RuleHit(None, 1, 1.0),),
    ]
    query = Query("q<1>", "whom does Oslo visit ?", "Oslo", "visits", answers=("France",))
    reader = SymbolicReader()
    request = GenerationRequest(query, tuple(documents), (CONSULT, PRAISE))
    scored = [
        ScoredDocument(document, 3.0 - n, n + 1, found)
        for n, (document, found) in enumerate(zip(documents, hits, strict=True))
    ]
    answer = Answer(query, reader.generate([request])[0], tuple(scored), (CONSULT, PRAISE))
    return json.loads(json.dumps(explain_answer(answer, reader).to_json()))  # type: ignore[no-any-return]


def result(method: str, **metrics: float) -> dict[str, Any]:
    names = {"r1": "answer_recall@1", "r10": "answer_recall@10", "em": "exact_match"}
    return {
        "method": method,
        "num_queries": 1559,
        "metrics": {names[key]: value for key, value in metrics.items()},
        "seconds": {"total": 12.34},
        "config": {},
    }


def test_an_empty_page_is_a_page() -> None:
    page = Outline(render_report(title="Nothing yet"))
    assert page.tags["h1"] == 1 and page.tags["section"] == 0
    assert "Nothing yet" in page.text


def test_the_page_holds_everything_it_was_given(explanation: dict[str, Any]) -> None:
    results = [result("plain", r1=0.2, r10=0.4, em=0.1), result("guided", r1=0.3, r10=0.5, em=0.3)]
    results[0]["config"] = {"expected": {"exact_match": {"value": 0.3, "tolerance": 0.01}}}
    page = Outline(
        render_report(
            title="A world",
            lead="One sentence.",
            facts=[("facts", 12345), ("seed", 0)],
            results=results,
            rules=rule_rows([CONSULT, CHAIN], [(CONSULT, 0.88), (PRAISE, 0.5)]),
            explanations=[explanation],
            command="rulerag demo --seed 0",
            about=[("question", "whom does Oslo visit ?"), ("date", "2025-01-02 03:04")],
            notes=["A note."],
        )
    )
    for text in ("One sentence.", "12,345", "rulerag demo --seed 0", "A note.", "1,559", "12.3"):
        assert text in page.text
    for text in ("40.0", "50.0", "not met", "± 1.0"):
        assert text in page.text
    for text in ("88.0", "90.0", "+2.0", "missed", "not planted", "works at", "correct"):
        assert text in page.text
    assert explanation["sentence"] in page.text
    assert explanation["omission_sentence"] in page.text
    assert explanation["scope"] in page.text and "2025-01-02 03:04" in page.text
    assert "confidence 0.90, support 10" in page.text
    assert page.tags["svg"] == 1 + 3 + 1  # the curves, a mark a rule, the flow


def test_the_page_loads_nothing_and_runs_nothing(explanation: dict[str, Any]) -> None:
    page = render_report(
        title="t", results=[result("m", r1=0.1, r10=0.2)], explanations=[explanation]
    )
    tags = Outline(page).tags
    assert not {"script", "link", "img", "iframe", "object"} & tags.keys()
    assert not re.search(r"https?:|url\(|@import|src=|\son\w+=", page)


def test_two_benchmarks_have_a_drawing_each() -> None:
    results = [result("m", r1=0.1, r10=0.2) | {"benchmark": name} for name in ("north", "south")]
    page = Outline(render_report(title="t", results=results))
    assert page.tags["svg"] == page.tags["figcaption"] == 2
    assert "by benchmark" in page.text
    alone = Outline(render_report(title="t", results=results[:1]))
    assert (alone.tags["svg"], alone.tags["figcaption"]) == (1, 0)


def test_texts_are_escaped_everywhere(explanation: dict[str, Any]) -> None:
    evil = "<script>alert('x')</script> & \"q\""
    told = copy.deepcopy(explanation)
    told |= dict.fromkeys(("query", "answer", "sentence", "omission_sentence", "query_id"), evil)
    told["answers"] = [evil]
    told["rules"][0]["text"] = evil
    told["documents"][0] |= {"text": evil, "id": evil}
    page = render_report(
        title=evil,
        lead=evil,
        facts=[(evil, evil)],
        results=[result(evil, r1=0.1, r10=0.3)],
        rules=[{"text": evil, "planted": 0.1, "mined": 0.2, "support": 3}],
        explanations=[told],
        command=evil,
        notes=[evil],
    )
    assert "<script" not in page
    outline = Outline(page)
    assert outline.tags["script"] == 0
    assert outline.text.count("<script>alert(") >= 12


def test_rules_are_drawn_with_their_parts_or_left_as_they_are() -> None:
    page = Outline(render_report(title="t", rules=rule_rows([CHAIN])))
    assert (
        "Entity 1 works at Entity 3 and Entity 3 seat Entity 2 → Entity 1 lives in Entity 2"
        in page.text
    )
    assert "planted" not in page.text
    odd = Outline(render_report(title="t", rules=[{"text": "if a then b", "mined": 0.5}]))
    assert "if a then b" in odd.text


def test_rule_rows_put_planted_rules_first() -> None:
    rows = rule_rows([CHAIN, PRAISE, CONSULT], [(PRAISE, 0.42)])[:2]
    assert [(row["id"], row["planted"], row["mined"]) for row in rows] == [
        (PRAISE.id, 0.42, 0.4),
        (CONSULT.id, None, 0.9),
    ]
    missed = rule_rows([], [(CHAIN, 0.5)])[0]
    assert (missed["mined"], missed["support"]) == (None, None)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("text")]


def test_the_flow_shows_who_found_what_and_what_it_does(explanation: dict[str, Any]) -> None:
    assert explanation["retention"] == [["D1"], ["D2"]]
    svg = evidence_flow(explanation)
    root = ElementTree.fromstring(svg)
    boxes = Counter(node.get("class") for node in root.iter("g"))
    assert boxes == {
        "box rule": 2,
        "box question": 1,
        "box document supporting": 2,
        "box document unused": 1,
        "box answer": 1,
    }
    edges = Counter(node.get("class") for node in root.iter("path"))
    assert edges["edge found supporting"] == edges["edge read supporting"] == 2
    assert edges["edge found unused"] == edges["edge read unused"] == 1
    tips = [node.text for node in root.iter("title")]
    assert "R1 → D1: rank 1, score 3" in tips and "the question → D3: rank 1, score 1" in tips
    assert {"R1", "R2", "Q", "D1", "D2", "D3", "France"} <= set(texts(svg))


def test_the_flow_copes_with_strange_explanations(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    told["answer"] = ""
    told["rules"] = []
    (removed, *_) = told["certificates"]["omission"]
    told["certificates"] = {
        "retention": [],
        "omission": [removed | {"names": ["D1", "the rest"]}],
    }
    told["documents"][0]["text"] = "word " * 200
    told["documents"][2]["found_by"] = []
    svg = evidence_flow(told)
    assert "(none)" in texts(svg)
    assert max(map(len, texts(svg))) < 80
    assert 'class="box document removable"' in svg
    assert texts(evidence_flow(told | {"documents": []})).count("(none)") == 1


def shown_rule(names: list[str], **more: object) -> dict[str, Any]:
    """A certified rule as it stands in a record."""
    certificate = Certificate("certified", 0.95, 0.95, "uniform", 73, 73, 0.95, "shown")
    return {**NamedRule(tuple(names), certificate).to_json(), **more}


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables of rules behind a heading, as texts."""
    parts = page.partition("Rules and documents in full")[0].split('<p class="small">')
    (table,) = [part for part in parts if heading in part]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in rows]
    return [[re.sub("<[^>]+>", "", cell).strip() for cell in row] for row in cells if row]


def test_the_page_shows_the_certificate_of_each_rule(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    told["certificates"]["retention"] = [
        shown_rule(["D1"]),
        shown_rule(["D2", "D3"], minimality="not shown"),
        shown_rule(
            ["D3"],
            kind="tested",
            successes=60,
            bound=0.7312,
            counterexamples=[["D1"]],
            minimality="untested",
        ),
        shown_rule(["D2"], kind="untested", samples=0, successes=0, minimality="untested"),
    ]
    page = render_report(title="t", explanations=[told])
    assert "stands, as far as shown, when these are kept" in page
    assert "Random subsets: uniform over the subsets of the other sources" in page
    rows = rows_of(page, "stands, as far as shown")
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["D1"][1] == "95 %" and by_name["D1"][2] == "minimal, shown"
    assert "held in 73 of 73 random subsets, confidence 95 %" in by_name["D1"][0]
    assert by_name["D2 + D3"][2] == "not shown to be minimal"
    assert by_name["D3"][0] == "held in 60 of 73 random subsets: 95 % is not shown"
    assert by_name["D3"][1] == "73.1 %" and by_name["D3"][3] == "with D1 removed"
    assert by_name["D2"][:2] == ["not tested", "–"]


def test_exact_rules_alone_stand_whenever(explanation: dict[str, Any]) -> None:
    page = render_report(title="t", explanations=[explanation])
    assert "The answer France stands whenever these are kept" in page
    assert rows_of(page, "The answer France stands whenever")[0][:3] == [
        "D1",
        "all 4 subsets",
        "100 %",
    ]


def test_many_rules_share_their_common_part_and_the_rest_is_folded(
    explanation: dict[str, Any],
) -> None:
    told = copy.deepcopy(explanation)
    sets = [["D1", f"D{n}", f"D{n + 1}"] for n in range(2, 14)] + [["D1", "D20"], ["D30"]]
    told["certificates"]["retention"] = [shown_rule(names) for names in sets]
    page = render_report(title="t", explanations=[told])
    rows = rows_of(page, "stands, as far as shown")
    assert [row[0] for row in rows[:3]] == ["D30", "… + D20", "… + D2 + D3"]
    assert "together with D1" in page
    folded = page[page.index("and 4 more") :]
    assert "… + D13 + D14" in folded and "… + D13 + D14" not in page[: page.index("and 4 more")]


def test_sentences_mark_their_documents_in_page_and_picture(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    told["certificates"] = {
        "retention": [shown_rule(["D1.2"])],
        "omission": [shown_rule(["D1.2", "D3.1"])],
    }
    assert document_roles(told) == {"D1": "supporting", "D2": "unused", "D3": "removable"}
    root = ElementTree.fromstring(evidence_flow(told))
    boxes = [node.get("class") for node in root.iter("g")]
    assert boxes.count("box document supporting") == boxes.count("box document removable") == 1
    page = render_report(title="t", explanations=[told])
    assert '<tr class="supporting">' in page and '<tr class="removable">' in page


def test_rules_without_a_test_mark_no_document(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    for kind in ("retention", "omission"):
        told["certificates"][kind] = [shown_rule(["D1"], kind="untested", samples=0)]
    assert set(document_roles(told).values()) == {"unused"}


def test_a_wrong_answer_is_called_wrong_on_the_page(explanation: dict[str, Any]) -> None:
    right = render_report(title="t", explanations=[explanation])
    assert ">correct</span>" in right
    wrong = explanation | {"answers": ["Iran"], "right": False}
    page = render_report(title="t", explanations=[wrong])
    assert ">wrong</span>" in page and "Accepted: Iran." in page
    unknown = render_report(title="t", explanations=[explanation | {"answers": [], "right": None}])
    assert "correct" not in unknown and ">wrong</span>" not in unknown


def test_an_explanation_that_is_none_is_told() -> None:
    with pytest.raises(DataFormatError, match=r"key 'documents': this key is missing"):
        render_report(title="t", explanations=[{"answer": "France"}])


def test_curves_name_every_method_apart() -> None:
    names = ["a", "b", "c", "d"]
    svg = recall_curves({name: [(1, 0.2), (10, 0.5)] for name in names})
    root = ElementTree.fromstring(svg)
    labels = [node for node in root.iter("text") if (node.get("class") or "").startswith("name")]
    heights = [float(node.get("y") or 0) for node in labels]
    assert [node.text for node in labels] == [f"{name}  50.0" for name in names]
    assert all(b - a >= 15 for a, b in itertools.pairwise(heights))
    assert recall_curves({"zero": [(1, 0.0), (2, 0.0)]})


def test_marks_stand_where_the_confidence_is() -> None:
    root = ElementTree.fromstring(confidence_mark(1.0, 0.0))
    assert [node.get("d") for node in root.iter("path")][1] == "M116.0,3 V17"
    assert [node.get("cx") for node in root.iter("circle")] == ["4.0"]
    assert root.get("aria-label") == "planted 1.000, mined 0.000"
    assert len(list(ElementTree.fromstring(confidence_mark(None, None)))) == 1


def test_the_same_parts_make_the_same_page(tmp_path: Path, explanation: dict[str, Any]) -> None:
    for name in ("one.html", "two.html"):
        write_report(tmp_path / name, title="t", explanations=[explanation])
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    with pytest.raises(OutputError):
        write_report(tmp_path / "one.html" / "x.html", title="t")


def test_the_picture_of_the_readme_is_well_formed() -> None:
    path = Path(__file__).resolve().parents[3] / "docs" / "flow.svg"
    root = ElementTree.parse(path).getroot()
    words = " ".join("".join(node.itertext()) for node in root.iter())
    for step in ("Knowledge graph", "Mine rules", "Retrieve", "Read", "Explain"):
        assert step in words
    assert "http" not in path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
