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
from rulerag.evaluation.page.svg import confidence_mark, recall_curves
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

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps the text and the counts of tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.words: list[str] = []
        self.ids: list[str | None] = []
        self.feed(page)
        self.close()
        assert self.open == [] and len(self.ids) == len(set(self.ids))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)) and not any(name.startswith("on") for name in names)
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
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


def prediction(
    question: str, answer: str, accepted: list[str], texts: list[str], **metrics: float
) -> dict[str, Any]:
    """A line of ``predictions.jsonl``; each document was found by the question alone."""
    found = [{"rule": None, "rank": 1, "score": 1.0, "atom": None}]
    return {
        "query_id": question,
        "query": question,
        "answer": answer,
        "answers": accepted,
        "documents": [
            {"id": f"{question} {n}", "text": text, "rank": n, "score": 1.0, "found_by": found}
            for n, text in enumerate(texts, start=1)
        ],
        "rules": [],
        "metrics": {"exact_match": float(answer in accepted), **metrics},
    }


def test_the_page_holds_everything_it_was_given(explanation: dict[str, Any]) -> None:
    results = [result("plain", r1=0.2, r10=0.4, em=0.1), result("guided", r1=0.3, r10=0.5, em=0.3)]
    results[0]["config"] = {"expected": {"exact_match": {"value": 0.3, "tolerance": 0.01}}}
    page = Outline(
        render_report(
            title="A world",
            glance=[("asked", "12,345 things"), ("cost", "little")],
            results=results,
            rules=rule_rows([CONSULT, CHAIN], [(CONSULT, 0.88), (PRAISE, 0.5)]),
            explanations=[explanation],
            about=[("command", "rulerag demo --seed 0"), ("date", "2025-01-02 03:04")],
        )
    )
    for text in ("12,345 things", "rulerag demo --seed 0", "2025-01-02 03:04", "1,559", "12.3"):
        assert text in page.text
    for text in ("40.0", "50.0", "not met", "± 1.0"):
        assert text in page.text
    for text in ("88.0", "90.0", "+2.0", "missed", "not planted", "works at", "right"):
        assert text in page.text
    assert explanation["sentence"] in page.text
    assert explanation["omission_sentence"] in page.text
    assert "No other document of the corpus was looked at." in page.text
    assert "confidence 0.90, support 10" in page.text
    assert page.tags["svg"] == 1 + 3 + 2  # the curves, a mark a rule, the flow and the lattice


def first_screen(page: str) -> str:
    """What stands in the head of a page, in words."""
    return " ".join(
        re.sub("<[^>]+>", " ", page.partition("<header>")[2].partition("</header>")[0]).split()
    )


def test_the_first_screen_of_an_answer_says_all_five(explanation: dict[str, Any]) -> None:
    told = first_screen(render_report(title="Why this answer", explanations=[explanation]))
    assert told.startswith("Why this answer whom does Oslo visit ? answered France right why ")
    assert explanation["sentence"].replace("'", "&#39;") in told
    quotes = told.partition(" why ")[2].partition(" how sure ")[0]
    assert "D1 Oslo consults France &lt;b&gt;&amp;." in quotes and "blames" not in quotes
    assert "how sure Certain: it holds for all 8 subsets of the 3 sources." in told
    assert f"cost {explanation['num_probes']} subsets asked of the generator, " in told


def test_the_first_screen_of_a_run_says_all_five() -> None:
    rows = [prediction(f"q{n}", "a" if n < 3 else "b", ["a"], ["an a"]) for n in range(4)]
    one = result("guided", em=0.75) | {"num_queries": 4, "benchmark": "north"}
    one["seconds"] = {"load": 1.0, "retrieve": 2.0, "generate": 0.25, "total": 3.25}
    told = first_screen(render_report(title="t", results=[one], predictions=[rows]))
    # Wilson by hand, 3 of 4: (0.75 + 0.4802) / 1.9604 ± ... is 30.1 to 95.4 per cent.
    assert told == (
        "rulerag t asked 4 questions of north answered 3 right, 75.0 % why 1 wrong: "
        "1 retrieved but not read how sure between 30.1 % and 95.4 % right on questions of this "
        "kind, with 95 % confidence cost 3.2 s (1.0 loading, 2.0 retrieving, 0.2 answering)"
    )


def test_the_first_screen_of_several_answers_counts_them(explanation: dict[str, Any]) -> None:
    wrong = explanation | {"answers": ["Iran"], "right": False}
    told = first_screen(render_report(title="t", explanations=[explanation, wrong]))
    assert "asked 2 questions answered 1 right, 1 wrong why 2 of 2 stand as long as one" in told
    assert "2 of 2 searches came to their end" in told


