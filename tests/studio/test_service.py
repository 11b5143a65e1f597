"""The service without a screen: RUBEN's use cases, edits, jobs, restarts, people beside others."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EditConflictError,
    OutputError,
    UnknownNameError,
)
from rulerag.studio.service import (
    Add,
    Configure,
    Delete,
    Edit,
    Inject,
    Limits,
    Move,
    Studio,
    red_team_snippets,
    snippets,
)
from tests.endpoints import Server, completion, failure, wait_until
from tests.studio.conftest import attacked, explained, own_system


def ask_blue(number: int, body: dict[str, Any]) -> Any:
    """Says blue where the note about the lift is read, whatever it was told."""
    read = body["messages"][-1]["content"]
    return 200, {}, completion("It is blue." if "The lift is blue" in read else "No.", body)


@pytest.mark.parametrize(
    ("system", "attack", "edited", "weak"),
    [
        ("finance", "exception", 2, {frozenset({0, 1})}),  # two sources are needed together
        ("software", "exception", 1, {frozenset({0})}),
        ("employees", "public-knowledge", 1, set()),  # no rule for either
    ],
)
def test_use_cases_of_ruben(
    studio: Studio, system: str, attack: str, edited: int, weak: set[frozenset[int]]
) -> None:
    clean = studio.retrieve(studio.new_session(system).id)
    assert explained(studio, clean.id).claims[0].enough == ()
    session = attacked(studio, system, attack, edited)
    found = explained(studio, session.id)
    assert {frozenset(rule.sources) for rule in found.claims[0].enough} == weak
    assert found.holds is bool(weak)
    strong = explained(studio, session.id, generator="strong-reader")
    assert strong.claims[0].enough == () and strong.holds is False
    if weak:
        (rule,) = found.claims[0].enough
        assert all(f"source {place + 1} " in rule.sentence for place in rule.sources)
        without = explained(studio, session.id, generator="strong-reader", instructed=False)
        assert without.holds is True  # nothing held it back but the instructions


def test_every_edit_can_be_taken_back(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    first = session.state
    ids = [one.id for one in first.sources]
    studio.change(session.id, Edit(source=ids[0], text="new"))
    studio.change(session.id, Add(text="mine", title="T", place=1))
    studio.change(session.id, Delete(source=ids[4]))
    studio.change(session.id, Move(source=ids[3], place=0))
    seen = studio.change(session.id, Configure(instructed=False, generator="strong-reader"))
    assert [one.id for one in seen.state.sources] == [ids[3], ids[0], "added-1", ids[1], ids[2]]
    assert [one.change for one in seen.state.sources] == ["", "edited", "added", "", ""]
    last = seen.state
    for _ in range(5):
        seen = studio.undo(session.id)
    assert seen.state == first and seen.can_redo
    for _ in range(5):
        seen = studio.redo(session.id)
    assert seen.state == last and not seen.can_redo
    studio.undo(session.id)
    seen = studio.change(session.id, Edit(source=ids[0], text="otherwise"))
    assert not seen.can_redo
    assert studio.redo(session.id) == seen


def test_two_tabs_do_not_overwrite_each_other(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    source = session.state.sources[0].id
    studio.change(session.id, Edit(source=source, text="one"), revision=session.revision)
    with pytest.raises(EditConflictError, match="changed meanwhile"):
        studio.change(session.id, Edit(source=source, text="two"), revision=session.revision)
    assert studio.session(session.id).state.sources[0].text == "one"


def test_wrong_edits_are_named(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    source = session.state.sources[0].id
    for change, error in (
        (Edit(source="nobody", text=""), UnknownNameError),
        (Inject(source=source, attack="exeption"), UnknownNameError),
        (Configure(generator="gpt"), UnknownNameError),
        (Configure(question="?" * 5_000), ConfigError),
        (Add(text="  "), ConfigError),
        (Edit(source=source, text="a" * 1_000_001), ConfigError),
    ):
        with pytest.raises(error):
            studio.change(session.id, change)
    assert studio.session(session.id) == session


def test_a_question_without_hits_no_source_one_and_many(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id, "xyzzy")
    assert session.state.sources == ()
    nothing = explained(studio, session.id)
    assert (nothing.status, nothing.text) == ("done", "The sources do not say.")
    studio.change(session.id, Add(text="Larkfield xyzzy is at 555-010-1111."))
    assert explained(studio, session.id, instructed=False).claims[0].enough[0].sources == (0,)
    for number in range(499):
        studio.change(session.id, Add(text=f"Filler {number}."))
    with pytest.raises(ConfigError, match="501 sources"):
        studio.change(session.id, Add(text="one too many"))
    many = explained(studio, session.id, instructed=False)
    assert [rule.sources for rule in many.claims[0].enough] == [(0,)]
    assert many.calls < 120


def test_a_large_source_is_read(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    text = "The customer service number of Larkfield Bank is 555-010-9999. " + "x " * 499_000
    studio.change(session.id, Edit(source=session.state.sources[0].id, text=text))
    assert "555-010-9999" in explained(studio, session.id, instructed=False).text


def test_claims_are_explained_and_marked(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    view = explained(studio, session.id, goal="claims")
    assert [view.text[c.start : c.end] for c in view.claims] == [c.text for c in view.claims]
    assert [c.enough[0].sources for c in view.claims] == [(0,), (1,)]
    job = studio.job(view.id)
    (last,) = [one for one in job.probes(1) if one.kept == (1,)]
    assert last.holds and view.claims[1].text in last.output
    assert "<svg" in job.lattice(1).svg


def test_a_killed_studio_finds_everything_again(tmp_path: Path) -> None:
    first = Studio(tmp_path)
    session = attacked(first, "finance", "exception", 2)
    view = explained(first, session.id)
    page = first.page(view.id)
    del first  # nothing is closed
    again = Studio(tmp_path)
    kept = again.session(session.id)
    assert kept.state == session.state and kept.explanations == (view.id,)
    assert again.view(view.id) == view
    assert again.page(view.id) == page
    assert len(again.job(view.id).probes()) == 32
    again.close()


def test_a_studio_that_is_killed_while_it_asks_goes_on(tmp_path: Path, server: Server) -> None:
    server.say = lambda number, body: (time.sleep(0.3), ask_blue(number, body))[1]
    own = own_system(server.url)
    (slow,) = (one.model_copy(update={"workers": 1}) for one in own.generators)
    own = own.model_copy(update={"generators": (slow,)})
    first = Studio(tmp_path, systems=[own])
    session = first.retrieve(first.new_session("own").id)
    begun = first.explain(session.id)
    wait_until(lambda: len(first.view(begun.id).claims) > 0)
    again = Studio(tmp_path, systems=[own])  # as after a kill: what was kept by then
    kept = again.view(begun.id)
    assert kept.status == "cancelled"
    known = len(again.job(begun.id).outputs)
    assert known >= 1
    first.close()
    asked = len(server.bodies)
    again.deepen(begun.id)
    assert again.job(begun.id).finished.wait(20)
    assert [rule.sources for rule in again.view(begun.id).claims[0].enough] == [(0,)]
    assert len(server.bodies) - asked <= 8 - known
    again.close()


def test_a_file_opens_without_a_model(studio: Studio, tmp_path: Path, server: Server) -> None:
    server.say = ask_blue
    studio.add_system(own_system(server.url))
    session = studio.retrieve(studio.new_session("own").id)
    view = explained(studio, session.id)
    assert [rule.sources for rule in view.claims[0].enough] == [(0,)]
    exported = studio.export(session.id)
    asked = len(server.bodies)
    assert asked == 9  # eight subsets, and the whole twice
    other = Studio(tmp_path / "other", systems=[own_system(server.url)])
    opened = other.load(exported)
    assert opened.state == session.state
    (explanation,) = opened.explanations
    assert other.view(explanation).claims == view.claims
    assert len(other.job(explanation).probes()) == 8
    assert other.probe(explanation, [0, 2]).holds
    assert "blue" in other.page(explanation)
    other.deepen(explanation)
    other.job(explanation).finished.wait(10)
    assert other.view(explanation).claims == view.claims
    assert len(server.bodies) == asked
    other.close()


def test_damaged_and_foreign_files_are_refused(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)
    explained(studio, session.id)
    good = studio.export(session.id)
    before = len(studio.sessions())
    damaged: list[Any] = [
        [],
        {},
        {**good, "version": 99},
        {**good, "state": {"sources": [{"id": 3}]}},
        {**good, "explanations": [{"view": {}}]},
        {**good, "explanations": [{**good["explanations"][0], "outputs": [["x"]]}]},
    ]
    for row in damaged:
        with pytest.raises(DataFormatError):
            studio.load(row)
    system = good["system"]
    foreign: list[Any] = [
        {"name": "../../etc"},
        {**system, "name": "../../etc"},
        {**system, "name": "other", "corpus": "/etc"},
        {**system, "name": "other", "instructions": "${oc.env:HOME}"},
        {**system, "name": "other", "condition": {"type": "regex", "pattern": "(?=x)"}},
        {**system, "name": "other", "generators": [{**system["generators"][2], "model": "/etc"}]},
        {**system, "name": "other", "generators": [{"type": "symbolic"}]},
    ]
    for row in foreign:
        with pytest.raises((ConfigError, UnknownNameError)):
            studio.load({**good, "system": row})
    assert len(studio.sessions()) == before
    assert not studio.own_place.is_dir() or not list(studio.own_place.iterdir())


def test_a_shared_session_opens_without_its_system_and_its_model(
    studio: Studio, tmp_path: Path, server: Server
) -> None:
    server.say = lambda number, body: (200, {}, completion("The lift is blue.", body))
    studio.add_system(own_system(server.url, top_k=2))
    session = studio.retrieve(studio.new_session("own", "shared").id)
    view = explained(studio, session.id)
    asked = len(server.bodies)
    row = json.loads(json.dumps(studio.export(session.id)))
    # Where nobody has this system, and its model is none that can be asked.
    generator = {"type": "model", "name": "remote", "title": "M", "model": "gemma-3-270m"}
    row["system"]["generators"] = [generator]
    other = Studio(tmp_path / "other")
    opened = other.load(row)
    assert other.session(opened.id).state.sources == session.state.sources
    (explanation,) = opened.explanations
    assert other.view(explanation).claims == view.claims
    assert [one.asked for one in other.levels(explanation)] == [1, 2, 1]
    assert "<svg" in other.picture(explanation, "lattice").svg
    other.close()
    again = Studio(tmp_path / "other")
    assert again.session(opened.id).name == "shared (opened)"
    assert [one.text for one in again.system("own").documents] == [
        one.text for one in session.state.sources
    ]
    assert len(server.bodies) == asked
    again.close()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "studio.sqlite") as base:
        base.execute("PRAGMA user_version = 7")
    with pytest.raises(DataFormatError, match="another version"):
        Studio(tmp_path)
    (tmp_path / "studio.sqlite").write_text("no database, but long enough to be looked at" * 9)
    with pytest.raises((DataFormatError, OutputError)):
        Studio(tmp_path)


def test_a_disk_that_is_full_changes_nothing(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    base = studio._storage._base
    ((pages,),) = base.execute("PRAGMA page_count").fetchall()
    base.execute(f"PRAGMA max_page_count = {pages}")
    source = session.state.sources[0].id
    with pytest.raises(OutputError, match="full"):
        studio.change(session.id, Edit(source=source, text="x" * 900_000))
    base.execute("PRAGMA max_page_count = 1000000")
    assert studio.session(session.id) == session
    studio.change(session.id, Edit(source=source, text="goes on"))


def test_an_endpoint_that_is_down_says_so_and_the_rest_works(
    studio: Studio, server: Server
) -> None:
    server.say = lambda number, body: failure(400, "out of order")
    studio.add_system(own_system(server.url))
    session = studio.retrieve(studio.new_session("own").id)
    view = explained(studio, session.id)
    assert view.status == "failed" and "out of order" in view.error
    server.say = ask_blue
    studio.deepen(view.id)
    studio.job(view.id).finished.wait(10)
    assert studio.view(view.id).status == "done"


def test_a_cancelled_job_frees_its_worker_at_once(tmp_path: Path, server: Server) -> None:
    slow = threading.Event()

    def hang(number: int, body: dict[str, Any]) -> Any:
        slow.wait(20)
        return ask_blue(number, body)

    server.say = hang
    limits = Limits(jobs=1, waiting=1)
    studio = Studio(tmp_path, systems=[own_system(server.url)], limits=limits)
    session = studio.retrieve(studio.new_session("own").id)
    first = studio.explain(session.id)
    second = studio.explain(session.id)
    with pytest.raises(ConfigError, match="2 explanations run or wait"):
        studio.explain(session.id)
    assert studio.cancel(second.id).status == "cancelled"
    while not server.bodies:
        time.sleep(0.01)
    begun = time.monotonic()
    assert studio.cancel(first.id).status == "cancelled"
    other = studio.retrieve(studio.new_session("finance").id)
    assert explained(studio, other.id).status == "done"
    assert time.monotonic() - begun < 3  # a worker was free long before the call came back
    slow.set()
    studio.deepen(first.id)
    studio.job(first.id).finished.wait(10)
    assert [rule.sources for rule in studio.view(first.id).claims[0].enough] == [(0,)]
    studio.close()


def test_ten_people_at_once_get_their_own(studio: Studio) -> None:
    sessions = [attacked(studio, "finance", "exception", 2) for _ in range(10)]
    for number, session in enumerate(sessions):
        source = session.state.sources[0]
        mine = source.text.replace("555-010-4477", f"555-010-{1000 + number}")
        studio.change(session.id, Edit(source=source.id, text=mine))
    begun = [studio.explain(session.id) for session in sessions]
    for number, view in enumerate(begun):
        assert studio.job(view.id).finished.wait(30)
        done = studio.view(view.id)
        assert done.status == "done" and f"555-010-{1000 + number}" in done.text
        assert [rule.sources for rule in done.claims[0].enough] == [(0, 1)]


def test_code_runs_as_it_is_shown(studio: Studio, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    session = studio.retrieve(studio.new_session("finance").id)
    said_so_far: list[tuple[object, ...]] = []
    for action in ("retrieve", "answer"):
        code = snippets(session, action)["python"]
        exec(code, {"print": lambda *said: said_so_far.append(said)})
    assert len(said_so_far) == 6  # five sources and an answer
    exec(snippets(session, "compare")["python"], {"print": lambda *said: said_so_far.append(said)})
    run = red_team_snippets("finance", ["strong-reader"])
    exec(run["python"], {})
    assert (tmp_path / "red-team" / "red-team.csv").is_file()
    off = red_team_snippets("finance", ["strong-reader"], instructed=False)["cli"]
    assert '"instructed": false' in off
    quoted = studio.change(session.id, Configure(question='Who\'s "there"? $(rm -rf /) `x`'))
    exec(snippets(quoted, "answer")["python"], {"print": lambda *said: None})
    assert "'Who'\"'\"'s" in snippets(quoted, "explain")["cli"]


def test_what_an_explanation_costs_is_said_before(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)
    told = studio.estimate(session.id)
    assert told["most"] == explained(studio, session.id).calls == 33
