"""Sessions over REST: asked, changed, taken back, kept through kills and full disks, handed on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EditConflictError,
    OutputError,
    UnknownNameError,
)
from rulerag.studio.service import Add, Configure, Edit, Limits, Move, Studio
from rulerag.studio.service.differing import word_changes
from rulerag.studio.web import Guards, create_app
from tests.endpoints import Server, chunk, failure, usage, wait_until
from tests.studio.conftest import (
    ask_blue,
    asked_session,
    attacked,
    enough,
    entered,
    explained,
    own_system,
    process_of,
    says,
    served,
)


def test_a_whole_session_over_rest(web: httpx.Client) -> None:
    assert web.get("/health").json()["status"] == "ok"
    names = [one["name"] for one in web.get("/api/systems").json()]
    assert names == ["finance", "software", "employees"]
    made = web.post("/api/sessions", json={"system": "finance"})
    assert made.status_code == 201
    place = f"/api/sessions/{made.json()['id']}"
    for source in web.post(f"{place}/retrieve", json={}).json()["state"]["sources"][:2]:
        change = {"kind": "inject", "source": source["id"], "attack": "exception"}
        assert web.post(f"{place}/change", json={"change": change}).status_code == 200
    assert web.post(f"{place}/answer").json()["holds"] is True
    assert web.get(f"{place}/estimate").json()["most"] == 33
    begun = web.post(f"{place}/explain", json={})
    assert begun.status_code == 202
    explanation = f"/api/explanations/{begun.json()['id']}"
    for _ in range(2):  # who leaves and comes back finds the same
        with web.stream("GET", f"{explanation}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    last = json.loads(lines[-1].removeprefix("data: "))
    (claim,) = last["explanation"]["claims"]
    assert (last["status"], last["holds"]) == ("done", True)
    assert [one["documents"] for one in claim["retention"]] == [[0, 1]]
    assert web.get(explanation).json() == last and last["explanation"]["num_calls"] == 33
    assert web.post(f"{explanation}/probe", json={"kept": [0]}).json()["holds"] is False
    assert len(web.get(f"{explanation}/probes").json()) == 32
    for kind in ("lattice", "flow", "bars"):
        drawn = web.get(f"{explanation}/{kind}.svg")
        assert drawn.headers["content-type"].startswith("image/svg+xml") and "<svg" in drawn.text
    assert web.get(f"{explanation}/pie.svg").status_code == 422
    assert web.post(f"{explanation}/deepen", json={"budget": 5}).status_code == 200
    assert web.post(f"{place}/undo").json()["can_redo"]
    assert not web.post(f"{place}/redo").json()["can_redo"]
    assert web.post("/api/sessions/open", json=web.get(f"{place}/export").json()).status_code == 201
    assert web.patch(place, json={"name": "mine"}).json()["name"] == "mine"
    assert web.delete(place).status_code == 200
    assert web.get(place).status_code == web.get(explanation).status_code == 404
    page, described = web.get("/docs").text, web.get("/openapi.json").json()
    assert all(path in page for path in described["paths"])
    assert "<script" not in page and "http" not in page.partition("</style>")[2]


def test_errors_say_what_would_work(web: httpx.Client) -> None:
    missing = web.post("/api/sessions", json={"system": "finanze"})
    assert missing.status_code == 404 and "did you mean 'finance'" in missing.json()["message"]
    session = web.post("/api/sessions", json={"system": "finance"}).json()
    place = f"/api/sessions/{session['id']}"
    source = web.post(f"{place}/retrieve", json={}).json()["state"]["sources"][0]["id"]
    before = web.get(place).json()
    for change, status, named in (
        ({"kind": "burn"}, 422, "burn"),
        ({"kind": "edit", "source": "nobody", "text": ""}, 404, "nobody"),
        ({"kind": "inject", "source": source, "attack": "exeption"}, 404, "'exception'"),
        ({"kind": "configure", "generator": "gpt"}, 404, "'gpt'"),
        ({"kind": "configure", "question": "?" * 5_000}, 422, "question"),
        ({"kind": "configure", "instructions": "?" * 17_000}, 422, "instructions"),
        ({"kind": "add", "text": "  "}, 422, "text"),
    ):
        said = web.post(f"{place}/change", json={"change": change})
        assert said.status_code == status and named in said.json()["message"], change
    late = {"change": {"kind": "add", "text": "t"}, "revision": 7}
    assert web.post(f"{place}/change", json=late).status_code == 409
    assert web.get(place).json() == before
    assert web.get("/api/explanations/nothing/events").status_code == 404


def test_tools_for_assistants(web: httpx.Client, studio: Studio) -> None:
    import asyncio

    client = pytest.importorskip("mcp.client")

    async def use() -> tuple[set[str], Any, Any]:
        async with client.Client(f"{web.base_url}/mcp") as tools:
            names = {tool.name for tool in (await tools.list_tools()).tools}
            question = "What is the customer service number of Penhallow Credit Union?"
            asked = {"system": "finance", "question": question}
            said = (await tools.call_tool("answer", asked)).structured_content
            wanted = {"session": said["session"], "goal": "claims"}
            told = (await tools.call_tool("explain", wanted)).structured_content
            probe = {"explanation": told["id"], "kept": [0]}
            return names, told, (await tools.call_tool("probe", probe)).structured_content

    names, told, probe = asyncio.run(use())
    assert names == {"answer", "explain", "probe", "rules_for"}
    assert told["status"] == "done" and "rests on" in " ".join(told["sentences"])
    assert probe["kept"] == [0] and len(studio.sessions()) == 1


# --- edits ----


def test_every_edit_can_be_taken_back(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    first, ids = session.state, [one.id for one in session.state.sources]
    studio.change(session.id, Edit(source=ids[0], text="new"))
    studio.change(session.id, Add(text="mine", title="T", place=1))
    from rulerag.studio.service import Delete

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
    assert not seen.can_redo and studio.redo(session.id) == seen


def test_two_tabs_and_many_threads_do_not_overwrite_each_other(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    source = session.state.sources[0].id
    studio.change(session.id, Edit(source=source, text="one"), revision=session.revision)
    with pytest.raises(EditConflictError, match="changed meanwhile"):
        studio.change(session.id, Edit(source=source, text="two"), revision=session.revision)
    assert studio.session(session.id).state.sources[0].text == "one"
    work = lambda n: studio.change(session.id, Add(text=f"text {n}"))  # noqa: E731
    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len({one.id for one in studio.session(session.id).state.sources}) == 25


def test_texts_and_sources_have_a_largest_size(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    source = session.state.sources[0].id
    with pytest.raises(ConfigError, match="characters, at most 1,000,000"):
        studio.change(session.id, Edit(source=source, text="a" * 1_000_001))
    text = "The customer service number of Larkfield Bank is 555-010-9999. " + "x " * 499_000
    studio.change(session.id, Edit(source=source, text=text))
    assert "555-010-9999" in explained(studio, session.id, instructed=False).text


def test_asked_again_an_answer_says_what_is_new(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    first, again = studio.answer(session.id), studio.answer(session.id)
    assert first.before is None and first.words == () and first.moves == ()
    assert again.before == again.text and again.words == (("same", again.text),)
    top, *_, last = session.state.sources
    number = "The customer service number of Larkfield Bank is 555-010-1234."
    studio.change(session.id, Edit(source=top.id, text=number))
    studio.change(session.id, Move(source=last.id, place=0))
    studio.change(session.id, Configure(instructed=False))
    now = studio.answer(session.id)
    assert now.before == first.text != now.text
    assert "".join(text for kind, text in now.words if kind != "removed") == now.text
    assert {kind for kind, _ in now.words} >= {"added", "removed"}
    moves = {one["title"]: one for one in now.moves}
    assert moves[top.title]["edited"] and not moves[last.title]["edited"]
    assert (moves[last.title]["before"], moves[last.title]["now"]) == (5, 1)
    studio.retrieve(session.id, "xyzzy")  # nothing is read any more
    assert {one["now"] for one in studio.answer(session.id).moves} == {None}
    long = "word " * 5_000
    assert word_changes(long, long + "end") == (("removed", long), ("added", long + "end"))


def test_an_answer_is_written_piece_by_piece(
    web: httpx.Client, studio: Studio, server: Server
) -> None:
    def say(number: int, body: dict[str, Any]) -> Any:
        pieces = [chunk("The lift ", body), chunk("is blue.", body, finish_reason="stop")]
        return 200, {}, iter([*pieces, usage()])

    server.say = say
    studio.add_system(own_system(server.url))
    place = f"/api/sessions/{asked_session(studio)}/answer/events"
    with web.stream("GET", place) as stream:
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    said = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert said[:2] == ["The lift ", "is blue."]
    assert (said[2]["text"], said[2]["holds"]) == ("The lift is blue.", True)
    server.say = lambda number, body: failure(400, "out of order")
    with web.stream("GET", place) as stream:
        assert "out of order" in "".join(stream.iter_lines())


# --- kills and full disks ----


def test_a_killed_server_loses_no_session(tmp_path: Path) -> None:
    with process_of(tmp_path) as (run, url), entered(url) as web:
        session = web.post("/api/sessions", json={"system": "finance"}).json()["id"]
        place = f"/api/sessions/{session}"
        web.post(f"{place}/retrieve", json={})
        begun = web.post(f"{place}/explain", json={"goal": "claims"}).json()["id"]
        wait_until(lambda: web.get(f"/api/explanations/{begun}").json()["status"] == "done")
        before = web.get(place).json(), web.get(f"/api/explanations/{begun}").json()
        page = web.get(f"/api/explanations/{begun}/page").text
        change = {"kind": "add", "text": "The last edit before the end."}
        last = web.post(f"{place}/change", json={"change": change}).json()
        run.kill()
    again = Studio(tmp_path)
    assert again.session(session).model_dump(mode="json") == last
    assert again.view(begun).model_dump(mode="json") == before[1]
    assert again.page(begun) == page and len(again.probes(begun)) == 32
    assert again.undo(session).model_dump(mode="json")["state"] == before[0]["state"]
    again.close()


def test_edits_take_their_place_once_and_deleting_gives_it_back(tmp_path: Path) -> None:
    studio = Studio(tmp_path, limits=Limits(undo=200))
    session = asked_session(studio, "finance")
    sources = studio.session(session).state.sources
    for number in range(100):
        text = f"{number} {'x' * 100_000}"
        studio.change(session, Edit(source=sources[number % 5].id, text=text))
    size = lambda: sum(one.stat().st_size for one in tmp_path.glob("studio.sqlite*"))  # noqa: E731
    assert 10e6 < size() < 20e6  # ten million letters, of which each state has half a million
    for _ in range(100):
        studio.undo(session)
    assert studio.session(session).state.sources == sources
    studio.delete(session)
    assert size() < 200_000
    # What no state holds any more goes with the states.
    studio = Studio(tmp_path / "few", limits=Limits(undo=3))
    session = asked_session(studio, "finance")
    for number in range(50):
        studio.change(session, Edit(source=sources[0].id, text=f"{number} {'x' * 1_000}"))
    for table in ("texts", "uses"):
        assert len(studio._storage._rows(f"SELECT 1 FROM {table}")) <= 5
    studio.undo(studio.undo(session).id)
    assert studio.session(session).state.sources[0].text.startswith("47 ")
    studio.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file system of its own")
def test_a_full_disk_lets_one_delete(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if subprocess.run(mounted, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    studio = Studio(disk / "data")
    try:
        sessions = [asked_session(studio, "finance") for _ in range(2)]
        source = studio.session(sessions[0]).state.sources[0].id
        with pytest.raises(OutputError, match="full"):
            for number in range(100):
                for session in sessions:
                    text = f"{number} {'x' * 300_000}"
                    studio.change(session, Edit(source=source, text=text))
        (disk / "filled").write_bytes(bytes(shutil.disk_usage(disk).free))
        kept = studio.session(sessions[1])
        studio.delete(sessions[0])
        assert [one["id"] for one in studio.sessions()] == [sessions[1]]
        assert studio.session(sessions[1]) == kept
        assert shutil.disk_usage(disk).free > 2e6
        studio.change(sessions[1], Edit(source=source, text="there is room again"))
    finally:
        studio.close()
        subprocess.run(["umount", str(disk)], check=True)


def test_who_has_many_sessions_keeps_nobody_else_out(tmp_path: Path) -> None:
    studio = Studio(tmp_path, limits=Limits(sessions=3))
    app = Guards(create_app(studio), local=True, token=None, most=200_000)
    with served(app) as url, httpx.Client(base_url=url) as one, httpx.Client(base_url=url) as two:
        begin = lambda web: web.post("/api/sessions", json={"system": "finance"})  # noqa: E731
        mine = [begin(one).json()["id"] for _ in range(3)]
        assert begin(one).status_code == 422 and begin(two).status_code == 201
        assert sorted(row["id"] for row in one.get("/api/sessions").json()) == sorted(mine)
        assert len(two.get("/api/sessions").json()) == 1
        assert two.get(f"/api/sessions/{mine[0]}").status_code == 200  # by its secret address
        saved = one.get(f"/api/sessions/{mine[0]}/export").json()
        assert two.post("/api/sessions/open", json=saved).status_code == 201
        assert len(two.get("/api/sessions").json()) == 2 and len(studio.sessions()) == 5
    studio.close()


def test_a_disk_that_is_full_loses_no_session(tmp_path: Path) -> None:
    """No file may grow over 300 kB: what a full disk is to a program."""
    import resource

    def little() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    with (
        process_of(tmp_path, before=little) as (_, url),
        entered(url) as web,
    ):
        session = web.post("/api/sessions", json={"system": "finance"}).json()["id"]
        place = f"/api/sessions/{session}"
        kept = web.post(f"{place}/retrieve", json={}).json()
        source = kept["state"]["sources"][0]["id"]
        for number in range(100):
            change = {"kind": "edit", "source": source, "text": f"{number} {'x' * 20_000}"}
            said = web.post(f"{place}/change", json={"change": change})
            if said.status_code != 200:
                break
            kept = said.json()
        assert (said.status_code, said.json()["error"]) == (507, "OutputError")
        assert web.get(place).json() == kept
        kept["reply"] = web.post(f"{place}/answer").json()  # little, and asked for nothing else
        # What was asked is not thrown away because it cannot be kept.
        begun = web.post(f"{place}/explain", json={}).json()["id"]
        with web.stream("GET", f"/api/explanations/{begun}/events") as stream:
            told = [line for line in stream.iter_lines() if line.startswith("data: ")]
        last = json.loads(told[-1].removeprefix("data: "))
        assert (last["status"], last["probes"]) == ("done", 32)
        assert "will be gone when the studio ends" in last["error"]
        # Its beginning may still have found room; the session itself is what it was.
        kept["explanations"] = web.get(place).json()["explanations"]
    again = Studio(tmp_path)
    assert again.session(session).model_dump(mode="json") == kept
    again.close()


def test_a_change_is_whole_or_not_there(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    base = studio._storage._base
    ((pages,),) = base.execute("PRAGMA page_count").fetchall()
    base.execute(f"PRAGMA max_page_count = {pages}")
    source = session.state.sources[0].id
    with pytest.raises(OutputError, match="full"):
        studio.change(session.id, Edit(source=source, text="x" * 900_000))
    base.execute("PRAGMA max_page_count = 1000000")
    assert studio.session(session.id) == session
    studio.change(session.id, Edit(source=source, text="goes on"))


def test_a_change_that_fails_at_its_last_step_leaves_nothing(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 0)
    source = session.state.sources[0].id
    studio.change(session.id, Edit(source=source, text="undone"))
    session = studio.undo(session.id)
    # Of a full disk SQLite takes the whole change back by itself; of other faults it does not.
    base = studio._storage._base
    fault = "BEFORE UPDATE ON sessions BEGIN SELECT RAISE(FAIL, 'a fault'); END"
    base.execute(f"CREATE TEMP TRIGGER fault {fault}")
    with pytest.raises(OutputError, match="a fault"):
        studio.change(session.id, Edit(source=source, text="half"))
    base.execute("DROP TRIGGER fault")
    assert studio.session(session.id) == session
    assert studio.redo(session.id).state.sources[0].text == "undone"


def test_a_folder_that_is_none_of_a_studio_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "studio.sqlite")) as base:
        base.execute("PRAGMA user_version = 7")
    with pytest.raises(DataFormatError, match="another version"):
        Studio(tmp_path)
    (tmp_path / "studio.sqlite").write_text("no database, but long enough to be looked at" * 9)
    with pytest.raises((DataFormatError, OutputError)):
        Studio(tmp_path)
    with pytest.raises(OutputError, match="--data"):
        Studio(tmp_path / "studio.sqlite" / "data")


# --- files ----


def test_a_file_opens_without_a_model_and_without_its_system(
    studio: Studio, tmp_path: Path, server: Server
) -> None:
    server.say = ask_blue
    studio.add_system(own_system(server.url))
    session = studio.rename(asked_session(studio), "shared")
    view = explained(studio, session.id)
    assert enough(view) == [[0]]
    row, asked = json.loads(json.dumps(studio.export(session.id))), len(server.bodies)
    assert asked == 9  # eight subsets, and the whole twice
    # Where nobody has this system, and then where its model is none that can be asked.
    model = {"type": "model", "name": "remote", "title": "M", "model": "gemma-3-270m"}
    for number, generators in enumerate((row["system"]["generators"], [model])):
        row["system"]["generators"] = generators
        other = Studio(tmp_path / f"other-{number}")
        opened = other.load(row)
        assert opened.state == session.state
        (explanation,) = opened.explanations
        assert enough(other.view(explanation)) == [[0]] and other.view(explanation).opened
        assert other.job(explanation).ask([0, 2]).holds and len(other.probes(explanation)) == 8
        pictures = [other.picture(explanation, kind).svg for kind in ("lattice", "flow", "bars")]
        assert all("<svg" in one for one in pictures) and "blue" in other.page(explanation)
        if not number:
            other.deepen(explanation)
            assert other.job(explanation).finished.wait(10)
            assert enough(other.view(explanation)) == [[0]]
        other.close()
        again = Studio(tmp_path / f"other-{number}")
        assert again.session(opened.id).name == "shared (opened)"
        texts = [one.text for one in again.system("own").documents]
        assert texts == [one.text for one in session.state.sources]
        again.close()
    assert len(server.bodies) == asked


def _outputs(place: Any) -> Any:
    return lambda kept: kept["outputs"][3].__setitem__(0, [place])


@pytest.mark.parametrize("change", [_outputs(10**11), _outputs(-1), _outputs("0")])
def test_a_file_cannot_name_sources_that_it_does_not_hold(studio: Studio, change: Any) -> None:
    """A set of sources is drawn as a number of so many bits: place 10¹¹ would take 12 GB."""
    session = attacked(studio, "finance", "exception", 2)
    explained(studio, session.id)
    row = studio.export(session.id)
    good = json.dumps(row)
    change(row["explanations"][0])
    with pytest.raises(DataFormatError, match="damaged session: an explanation"):
        studio.load(row)
    assert studio.load(json.loads(good)).state == session.state


def test_what_a_file_says_of_its_answers_is_found_anew(studio: Studio) -> None:
    """A forged rule, certificate and verdict are gone; what the file answered is marked as its."""
    session = attacked(studio, "finance", "exception", 2)
    studio.answer(session.id)
    explained(studio, session.id)
    row = json.loads(json.dumps(studio.export(session.id)))
    view = row["explanations"][0]["view"]
    claim = view["explanation"]["claims"][0]
    claim["retention"][0]["documents"] = [4]
    view |= {"holds": False, "condition": "nothing is wrong", "opened": False}
    row["reply"] |= {"holds": False, "condition": "nothing is wrong", "opened": False}
    opened = studio.load(row)
    (explanation,) = opened.explanations
    seen = studio.view(explanation)
    assert enough(seen) == [[0, 1]] and seen.opened and seen.holds is True
    assert seen.condition == "the answer holds a telephone number"
    assert "all 32 combinations" in " ".join(seen.sentences)
    assert "from a session's file" in studio.page(explanation).replace("&#39;", "'")
    reply = opened.reply
    assert reply is not None and reply.opened and reply.holds
    # Half of its answers: nothing is certain that was not answered.
    row["explanations"][0]["outputs"] = row["explanations"][0]["outputs"][:9]
    (explanation,) = studio.load(row).explanations
    assert "all 32" not in " ".join(studio.view(explanation).sentences)


def test_damaged_and_foreign_files_are_refused(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)
    explained(studio, session.id)
    good, before = studio.export(session.id), len(studio.sessions())
    damaged: list[Any] = [
        [],
        {},
        {**good, "version": 99},
        {**good, "state": {"sources": [{"id": 3}]}},
        {**good, "explanations": [{"view": {}}]},
        {**good, "reply": {"text": 3}},
        {**good, "explanations": [{**good["explanations"][0], "outputs": [["x"]]}]},
    ]
    for row in damaged:
        with pytest.raises(DataFormatError):
            studio.load(row)
    long = {**good["state"], "question": "?" * 5_000}
    system = {**good["system"], "name": "other"}
    foreign: list[Any] = [
        {**good, "state": long},
        {**good, "system": {"name": "../../etc"}},
        {**good, "system": {**system, "name": "../../etc"}},
        {**good, "system": {**system, "corpus": "/etc"}},
        {**good, "system": {**system, "instructions": "${oc.env:HOME}"}},
        {**good, "system": {**system, "condition": {"type": "regex", "pattern": "(?=x)"}}},
        {
            **good,
            "system": {**system, "generators": [{**system["generators"][2], "model": "/etc"}]},
        },
        {**good, "system": {**system, "generators": [{"type": "symbolic"}]}},
    ]
    for row in foreign:
        with pytest.raises((ConfigError, UnknownNameError)):
            studio.load(row)
    assert len(studio.sessions()) == before
    assert not studio.own.place.is_dir() or not list(studio.own.place.iterdir())


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"NaN", b"[" * 100_000, b'{"a":' * 30_000, b"[]", b"", b'{"version": 1}']
)
def test_what_is_no_session_is_refused_and_not_repeated(web: httpx.Client, body: bytes) -> None:
    for kind in ("application/json", "text/plain"):
        said = web.post("/api/sessions/open", content=body, headers={"Content-Type": kind})
        assert said.status_code in (400, 422), said.text
        assert len(said.text) < 300


def test_what_a_source_says_is_not_done(studio: Studio, server: Server) -> None:
    """Nothing that a source names is fetched: the only calls are those of the endpoint."""
    server.say = says("It is blue.")
    studio.add_system(own_system(server.url))
    session, other = asked_session(studio), server.url.removesuffix("/v1")
    text = f"![x]({other}/stolen) <img src='{other}/stolen'> file:///etc/passwd {{{{ 7*7 }}}} blue"
    studio.change(session, Add(text=text))
    view = explained(studio, session)
    assert view.status == "done" and "<img" not in studio.page(view.id)
    assert set(server.paths) == {"/v1/chat/completions"}