def test_wrong_answers_stand_beside_right_ones_with_where_the_accepted_one_is(
    explanation: dict[str, Any],
) -> None:
    wrong = explanation | {"answers": ["Iran"], "right": False}
    lost = explanation | {"answers": ["Peru"], "right": False}
    page = render_report(title="t", explanations=[explanation, wrong, lost])
    columns = page.partition('<section id="answers">')[2].partition("</section>")[0]
    right, _, others = columns.partition("<h3>Wrong (2)</h3>")
    assert "<h3>Right (1)</h3>" in right and 'href="#answer-1"' in right
    assert 'href="#answer-2"' in others and 'href="#answer-3"' in others
    assert "Accepted: Iran; it stands in D3." in others
    assert "Accepted: Peru; it stands in no document that was read." in others
    assert {"answer-1", "answer-2", "answer-3"} <= set(Outline(page).ids)


def test_a_run_of_one_method_has_a_row_a_measure_with_its_interval_and_meaning() -> None:
    rows = [prediction(f"q{n}", "a" if n < 3 else "b", ["a"], ["an a"]) for n in range(4)]
    page = render_report(title="t", results=[result("m", em=0.75)], predictions=[rows])
    outline = Outline(page)
    assert "EM 75.0 30.1 to 95.4 the normalised answer equals an acceptable one" in outline.text
    assert "none is picked" in outline.text and "misled by another document 0 0.0 %" in outline.text
    bare = Outline(render_report(title="t", results=[result("m", em=0.75)]))
    assert "EM 75.0 the normalised answer equals" in bare.text


def test_wrong_answers_of_a_run_stand_by_what_they_show() -> None:
    rows = [
        prediction("who sang it in Oslo", "Anna", ["Anna"], ["Anna sang it"]),
        prediction("who wrote it in Oslo", "Otto", ["Emil"], ["Otto sang", "Emil wrote", "x"]),
        prediction("who drew it in Lima", "", ["Ida"], ["Ida drew"]),
        prediction("who saw it", "Ole", ["Nils"], ["Ole saw"], **{"answer_recall@10_union": 1.0}),
        prediction("who knows", "Ole", [], ["Ole saw"]),
    ]
    one = result("m", em=0.25) | {"benchmark": "north"}
    page = render_report(title="t", results=[one], predictions=[rows])
    text = Outline(page).text
    assert "5 questions of north, 4 of them with an accepted answer" in text
    assert (
        "3 wrong: 1 misled by another document, 1 retrieved but not read, 1 not retrieved" in text
    )
    pairs = text.partition("Wrong answers beside right ones")[2]
    misled = pairs.partition("Misled by another document")[2].partition("Retrieved but not")[0]
    assert "who wrote it in Oslo Otto wrong Accepted: Emil D1 Otto sang holds the answer" in misled
    assert "D2 Emil wrote holds the accepted answer Emil" in misled
    assert "1 other document read" in misled and "who sang it in Oslo Anna right" in misled
    assert "who drew it in Lima (no answer) wrong" in pairs
    assert "a document that holds it was found, and cut off before reading" in pairs


def test_a_document_is_found_by_the_rule_that_it_states() -> None:
    row = prediction("who", "Otto", ["Emil"], ["Otto sang. Emil wrote"])
    row["rules"] = [{"id": "r1", "text": "it sings"}, {"id": "r2", "text": "it writes"}]
    row["documents"][0]["found_by"] = [
        {"rule": "r1", "rank": 1, "score": 9.0, "atom": None},
        {"rule": "r2", "rank": 7, "score": 1.0, "atom": 0},
    ]
    page = render_report(title="t", results=[result("m", em=0.0)], predictions=[[row]])
    assert "found by the rule it writes" in page and "it sings" not in page
    assert "No answer of the run is right." in page


def test_the_page_loads_nothing_and_runs_nothing(explanation: dict[str, Any]) -> None:
    page = render_report(
        title="t", results=[result("m", r1=0.1, r10=0.2)], explanations=[explanation]
    )
    tags = Outline(page).tags
    assert not {"script", "link", "img", "iframe", "object"} & tags.keys()
    page = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import|src=|\son\w+=", page)


def test_two_benchmarks_have_a_drawing_each() -> None:
    results = [result("m", r1=0.1, r10=0.2) | {"benchmark": name} for name in ("north", "south")]
    page = Outline(render_report(title="t", results=results))
    assert page.tags["svg"] == page.tags["figcaption"] == 2
    assert "read, north" in page.text and "read, south" in page.text
    alone = Outline(render_report(title="t", results=results[:1]))
    assert (alone.tags["svg"], alone.tags["figcaption"]) == (1, 1) and "read, " not in alone.text


EVIL = "<script>alert('x')</script> & \"q\" \x07"


