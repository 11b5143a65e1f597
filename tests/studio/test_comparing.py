"""Two ways beside each other, what changed when asked again, and systems of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.errors import ConfigError, DataError
from rulerag.studio.benchmarks import Way
from rulerag.studio.service import (
    Configure,
    Edit,
    Move,
    Studio,
    beside_snippets,
    differences_snippets,
    run_snippets,
)
from rulerag.studio.service.viewing import source_moves, word_changes
from rulerag.studio.systems import OwnSystem, OwnText, Source
from rulerag.studio.web import create_app
from tests.studio.conftest import attacked, explained, served


def test_changed_words_make_up_both_answers() -> None:
    before, now = "The lift is blue, says note 1.", "The lift was blue, says\n\tnote 2."
    parts = word_changes(before, now)
    assert "".join(text for kind, text in parts if kind != "removed") == now
    assert [text for kind, text in parts if kind == "removed"]
    assert ("added", " was") in parts and ("removed", " is") in parts
    assert word_changes("same", "same") == (("same", "same"),)
    long = "word " * 5_000
    assert word_changes(long, long + "end") == (("removed", long), ("added", long + "end"))


def test_sources_that_moved_were_edited_came_or_went() -> None:
    def of(*names: str, text: str = "t") -> list[Source]:
        return [Source(id=name, title=name.upper(), text=text) for name in names]

    moves = {one.title: (one.before, one.now) for one in source_moves(of("a", "b"), of("b", "c"))}
    assert moves == {"B": (2, 1), "C": (None, 2), "A": (1, None)}
    (edited,) = source_moves(of("a"), of("a", text="u"))
    assert edited.edited and (edited.before, edited.now) == (1, 1)
    assert source_moves(of("a"), of("a")) == ()


def test_asked_again_an_answer_says_what_is_new(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    first = studio.answer(session.id)
    assert first["before"] is None and first["words"] == () and first["moves"] == []
    again = studio.answer(session.id)
    assert again["before"] == again["text"] and again["words"] == (("same", again["text"]),)
    top, *_, last = session.state.sources
    studio.change(
        session.id,
        Edit(source=top.id, text="The customer service number of Larkfield Bank is 555-010-1234."),
    )
    studio.change(session.id, Move(source=last.id, place=0))
    studio.change(session.id, Configure(instructed=False))
    now = studio.answer(session.id)
    assert now["before"] == first["text"] != now["text"]
    assert {kind for kind, _ in now["words"]} >= {"added", "removed"}
    by_title = {one["title"]: one for one in now["moves"]}
    assert by_title[top.title]["edited"] and not by_title[last.title]["edited"]
    assert (by_title[last.title]["before"], by_title[last.title]["now"]) == (5, 1)


def test_comparing_over_rest(bench: Studio) -> None:
    question = bench.system("world").benchmark.examples()[0]
    ways: dict[str, Any] = {
        "first": {"retriever": "plain", "generator": "symbolic"},
        "second": {"retriever": "guided", "generator": "symbolic"},
    }
    with served(create_app(bench)) as url, httpx.Client(base_url=url, timeout=60) as web:
        place = "/api/systems/world"
        made = web.post(f"{place}/beside", json={"question": question, **ways}).json()
        direct = bench.beside("world", question, Way("plain"), Way("guided"))
        assert made == direct.model_dump(mode="json")
        found = web.post(f"{place}/differences", json={**ways, "most": 20}).json()
        assert found["queries"] == min(20, found["of"])
        gains = [row["gain"] for row in found["better"]]
        assert gains == sorted(gains, reverse=True) and all(gain >= 0 for gain in gains)
        assert set(found["means"]) >= {"answer_recall@10", "mrr", "exact_match"}
        assert "full" in web.get(f"{place}/query-sets").json()
        read = web.get(f"{place}/understood", params={"question": question}).json()
        assert read["exact"] and read["readings"][0][1] == 1.0
        wrong = {"question": question, **ways, "first": {"retriever": "guidde"}}
        told = web.post(f"{place}/beside", json=wrong)
        assert told.status_code == 404 and "did you mean 'guided'" in told.json()["message"]
        missing = web.post("/api/systems/finance/differences", json={})
        assert missing.status_code == 422 and "no mined rules" in missing.json()["message"]
        described = set(web.get("/openapi.json").json()["paths"])
        assert {f"/api/systems/{{name}}/{one}" for one in ("beside", "differences")} < described
        assert {"/api/own", "/api/own/check", "/api/runs/{name}/against/{other}"} < described


def test_runs_over_rest(studio_with_runs: Studio) -> None:
    with served(create_app(studio_with_runs)) as url, httpx.Client(base_url=url) as web:
        assert web.get("/api/runs").json() == ["one", "two"]
        rows = web.get("/api/runs/one", params={"recall": "not found"}).json()["rows"]
        assert [row["query_id"] for row in rows] == ["2"] and rows[0]["rank"] is None
        assert len(web.get("/api/runs/one?recall=found&k=1&match=exact").json()["rows"]) == 1
        assert web.get("/api/runs/one?recall=maybe").status_code == 422
        documents = web.get("/api/runs/one/queries/4").json()["documents"]
        assert [one["holds"] for one in documents] == [True, False]
        assert web.get("/api/runs/one/queries/9").status_code == 404
        pair = web.get("/api/runs/one/against/two").json()
        assert [row["query_id"] for row in pair["changed"]] == ["1"]
        assert {"from": "right", "to": "ignored", "queries": 1} in pair["moves"]


def test_a_run_that_grows_is_read_again(studio_with_runs: Studio, tmp_path: Path) -> None:
    before = len(studio_with_runs.run("one").rows)
    file = tmp_path / "one" / "predictions.jsonl"
    first = file.read_text().splitlines()[0]
    file.write_text(file.read_text() + first.replace('"1"', '"5"', 1) + "\n")
    assert len(studio_with_runs.run("one").rows) == before + 1


def test_code_of_comparisons_runs_as_it_is_shown(
    bench: Studio,
    studio_with_runs: Studio,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = beside_snippets(
        "finance", "What is the number of Larkfield Bank?", Way("bm25", ""), Way("bm25", "")
    )
    exec(asked["python"], {})
    assert "Larkfield Bank, help pages" in capsys.readouterr().out
    folder = bench.system("world").benchmark.folder
    differing = differences_snippets("world", Way("plain"), Way("guided"), most=10)
    exec(differing["python"].replace("FOLDER", str(folder)), {})
    assert "answer_recall@10" in capsys.readouterr().out
    shown = run_snippets("one", {"recall": "not found", "k": 10})
    exec(shown["python"].replace("'RUNS'", repr(str(tmp_path))), {})
    assert "not retrieved question 2" in capsys.readouterr().out


def own(**changes: Any) -> OwnSystem:
    """A form without problems."""
    texts = (OwnText(title="prices.txt", text="A visit costs 12 euros."),)
    return OwnSystem.model_validate(
        {"name": "notes", "texts": texts, "condition": "regex", "pattern": r"\d+ euros"} | changes
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Our Notes"}, "name"),
        ({"name": "../notes"}, "name"),
        ({"name": "finance"}, "name"),
        ({"texts": ()}, "folder"),
        ({"folder": "nowhere"}, "folder"),
        ({"folder": "../../etc"}, "folder"),
        ({"url": "localhost:8000", "model": "m"}, "url"),
        ({"url": "http://localhost:8000"}, "model"),
        ({"pattern": "(?=look)"}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"condition": "sensitive"}, "kinds"),
        ({"condition": "sensitive", "kinds": ("phone", "shoes")}, "kinds"),
        ({"top_k": 0}, "top_k"),
        ({"instructions": "Never name ${oc.env:HOME}."}, "instructions"),
        ({"texts": (OwnText(title="long", text="x" * 1_000_001),)}, "texts"),
    ],
)
def test_what_is_wrong_with_a_form_stands_at_its_field(
    studio: Studio, changes: dict[str, Any], field: str
) -> None:
    form = own(**changes)
    wrong = studio.own_problems(form)
    assert field in wrong, wrong
    with pytest.raises(ConfigError, match=r"key '(\w+)'"):
        studio.add_own(form)
    assert not list(studio.own_place.glob("*.yaml")) if studio.own_place.is_dir() else True


def test_a_system_of_ones_own_is_kept(tmp_path: Path) -> None:
    with_own = Studio(tmp_path / "data")
    assert with_own.own_problems(own()) == {}
    form = own(
        instructions="Never name prices: say “ask us”.\nBe brief.",
        questions="What does a visit cost?\n\nIs it free?",
        url="http://localhost:1/v1",
        model="m",
        payload="A visit costs 12 euros.",
    )
    assert with_own.add_own(form) == "notes"
    with_own.close()
    again = Studio(tmp_path / "data")
    settings = again.system("notes").settings
    assert settings.instructions == form.instructions
    assert settings.questions == ("What does a visit cost?", "Is it free?")
    session = again.retrieve(again.new_session("notes").id)
    again.change(session.id, Configure(generator="weak-reader", instructed=False))
    assert again.answer(session.id)["holds"]
    assert [one.title for one in session.state.sources] == ["prices.txt"]
    assert "name" in again.own_problems(own())
    again.close()


def test_a_folder_without_texts_leaves_no_file_behind(studio: Studio) -> None:
    (studio.own_place / "empty").mkdir(parents=True)
    assert studio.own_folders() == ["empty"]
    with pytest.raises(DataError, match="no text is there"):
        studio.add_own(own(folder="empty", texts=()))
    assert not list(studio.own_place.glob("*.yaml"))


def test_own_systems_over_rest(address: str, studio: Studio) -> None:
    form = own().model_dump(mode="json")
    with httpx.Client(base_url=address) as web:
        wrong = web.post("/api/own/check", json={**form, "url": "localhost"}).json()
        assert set(wrong) == {"url", "model"}
        assert web.post("/api/own", json={**form, "name": "No"}).status_code == 422
        assert web.post("/api/own", json=form).json() == {"name": "notes"}
        assert web.get("/api/own").json() == ["notes.jsonl"]
    assert studio.system("notes").documents[0].text == "A visit costs 12 euros."


def test_levels_and_bars_ask_nothing(studio: Studio, address: str) -> None:
    view = explained(studio, attacked(studio, "finance", "exception", 2).id)
    asked = view.probes
    levels = studio.levels(view.id)
    assert [(one.kept, one.subsets, one.asked) for one in levels] == [
        (5, 1, 1),
        (4, 5, 5),
        (3, 10, 10),
        (2, 10, 10),
        (1, 5, 5),
        (0, 1, 1),
    ]
    assert [one.holding for one in levels] == [1, 3, 3, 1, 0, 0]
    assert [one.kept for one in studio.nodes(view.id, 2) if one.holds] == [(0, 1)]
    with pytest.raises(ConfigError, match="size"):
        studio.nodes(view.id, 6)
    bars = studio.picture(view.id, "bars")
    assert bars.svg.count("0.500") >= 2  # two sources of one rule count half each
    assert studio.view(view.id).probes == asked
    levels_there = httpx.get(f"{address}/api/explanations/{view.id}/levels").json()
    assert [one["holding"] for one in levels_there] == [1, 3, 3, 1, 0, 0]
    nodes = httpx.get(f"{address}/api/explanations/{view.id}/levels/1").json()
    assert [one["kept"] for one in nodes] == [[0], [1], [2], [3], [4]]
    # A session that was opened from a file has both as well, and asks no model.
    opened = studio.load(studio.export(view.session))
    (again,) = opened.explanations
    assert studio.levels(again) == levels
    assert studio.picture(again, "bars").svg == bars.svg


def test_bars_without_a_rule_say_so(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    view = explained(studio, session.id)
    with pytest.raises(ConfigError, match="no rule was found"):
        studio.picture(view.id, "bars")


def test_another_retriever_explains_its_own_sources(bench: Studio) -> None:
    row = bench.differences("world", Way("plain"), Way("guided"), most=60).better[0]
    session = bench.retrieve(bench.new_session("world", question=row.question).id)
    view = explained(bench, session.id, retriever="plain")
    assert view.state.retriever == "plain"
    assert not [by for source in view.state.sources for by in source.found_by]
    assert bench.session(session.id).state == session.state, "the session stays as it is"
    reading = bench.session(session.id).state.model_copy(update={"retriever": "plain"})
    assert "follows no rules" in bench.system("world").answerer("symbolic", (), "plain").about
    assert reading.retriever != session.state.retriever


def test_an_encoder_whose_package_is_not_here_says_what_to_install(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # as where it is not installed
    session = studio.new_session("finance")
    with pytest.raises(DataError, match=r"cannot search: .*rulerag\[dense\]"):
        studio.retrieve(session.id, retriever="dense-minilm")


def test_an_encoder_that_was_not_fetched_says_so(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path))
    rows = {one["name"]: one for one in studio.system("finance").retriever_rows()}
    assert rows["bm25"]["missing"] == ""
    assert rows["dense-minilm"]["missing"]
    with pytest.raises(DataError, match="MiniLM L6"):
        studio.beside("finance", "Where?", Way("bm25", ""), Way("dense-minilm", ""))
