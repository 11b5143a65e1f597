"""The report page: complete, escaped, and honest about what it was given."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import DataFormatError, OutputError
from rulerag.evaluation.page import render_report, rule_rows, write_report
from rulerag.explanation.explaining import explain_answer
from rulerag.generation import SymbolicReader
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
from tests.outline import EVIL, Outline


def rule(relation: str, *body: Atom, confidence: float = 0.5, support: int = 10) -> Rule:
    head = Atom(relation, "?x", "?y")
    return Rule(head, body, quality=RuleQuality(support=support, pca_confidence=confidence))


CONSULT = rule("visits", Atom("consults", "?x", "?y"), confidence=0.9)
PRAISE = rule("visits", Atom("praises", "?y", "?x"), confidence=0.4)
CHAIN = rule("lives_in", Atom("works_at", "?x", "?z"), Atom("seat", "?z", "?y"), confidence=0.7)
FACTS = (
    Fact("Oslo", "consults", "France"),
    Fact("France", "praises", "Oslo"),
    Fact("Oslo", "blames", "Iran"),
)


def explained(facts: tuple[Fact, ...] = FACTS, **settings: Any) -> dict[str, Any]:
    """A real explanation: two documents that name France, found by two rules, and idle ones."""
    documents = [
        Document(f"d{n}", f"{f.subject} {f.relation} {f.object} <b>&.", (f,), f"Title {n}")
        for n, f in enumerate(facts)
    ]
    found_by = [
        RuleHit(CONSULT.id, 1, 3.0, 0),
        RuleHit(PRAISE.id, 1, 2.0, 0),
        RuleHit(None, 1, 1.0),
    ]
    scored = [
        ScoredDocument(document, 3.0 - n, n + 1, (found_by[min(n, 2)],))
        for n, document in enumerate(documents)
    ]
    query = Query("q1", "whom does Oslo visit ?", "Oslo", "visits", answers=("France",))
    rules, reader = (CONSULT, PRAISE), SymbolicReader()
    completion = reader.generate([GenerationRequest(query, tuple(documents), rules)])[0]
    answer = Answer(query, completion, tuple(scored), rules)
    row = explain_answer(answer, reader, **settings).to_json()
    return json.loads(json.dumps(row))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def explanation() -> dict[str, Any]:
    return explained()


def result(method: str, **metrics: float) -> dict[str, Any]:
    names = {"r1": "answer_recall@1", "r10": "answer_recall@10", "em": "exact_match"}
    return {
        "benchmark": "north",
        "method": method,
        "num_queries": 1559,
        "metrics": {names[key]: value for key, value in metrics.items()},
        "seconds": {"total": 12.34},
        "config": {},
    }


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


def text_of(**parts: Any) -> str:
    return Outline(render_report(title="A world", **parts)).text


def test_the_page_holds_everything_it_was_given(explanation: dict[str, Any]) -> None:
    results = [result("plain", r1=0.2, r10=0.4, em=0.1), result("guided", r1=0.3, r10=0.5, em=0.3)]
    results[0]["config"] = {"expected": {"exact_match": {"value": 0.3, "tolerance": 0.01}}}
    page = render_report(
        title="A world",
        glance=[("asked", "12,345 things")],
        results=results,
        rules=rule_rows([CONSULT, CHAIN], [(CONSULT, 0.88), (PRAISE, 0.5)]),
        explanations=[explanation],
        about=[("command", "rulerag demo --seed 0")],
    )
    outline = Outline(page)
    for words in ("12,345 things", "rulerag demo --seed 0", "1,559", "12.3", "40.0", "50.0"):
        assert words in outline.text
    for words in ("not met", "± 1.0", "88.0", "90.0", "+2.0", "missed", "not planted"):
        assert words in outline.text
    assert (
        "Entity 1 works at Entity 3 and Entity 3 seat Entity 2 → Entity 1 lives in" in outline.text
    )
    assert "R1 Entity 1 consults Entity 2 → Entity 1 visits Entity 2" in outline.text
    assert "confidence 0.90, support 10" in outline.text
    assert outline.classes["best"] == 3 and outline.tags["h1"] == 1
    assert render_report(title="Nothing yet").count("<section") == 0
    rows = rule_rows([CHAIN, PRAISE, CONSULT], [(PRAISE, 0.42)])
    assert [row["id"] for row in rows] == [PRAISE.id, CONSULT.id, CHAIN.id], "planted ones first"
    missed = rule_rows([], [(CHAIN, 0.5)])[0]
    assert (missed["mined"], missed["support"]) == (None, None)
    with pytest.raises(DataFormatError, match="question"):
        render_report(title="t", explanations=[{"answer": "France"}])


def test_an_answer_alone_has_the_page_for_itself(
    explanation: dict[str, Any], tmp_path: Path
) -> None:
    for path in (tmp_path / "one.html", tmp_path / "two.html"):
        write_report(path, title="Why this answer", explanations=[explanation])
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "two.html").read_text(encoding="utf-8"), "the same each time"
    with pytest.raises(OutputError):
        write_report(tmp_path / "one.html" / "x.html", title="t")
    text = Outline(page).text
    assert '<h1 dir="auto">whom does Oslo visit ?</h1>' in page and ">Why this answer<" in page
    assert "France [1] [2] right" in text.replace("][", "] [") and "rests on “Title 0” [1]" in text
    assert "Certain: all 8 combinations of the three documents were tried." in text
    assert "[3] Title 2 no claim rests on it; found by the question (rank 1, score 1)" in text
    assert (
        "all 4 subsets" in text and "From all kept (top) to none (bottom): 1 is [1], 2 is" in text
    )


def test_wrong_answers_stand_beside_right_ones_with_where_the_accepted_one_is(
    explanation: dict[str, Any],
) -> None:
    others = [explanation | {"accepted": [name]} for name in ("Iran", "Peru")]
    outline = Outline(page := render_report(title="t", explanations=[explanation, *others]))
    assert "asked 3 questions answered 1 right, 2 wrong why 3 of 3 stand" in outline.text
    assert "3 of 3 searches came to their end" in outline.text
    columns = page.partition('id="answers"')[2].partition('id="explained"')[0]
    right, _, wrong = columns.partition("Wrong (2)")
    assert "Right (1)" in right and 'href="#answer-1"' in right
    assert 'href="#answer-2"' in wrong and 'href="#answer-3"' in wrong
    assert "Accepted: Iran; it stands in [3]." in wrong
    assert "Accepted: Peru; it stands in no document that was read." in wrong
    refuted = copy.deepcopy(explanation)  # a set that tests refuted is not counted as standing
    for one in refuted["claims"][0]["retention"]:
        one["certificate"] |= {"kind": "tested", "successes": 3}
    assert "why 1 of 2 stand as long as one" in text_of(explanations=[explanation, refuted])


def test_a_run_says_how_answers_ended_and_shows_wrong_ones_beside_right_ones() -> None:
    rows = [
        prediction("who sang it in Oslo", "Anna", ["Anna"], ["Anna sang it"]),
        prediction("who wrote it in Oslo", "Otto", ["Emil"], ["Otto sang", "Emil wrote", "x"]),
        prediction("who drew it in Lima", "", ["Ida"], ["Ida drew"]),
        prediction("who saw it", "Ole", ["Nils"], ["Ole saw"], **{"answer_recall@10_union": 1.0}),
        prediction("who knows", "Ole", [], ["Ole saw"]),
    ]
    rows[1]["rules"] = [{"id": "r1", "text": "it sings"}, {"id": "r2", "text": "it writes"}]
    rows[1]["documents"][1]["found_by"] = [
        {"rule": "r1", "rank": 1, "score": 9.0, "atom": None},
        {"rule": "r2", "rank": 7, "score": 1.0, "atom": 0},
    ]
    one = result("m", em=0.25)
    one["seconds"] = {"load": 1.0, "retrieve": 2.0, "generate": 0.25, "total": 3.25}
    text = text_of(results=[one], predictions=[rows])
    # Wilson by hand, 1 of 4: (0.25 + 0.4802) / 1.9604 ± ... is 4.6 to 69.9 per cent.
    assert text.startswith(
        "A world A world asked 5 questions of north, 4 of them with an accepted answer answered "
        "1 right, 25.0 % why 3 wrong: 1 misled, 1 ignored, 1 not retrieved how sure between 4.6 % "
        "and 69.9 % right on questions of this kind, with 95 % confidence cost 3.2 s (1.0 loading, "
        "2.0 retrieving, 0.2 answering)"
    )
    assert "misled 1 25.0 % (4.6 % to 69.9 %)" in text and "EM 25.0 (3.6–62.4)" in text
    pairs = text.partition("Wrong answers beside right ones")[2]
    misled = pairs.partition("Misled")[2].partition("Ignored")[0]
    assert "Otto wrong Accepted: Emil [1] “Otto sang”: holds the answer given; found by" in misled
    assert "[2] “Emil wrote”: holds an accepted answer; found by the rule it writes" in misled
    assert "1 other document read" in misled and "who sang it in Oslo Anna right" in misled
    assert "who drew it in Lima (no answer) wrong" in pairs
    assert "a document that holds it was found, and cut off before reading" in pairs
    several = text_of(results=[one, result("n", em=0.5)], predictions=[rows, rows[:1]])
    assert "m, north 1 1 1 1 n, north 1 0 0 0" in several
    assert "No answer of the run is right." in text_of(results=[one], predictions=[rows[1:]])


def test_texts_are_escaped_everywhere(explanation: dict[str, Any]) -> None:
    row = copy.deepcopy(explanation)
    row |= {"question": EVIL, "text": EVIL, "accepted": [EVIL], "notes": [EVIL], "chain": EVIL}
    row |= {"statements": [EVIL], "empty": EVIL}
    row["claims"][0] |= {"text": EVIL, "start": None, "end": None, "condition": EVIL}
    row["claims"][0]["omission"][0]["output"] = EVIL
    row["rules"][0]["text"] = EVIL
    row["documents"][0] |= {"text": EVIL, "id": EVIL, "title": EVIL}
    rows = [prediction(EVIL, EVIL, [EVIL], [EVIL]), prediction(EVIL, "b", [EVIL], [EVIL])]
    text = text_of(
        glance=[(EVIL, EVIL)],
        results=[result(EVIL, r1=0.1, r10=0.3)],
        predictions=[rows],
        rules=[{"text": EVIL, "planted": 0.1, "mined": 0.2, "support": 3}],
        explanations=[row, row],
        about=[(EVIL, EVIL)],
    )
    assert text.count("<script>alert('x')") >= 50


def test_two_hundred_documents_fit_and_those_without_effect_are_folded() -> None:
    facts = (FACTS[0], *(Fact("Oslo", "blames", f"Iran {n} " + "or so " * 30) for n in range(199)))
    row = explained(facts, validity=0.9)
    page = render_report(title="t", explanations=[row] * 10)
    assert len(page) < 2_000_000 and "10 questions" in page
    assert "The first 4 of 10: a page has no room for more" in page
    assert "199 documents without a mark" in page and "195 others" in page
    small = render_report(title="t", explanations=[explained(attribution=("shapley",))] * 100)
    assert len(small) < 2_000_000 and "Shapley (exact)" in small