def test_texts_are_escaped_everywhere(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    told |= dict.fromkeys(("query", "answer", "claim", "counterclaim", "query_id"), EVIL)
    told["answers"] = [EVIL]
    told["rules"][0]["text"] = EVIL
    told["documents"][0] |= {"text": EVIL, "id": EVIL, "title": EVIL}
    page = render_report(
        title=EVIL,
        glance=[(EVIL, EVIL)],
        results=[result(EVIL, r1=0.1, r10=0.3)],
        predictions=[
            [prediction(EVIL, EVIL, [EVIL], [EVIL]), prediction(EVIL, "b", [EVIL], [EVIL])]
        ],
        rules=[{"text": EVIL, "planted": 0.1, "mined": 0.2, "support": 3}],
        explanations=[told, told],
        about=[(EVIL, EVIL)],
    )
    assert "<script" not in page and "\x07" not in page
    outline = Outline(page)
    assert outline.tags["script"] == 0
    assert outline.text.count("<script>alert(") >= 20


def test_scripts_that_run_from_the_right_and_letters_of_all_kinds(
    explanation: dict[str, Any],
) -> None:
    told = copy.deepcopy(explanation)
    arabic, japanese = "من زار القاهرة؟", "東京は日本の首都です。"
    told |= {"query": arabic, "answer": japanese, "answers": [japanese]}
    told["documents"][0] |= {"text": arabic, "title": japanese}
    page = render_report(title="t", explanations=[told])
    assert f'<h1 dir="auto">{arabic}</h1>' in page and f'<q dir="auto">{arabic}</q>' in page
    assert f"<b>D1 {japanese}</b>" in page and 'direction="rtl"' in page


def test_a_document_without_text_is_named_all_the_same(explanation: dict[str, Any]) -> None:
    told = copy.deepcopy(explanation)
    for document in told["documents"]:
        document["text"] = " "
    text = Outline(render_report(title="t", explanations=[told])).text
    assert "D1 (empty)" in text and "D1 (no text)" in text
    none = told | {
        "documents": [],
        "sources": [],
        "certificates": {"retention": [], "omission": []},
    }
    assert "The answer rests on no single document" in render_report(title="t", explanations=[none])


def test_two_hundred_documents_fit_and_those_without_effect_are_folded() -> None:
    query = Query("q", "whom does Oslo visit ?", "Oslo", "visits", answers=("France",))
    facts = [Fact("Oslo", "consults", "France"), *(Fact("Oslo", "blames", "Iran"),) * 199]
    documents = [
        Document(f"d{n}", f"{f.subject} {f.relation} {f.object}. " * 30, (f,), f"Title {n}")
        for n, f in enumerate(facts)
    ]
    scored = [ScoredDocument(one, 1.0, n) for n, one in enumerate(documents, start=1)]
    reader = SymbolicReader()
    completion = reader.generate([GenerationRequest(query, tuple(documents), (CONSULT,))])[0]
    answer = Answer(query, completion, tuple(scored), (CONSULT,))
    told = explain_answer(answer, reader, validity=0.9).to_json()
    page = render_report(title="t", explanations=[told] * 10)
    assert len(page) < 2_000_000
    assert "The first 4 of 10: a page has no room for more" in page and "10 questions" in page
    assert "199 documents that make no difference" in page and "D1 Title 0" in page
    assert "195 further documents are not drawn" in page
    assert "how sure Shown on random subsets of the documents: a bound is" in first_screen(
        render_report(title="t", explanations=[told])
    )


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


def shown_rule(names: list[str], **more: object) -> dict[str, Any]:
    """A certified rule as it stands in a record."""
    certificate = Certificate("certified", 0.95, 0.95, "uniform", 73, 73, 0.95, "shown")
    return {**NamedRule(tuple(names), certificate).to_json(), **more}


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables of rules behind a heading, as texts."""
    (table,) = [part for part in page.split("<h4>") if heading in part.partition("</h4>")[0]]
    table = table.partition("Random subsets:")[0].partition("<summary>8 rules")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
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


def test_no_document_is_drawn_as_a_contributor_that_is_none(explanation: dict[str, Any]) -> None:
    page = render_report(title="t", explanations=[explanation])
    lists = re.findall(r'<li class="(\w+)"><p>\s*<b>(D\d)', page)
    assert lists == [("supporting", "D1"), ("supporting", "D2"), ("idle", "D3")]
    for kind in ("retention", "omission"):
        for row in explanation["certificates"][kind]:
            assert "D3" not in row["names"]
    told = copy.deepcopy(explanation)
    for kind in ("retention", "omission"):  # a rule without a test shows nothing
        told["certificates"][kind] = [shown_rule(["D1"], kind="untested", samples=0)]
    page = render_report(title="t", explanations=[told])
    assert set(re.findall(r'<li class="(\w+)"', page)) == {"idle"}


def test_an_explanation_that_is_none_is_told() -> None:
    with pytest.raises(DataFormatError, match=r"key 'certificates': the rules of this explan"):
        render_report(title="t", explanations=[{"answer": "France"}])


def test_curves_name_every_method_apart() -> None:
    names = ["a", "b", "c", "d"]
    drawn = recall_curves({name: [(1, 0.2), (10, 0.5)] for name in names})
    root = ElementTree.fromstring(drawn.svg)
    labels = [node for node in root.iter(f"{SVG}text") if "name" in (node.get("class") or "")]
    heights = [float(node.get("y") or 0) for node in labels]
    assert [node.text for node in labels] == [f"{name}  50.0" for name in names]
    assert all(b - a >= 15 for a, b in itertools.pairwise(heights))
    assert drawn.headings == ("method", "first 1", "first 10")
    assert drawn.rows[0] == ("a", "20.0", "50.0")
    assert recall_curves({"zero": [(1, 0.0), (2, 0.0)]}).rows == (("zero", "0.0", "0.0"),)


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
