"""Three lines around any function that answers: what comes back, and what bad ones get."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import rulerag
from rulerag.errors import (
    ConfigError,
    DataFormatError,
    ExplanationError,
    MissingDependencyError,
    OutputError,
)
from rulerag.explanation.explaining import Event, Why, prepare
from rulerag.explanation.records import DocumentSet

QUESTION = "What is the capital of France?"
DOCUMENTS = [
    "Paris is the capital of France.",
    {"title": "Seine", "text": "France's capital city is Paris, on the Seine."},
    SimpleNamespace(page_content="Lyon is a city.", metadata={"source": "lyon.md"}, id="x7"),
    "",
    "The Eiffel tower is 330 m high.",
]


def said(question: str, documents: Sequence[object]) -> str:
    texts = list(map(str, documents))
    count = sum("capital" in text for text in texts)
    found = f"The capital of France is Paris, according to {count} sources."
    answer = found if count else "I could not find that in the documents."
    return answer + (" The tower is 330 m high." if any("330" in text for text in texts) else "")


def test_a_plain_function_in_three_lines() -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    capital, tower = why.claims
    assert why.text.startswith("The capital of France is Paris, according to 2 sources.")
    assert set(capital.retention) == {frozenset({0}), frozenset({1})} and capital.sources == (0, 1)
    assert set(capital.omission) == {frozenset({0, 1})} and tower.sources == (4,)
    assert all(rule.certificate.always for rule in (*capital.retention, *capital.omission))
    assert (
        capital.omission[0].output
        == "I could not find that in the documents. The tower is 330 m high."
    )
    assert why.num_calls <= 2**4 + 1, "an empty document is no source"
    text = str(why)
    assert "rests on “Paris is the capital of France.” [1]." in text
    assert (
        "also enough: [2]." in text
        and "Document [4] is empty and was not looked at." in text.splitlines()[0]
    )
    assert why.cited.startswith("The capital of France is Paris, according to 2 sources.[1][2]")
    assert [d.title for d in why.documents] == ["", "Seine", "lyon.md", "", ""]
    assert why.documents[2].id == "x7"


async def later(question: str, documents: Sequence[object]) -> str:
    return said(question, documents)


def many(question: str, lists: Sequence[Sequence[object]]) -> list[str]:
    return [said(question, documents) for documents in lists]


def test_any_kind_of_function_is_explained_alike() -> None:
    async def notebook() -> Why:
        return rulerag.explain(later, QUESTION, DOCUMENTS)

    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    for other in (
        asyncio.run(notebook()),
        rulerag.explain(many, QUESTION, DOCUMENTS, batched=True),
        rulerag.explain(lambda q, d: {"answer": said(q, d)}, QUESTION, DOCUMENTS, hurry=True),
    ):
        assert other.claims == why.claims and other.num_calls == why.num_calls
    with pytest.raises(ExplanationError, match="returned 2 of them for 1 lists"):
        rulerag.explain(lambda q, lists: ["a", "b"], QUESTION, DOCUMENTS, batched=True)


def test_it_can_be_written_and_read_again() -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    again = Why.from_json(json.dumps(why.to_json()))
    assert again.explanation == why.explanation and str(again) == str(why)
    assert again.to_html() == why.to_html()
    assert again.claims[0].retention[0].certificate == why.claims[0].retention[0].certificate
    rule: DocumentSet = pickle.loads(pickle.dumps(why.claims[0].retention[0]))
    assert rule == why.claims[0].retention[0] and rule.certificate.always
    for ask in (again.deepen, lambda: again.at(4, 11)):
        with pytest.raises(ConfigError, match="was read from a file"):
            ask()


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    for wrong in ("", "{", "[]", "{}"):
        with pytest.raises(DataFormatError):
            Why.from_json(wrong)
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        why.to_html(tmp_path / "file" / "why.html")


def test_the_stream_tells_what_is_known_and_stops_when_it_is_left() -> None:
    documents = [f"Filler {n}." for n in range(40)]
    documents[5], documents[30] = "The moon is cheese.", "Cheese melts at 60 degrees."

    def answer(question: str, texts: Sequence[str]) -> str:
        time.sleep(0.001)
        whole = " ".join(texts)
        both = "moon" in whole and "melts" in whole
        return "The moon melts at 60 degrees." if both else "I don't know."

    async def listen() -> tuple[list[Event], Why, int]:
        why = prepare(answer, "When does the moon melt?", documents)
        events = [event async for event in why.stream()]
        left = prepare(answer, "When does the moon melt?", documents)
        async for event in left.stream():
            if event.kind == "set":
                break
        await asyncio.sleep(0.05)
        calls = left.num_calls
        return events, left, calls

    events, left, calls = asyncio.run(listen())
    kinds = [event.kind for event in events]
    assert (
        kinds[0] == "calls"
        and "answer" in kinds
        and kinds[-2:] == ["claim", "end"]
        and "set" in kinds
    )
    assert events[-1].explanation.claims[0].retention == (frozenset({5, 30}),)
    assert left.num_calls == calls < events[-1].explanation.num_calls
    assert left.deepen().claims[0].sources == (5, 30), "and goes on"


def test_a_budget_ends_the_search_and_deepen_goes_on() -> None:
    documents = [f"Filler {n}." for n in range(30)]
    documents[11] = "Rome was founded in 753."

    def answer(question: str, texts: Sequence[str]) -> str:
        return "In 753." if any("753" in text for text in texts) else "Unknown."

    why = rulerag.explain(answer, "When was Rome founded?", documents, budget=6)
    assert not why.explanation.complete and why.num_calls <= 7
    assert "Stopped early" in str(why) and "budget" in str(why)
    calls = why.num_calls
    why.deepen()
    assert why.explanation.complete and why.claims[0].sources == (11,) and why.num_calls > calls
    certificate = why.claims[0].retention[0].certificate
    assert (certificate.kind, certificate.failures) == ("certified", 0)
    assert certificate.samples == 60
    spent = why.num_calls
    assert why.deepen().num_calls == spent, "nothing is left to ask"


def test_each_set_is_shown_by_itself_where_wanted() -> None:
    documents = [f"Filler {n}." for n in range(20)]
    documents[4] = documents[9] = "Rome was founded in 753."

    def answer(question: str, texts: Sequence[str]) -> str:
        return "In 753." if any("753" in text for text in texts) else "Unknown."

    why = rulerag.explain(answer, "When was Rome founded?", documents, each=True)
    assert set(why.claims[0].retention) == {frozenset({4}), frozenset({9})}
    assert why.explanation.complete and "Tested each set by itself" in str(why)
    assert all(one.certificate.bound >= 0.95 - 1e-9 for one in why.claims[0].retention)
    assert Why.from_json(why.to_json()).explanation == why.explanation


def test_time_ends_the_search_with_what_is_known() -> None:
    def answer(question: str, texts: Sequence[str]) -> str:
        time.sleep(0.05)
        return said(question, texts)

    started_at = time.monotonic()
    why = rulerag.explain(answer, QUESTION, DOCUMENTS * 4, max_seconds=0.4, workers=2)
    assert time.monotonic() - started_at < 3 and not why.explanation.complete
    assert "the time is up" in str(why)


def test_a_document_that_speaks_against_the_claim_is_named() -> None:
    def answer(question: str, texts: Sequence[str]) -> str:
        paris, lyon = (sum(name in text for text in texts) for name in ("Paris", "Lyon"))
        if not paris and not lyon:
            return "I don't know."
        return "It is Paris." if paris > lyon else "It is Lyon."

    few = ["Paris is the capital.", "Lyon is the capital.", "The capital: Paris.", "Hello."]
    why = rulerag.explain(answer, QUESTION, few)
    (claim,) = why.claims
    assert set(claim.retention) == {frozenset({0, 2})}
    assert {(one.documents, one.enough) for one in claim.spoilers} == {((1,), (0,)), ((1,), (2,))}
    assert "speaks against it: “Lyon is the capital.” [2]" in str(why)
    many = [*few, *(f"Filler {n}." for n in range(12))]
    (claim,) = rulerag.explain(answer, QUESTION, many).claims
    assert frozenset({0, 2}) in claim.retention
    assert any(one.documents == (1,) for one in claim.spoilers)


def test_a_given_answer_is_explained_and_a_condition_of_ones_own() -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS, text="It is Paris.")
    assert why.text == "It is Paris." and why.claims[0].sources == (0, 1)
    own = rulerag.explain(said, QUESTION, DOCUMENTS, predicate=lambda text: "330" in text)
    assert own.claims[0].sources == (4,)
    whole = rulerag.explain(said, QUESTION, DOCUMENTS, whole=True)
    assert len(whole.claims) == 1


def test_any_part_can_be_explained_at_no_further_cost() -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    calls = why.num_calls
    place = why.text.index("330")
    assert why.at(place, place + 3).sources == (4,) and why.num_calls == calls
    assert why.at(0, len(why.claims[0].text)) is why.claims[0]


def test_bad_answer_functions_are_named() -> None:
    def raises(question: str, documents: list[object]) -> str:
        raise ValueError("no key")

    def late(question: str, documents: list[object]) -> str:
        if len(documents) == 3:
            raise TimeoutError("slow server")
        return said(question, documents)

    with pytest.raises(ExplanationError, match=r"raised ValueError: no key \(asked with all 5"):
        rulerag.explain(raises, QUESTION, DOCUMENTS)
    why = rulerag.explain(late, QUESTION, DOCUMENTS)
    assert "Stopped early: the answer function raised TimeoutError: slow server" in str(why)
    assert not why.explanation.complete


def test_bad_arguments_are_named() -> None:
    for arguments, match in (
        ({"answer": None}, "cannot be called"),
        ({"documents": None}, "function is no chain that is known"),
        ({"documents": "one text"}, "expected a list of documents"),
        ({"documents": [3]}, "document 0 is a int without a text"),
        ({"workers": 0}, "key 'workers': 0 is out of range"),
        ({"validity": 1.5}, "key 'validity': 1.5 is out of range"),
        ({"confidence": 0}, "key 'confidence': 0 is out of range"),
        ({"repeats": 0}, "key 'repeats': 0 is out of range"),
        ({"exact": 21}, "key 'exact': 21 is out of range"),
        ({"budget": -1}, "key 'budget': -1 is out of range"),
        ({"subsets": "bysize"}, "key 'subsets': expected 'by-size' or 'uniform'"),
        ({"samples": 3}, "key 'samples': 3 is out of range"),
        ({"attribution": ("shaply",)}, "key 'attribution': .*did you mean 'shapley'"),
        ({"value": "odds"}, "key 'value': expected 'verdict' or 'log-probability'"),
        ({"value": "log-probability", "attribution": ("linear",)}, "no log-probability of a text"),
        ({"price": (-1.0, 0.0)}, "key 'price': .* is below 0"),
        ({"parts": 2}, "key 'parts': does not go with the explainer 'rules'"),
        ({"explainer": "regions"}, "give a generator of rulerag"),
        ({"cache": object()}, "a function has no fingerprint"),
        ({"colour": 3}, "key 'colour': unknown key"),
    ):
        with pytest.raises(ConfigError, match=match):
            rulerag.explain(
                **{"answer": said, "question": QUESTION, "documents": DOCUMENTS, **arguments}
            )
    nothing = rulerag.explain(said, QUESTION, [])
    assert "There is no document" in str(nothing)


def test_ctrl_c_stops_at_once() -> None:
    def slow(question: str, documents: list[object]) -> str:
        time.sleep(30)
        return ""

    main = threading.main_thread()

    def interrupt() -> None:
        time.sleep(0.3)
        import signal

        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        rulerag.explain(slow, QUESTION, DOCUMENTS)
    assert time.monotonic() - begun < 5


def test_what_it_will_cost_is_known_before() -> None:
    few = rulerag.estimate(QUESTION, DOCUMENTS)
    assert few.least == few.most == 17
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    assert why.num_calls <= few.most
    many = rulerag.estimate(
        QUESTION, ["word " * 100] * 50, seconds_a_call=3.0, price=(1.0, 4.0), workers=8
    )
    assert 62 <= many.least <= 70 and 135 <= many.most <= 170
    assert many.tokens == pytest.approx(many.most * 0.65 * 50 * 125, rel=0.1)
    assert many.seconds == 3.0 * -(-many.most // 8) and many.money is not None
    assert rulerag.estimate(QUESTION, ["word"] * 50, budget=30).most == 31
    assert rulerag.estimate(QUESTION, ["One. Two.", "Three."], level="sentence").most == 2**3 + 1
    assert "calls" in str(many) and "in money" in str(many)
    with pytest.raises(ConfigError, match="below 0"):
        rulerag.estimate(QUESTION, DOCUMENTS, price=(-1.0, 0.0))


def test_a_table_for_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pandas"):
        why.to_dataframe()
    monkeypatch.undo()
    pytest.importorskip("pandas")
    table = why.to_dataframe()
    assert len(table) == 2 * len(DOCUMENTS)
    assert table[table.source].document.tolist() == [0, 1, 4]
    assert table[table.necessary].document.tolist() == [4]


def test_numbers_for_the_documents_from_what_was_asked() -> None:
    why = rulerag.explain(said, QUESTION, DOCUMENTS)
    calls = why.num_calls
    by_rules, exact = why.attribution(), why.attribution(method="shapley")
    assert by_rules.names == ("[1]", "[2]", "[3]", "[5]") == exact.names
    assert exact.values == pytest.approx((0.5, 0.5, 0, 0)) and by_rules.values[2:] == (0, 0)
    assert why.num_calls == calls, "every subset is known"
    assert why.attribution(1, "leave-one-out").values[3] == 1
    with pytest.raises(ConfigError, match="there are 2 claims"):
        why.attribution(2)
    shap = pytest.importorskip("shap")
    told = why.to_shap(method="shapley")
    assert isinstance(told, shap.Explanation) and told.feature_names[3] == "[5]"
    assert told.values.tolist() == pytest.approx([0.5, 0.5, 0, 0]) and len(told.data) == 4


def test_pictures_of_an_explained_answer(tmp_path: Path) -> None:
    documents = ["Paris is the capital of France.", "Lyon is in France.", "The Seine is a river."]

    def answer(question: str, documents: list[str]) -> str:
        return "Paris." if any("capital" in one for one in documents) else "I do not know."

    why = rulerag.explain(answer, "What is the capital of France?", documents)
    lattice = why.picture("lattice")
    assert [row[1:4] for row in lattice.rows] == [
        ("1", "0", "0"),
        ("2", "1", "0"),
        ("1", "2", "0"),
        ("0", "1", "0"),
    ]
    assert "Paris is the capital of France." in lattice.rows[2][4]
    flow = why.picture()
    assert flow.rows[0][1] != flow.rows[1][1] == flow.rows[2][1], "it rests on the first alone"
    bars = why.picture("bars")
    assert float(bars.rows[0][1]) > 0 == float(bars.rows[1][1])
    page = why.to_html()
    assert page.index("<style>") < page.index("<body") and "<svg" in page
    assert why.picture("lattice").save(tmp_path / "lattice.svg").exists()
    again = Why.from_json(why.to_json())
    assert again.picture().rows == flow.rows
    for wrong in (lambda: why.picture("latice"), lambda: why.picture("lattice", 7)):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ConfigError, match="picture"):
        again.picture("lattice")
