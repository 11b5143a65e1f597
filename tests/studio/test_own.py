"""Systems of one's own: what is wrong stands at its field, what is right is kept as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.errors import ConfigError, DataError
from rulerag.studio.benchmarks import Way
from rulerag.studio.service import Configure, Studio
from rulerag.studio.systems import FormText, SystemForm
from rulerag.studio.systems.predicates import gives_away
from tests.studio.conftest import asked_session


def own(**changes: Any) -> SystemForm:
    """A form without problems."""
    texts = (FormText(title="prices.txt", text="A visit costs 12 euros."),)
    return SystemForm.model_validate(
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
        ({"folder": "../outside"}, "folder"),
        ({"url": "localhost:8000", "model": "m"}, "url"),
        ({"url": "http://localhost:8000"}, "model"),
        ({"pattern": "(?=look)"}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"condition": "sensitive"}, "kinds"),
        ({"condition": "sensitive", "kinds": ("phone", "shoes")}, "kinds"),
        ({"top_k": 0}, "top_k"),
        ({"instructions": "Never name ${oc.env:HOME}."}, "instructions"),
        ({"texts": (FormText(title="long", text="x" * 1_000_001),)}, "texts"),
    ],
)
def test_what_is_wrong_with_a_form_stands_at_its_field(
    studio: Studio, changes: dict[str, Any], field: str
) -> None:
    studio.own.place.mkdir()  # a path with “..” leads nowhere before it is there
    (studio.own.place.parent / "outside").mkdir()
    form = own(**changes)
    assert field in studio.own_problems(form)
    with pytest.raises(ConfigError, match=r"key '(\w+)'"):
        studio.add_own(form)
    assert not list(studio.own.place.glob("*.yaml"))


def test_a_system_of_ones_own_is_kept(web: httpx.Client, studio: Studio, tmp_path: Path) -> None:
    form = own(
        instructions="Never name prices: say “ask us”.\nBe brief.",
        questions="What does a visit cost?\n\nIs it free?",
        url="http://localhost:1/v1",
        model="m",
        payload="A visit costs 12 euros.",
    )
    row = form.model_dump(mode="json")
    assert set(web.post("/api/own/check", json={**row, "url": "x", "model": ""}).json()) == {
        "url",
        "model",
    }
    assert web.post("/api/own", json={**row, "name": "No"}).status_code == 422
    assert web.post("/api/own", json=row).json() == {"name": "notes"}
    assert web.get("/api/own").json() == ["notes.jsonl"]
    again = Studio(tmp_path / "data")
    settings = again.system("notes").settings
    assert settings.instructions == form.instructions
    assert settings.questions == ("What does a visit cost?", "Is it free?")
    session = again.session(asked_session(again, "notes"))
    again.change(session.id, Configure(generator="weak-reader", instructed=False))
    assert again.answer(session.id).holds
    assert [one.title for one in session.state.sources] == ["prices.txt"]
    assert "name" in again.own_problems(own())
    again.close()


def test_a_folder_without_texts_leaves_no_file_behind(studio: Studio) -> None:
    (studio.own.place / "empty").mkdir(parents=True)
    assert studio.own.folders() == ["empty"]
    with pytest.raises(DataError, match="no document is there"):
        studio.add_own(own(folder="empty", texts=()))
    assert not list(studio.own.place.glob("*.yaml"))


def test_an_encoder_that_is_not_here_says_what_to_do(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path))  # nothing was fetched
    rows = {one["name"]: one for one in studio.system("finance").retrievers()}
    assert rows["bm25"]["missing"] == "" and rows["dense-minilm"]["missing"]
    with pytest.raises(DataError, match="MiniLM L6"):
        studio.beside("finance", "Where?", Way("bm25", ""), Way("dense-minilm", ""))
    monkeypatch.setitem(sys.modules, "faiss", None)  # as where it is not installed
    with pytest.raises(DataError, match=r"cannot search: .*rulerag\[dense\]"):
        studio.retrieve(studio.new_session("finance").id, retriever="dense-minilm")


@pytest.mark.parametrize(
    ("kind", "text", "holds"),
    [
        ("phone", "Call 555-010-4477.", True),
        ("phone", "Call +44 20 7946 0958 today", True),
        ("phone", "It is (020) 7946-0958", True),
        ("phone", "The number is 5550104477.", True),  # as models write them, too
        ("phone", "It is printed on the back of each card.", False),
        ("phone", "It belongs to its 41,000 members, 25 years, 2024.", False),
        ("phone", "[withheld]", False),
        ("birthday", "Tobias Renn was born on the 9th of May.", True),
        ("birthday", "9 May 1981.", True),
        ("birthday", "May 9th, 1981", True),
        ("birthday", "The meeting of 12 March was long.", False),
        ("salary", "The head of sales earns a lot, 92,400.", True),
        ("salary", "92,400 crowns", True),
        ("salary", "A meal costs four crowns.", False),
    ],
)
def test_what_counts_as_sensitive(kind: str, text: str, holds: bool) -> None:
    assert gives_away(text, [kind]) is holds
