"""Hostile files, texts, requests and endpoints: each guard has a test that fails without it."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.errors import ConfigError, DataFormatError, OutputError
from rulerag.studio.service import Add, Studio
from rulerag.studio.systems import JudgedCondition, RegexCondition, predicate_of
from rulerag.studio.web import Guards, create_app
from tests.endpoints import Server, completion, failure, wait_until
from tests.studio.conftest import attacked, explained, own_system, process_of, served

KEY = "sk-this-is-a-secret"


@pytest.fixture
def keyed(studio: Studio, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A session with a system whose endpoint needs a key."""
    monkeypatch.setenv("OUR_KEY", KEY)
    own = own_system(server.url)
    generators = (own.generators[0].model_copy(update={"api_key_env": "OUR_KEY"}),)
    made = Studio(tmp_path / "own", systems=[own.model_copy(update={"generators": generators})])
    studio._systems["own"] = made.system("own")
    made.close()
    return studio.retrieve(studio.new_session("own").id).id


# --- files ----


def _place(place: Any) -> Callable[[dict[str, Any]], None]:
    def change(kept: dict[str, Any]) -> None:
        kept["outputs"][3][0] = [place]

    return change


def _in_view(kept: dict[str, Any]) -> None:
    kept["view"]["claims"][0]["enough"][0]["sources"] = [10**11]


def _in_explained(kept: dict[str, Any]) -> None:
    kept["explained"]["claims"][0]["retention"][0]["documents"] = [77]


def _fewer_documents(kept: dict[str, Any]) -> None:
    kept["explained"]["documents"] = []


@pytest.mark.parametrize(
    "change",
    [_place(10**11), _place(-1), _place("0"), _in_view, _in_explained, _fewer_documents],
)
def test_a_file_cannot_name_sources_that_it_does_not_hold(
    studio: Studio, change: Callable[[dict[str, Any]], None]
) -> None:
    """A set of sources is drawn as a number of so many bits: place 10¹¹ would take 12 GB."""
    session = attacked(studio, "finance", "exception", 2)
    explained(studio, session.id)
    good = studio.export(session.id)
    row = copy.deepcopy(good)
    change(row["explanations"][0])
    with pytest.raises(DataFormatError, match="damaged session: an explanation"):
        studio.load(row)
    assert studio.load(good).state == good_state(studio, session.id)


def good_state(studio: Studio, session: str) -> Any:
    return studio.session(session).state


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"NaN", b"[" * 100_000, b'{"a":' * 30_000, b"[]", b"", b'{"version": 1}']
)
def test_what_is_no_session_is_refused_and_not_repeated(address: str, body: bytes) -> None:
    for kind in ("application/json", "text/plain"):
        said = httpx.post(
            f"{address}/api/sessions/open", content=body, headers={"Content-Type": kind}
        )
        assert said.status_code in (400, 422), said.text
        assert len(said.text) < 300


def test_a_form_of_another_site_is_no_json(address: str, studio: Studio) -> None:
    """What a form can send without a question of the browser: text, not JSON."""
    body = json.dumps({"system": "finance"})
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        said = httpx.post(f"{address}/api/sessions", content=body, headers={"Content-Type": kind})
        assert said.status_code == 422
    assert studio.sessions() == []


def test_names_lead_to_no_files(address: str, studio: Studio, tmp_path: Path) -> None:
    session = attacked(studio, "finance", "exception", 1)
    good = studio.export(session.id)
    (tmp_path / "outside.yaml").write_text("name: outside")
    for name in ("../outside", "../../etc/passwd", "/etc/passwd", "..%2foutside", "finance/../x"):
        row = {**good, "system": {"name": name}}
        said = httpx.post(f"{address}/api/sessions/open", json=row)
        assert (said.status_code, said.json()["error"]) == (404, "UnknownNameError")
        for path in (f"/api/sessions/{name}", f"/api/runs/{name}", f"/api/systems/{name}/bank"):
            found = httpx.get(f"{address}{path}")
            assert found.status_code == 404 and "root:" not in found.text


# --- requests ----


def _refused(path: str, **headers: str) -> int | None:
    """The status of a refusal by the guards; None where the application is reached."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    told = {"host": "127.0.0.1:8080", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in told.items()],
    }
    asyncio.run(Guards(app, local=True, token=None, most=1)(scope, lambda: None, send))  # type: ignore[arg-type,return-value]
    status = sent[0]["status"]
    return None if status == 200 else int(status)


@pytest.mark.parametrize("path", ["/api/systems", "/mcp", "/_nicegui_ws/socket.io/"])
def test_data_and_messages_are_read_by_no_other_site(path: str) -> None:
    """The last is how a WebSocket is replaced by polling, which allows every origin."""
    assert _refused(path, origin="http://evil.example") == 403
    assert _refused(path, sec_fetch_site="cross-site") == 403
    assert _refused(path, origin="http://127.0.0.1:8080") is None


def test_the_address_after_the_token_stays_here(studio: Studio) -> None:
    app = Guards(create_app(studio), local=False, token="t", most=100)
    with served(app) as url:
        for path in ("//evil.example", "/%5Cevil.example", "/x%0d%0aSet-Cookie:a=b"):
            told = httpx.get(f"{url}{path}?token=t")
            place = told.headers["location"]
            assert told.status_code == 303
            assert place.startswith("/") and not place.startswith(("//", "/\\"))
            assert len(told.headers.get_list("set-cookie")) == 1


def test_a_token_is_needed_by_sockets_tools_and_pages(tmp_path: Path) -> None:
    with process_of(tmp_path, "--host", "0.0.0.0") as (run, told):
        url, _, token = told.replace("0.0.0.0", "127.0.0.1").partition("/?token=")
        wrong = ({}, {"Cookie": f"{_COOKIE}=wrong"}, {"Authorization": token})
        for path in ("/", "/session/x", "/docs", "/openapi.json", "/mcp", "/api/attacks", _SOCKET):
            for headers in wrong:
                assert httpx.get(url + path, headers=headers).status_code == 401, path
        for headers in ({"Cookie": f"{_COOKIE}={token}"}, {"Authorization": f"Bearer {token}"}):
            assert httpx.get(url + _SOCKET, headers=headers).status_code == 200
            page = httpx.get(f"{url}/", headers=headers, timeout=30)
            assert page.status_code == 200 and token not in page.text
        run.send_signal(signal.SIGINT)
        assert token not in run.communicate(timeout=20)[1]


_COOKIE = "rulerag-studio-token"
_SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"


def test_red_team_runs_over_requests_are_limited(
    address: str, studio: Studio, server: Server
) -> None:
    body = {"system": "finance", "generators": ["weak-reader"], "questions": ["?" * 5_000]}
    said = httpx.post(f"{address}/api/red-team", json=body)
    assert (said.status_code, said.json()["error"]) == (422, "ConfigError")
    slow = threading.Event()
    server.say = lambda number, body: (slow.wait(20), (200, {}, completion("No.", body)))[1]
    studio.add_system(own_system(server.url))
    most = studio.limits.jobs
    runs = [studio.start_red_team("own", ["remote"], questions=[_lift(n)]) for n in range(most)]
    asked = {"system": "own", "generators": ["remote"], "questions": [_lift(most)]}
    said = httpx.post(f"{address}/api/red-team", json=asked)
    assert (said.status_code, said.json()["error"]) == (422, "ConfigError")
    assert studio.start_red_team("own", ["remote"], questions=[_lift(0)]) is runs[0]
    for one in runs:
        one.stop()
    slow.set()
    assert all(one.finished.wait(10) for one in runs)
    assert all(one.report.cells == () for one in runs)


def _lift(number: int) -> str:
    return f"Is the lift {number}?"


# --- texts ----


@pytest.mark.parametrize("text", ["<" + " " * 300_000, "< " * 150_000, "</answer" * 40_000])
def test_the_marks_of_the_judge_take_linear_time(server: Server, text: str) -> None:
    from rulerag.generation import OpenAICompatibleGenerator

    server.say = lambda number, body: (200, {}, completion("no", body))
    judge = OpenAICompatibleGenerator(server.url, "m", template="plain")
    condition = JudgedCondition(
        prompt="<answer>{output}</answer>?", instead=RegexCondition(pattern="bad")
    )
    begun = time.monotonic()
    assert not predicate_of(condition, judge)(text)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "reply", ["no", "NO.", "yes", "Yes!", "I was told to reply no", "?", "نعم"]
)
def test_only_a_plain_no_of_the_judge_lets_an_answer_pass(server: Server, reply: str) -> None:
    from rulerag.generation import OpenAICompatibleGenerator

    server.say = lambda number, body: (200, {}, completion(reply, body))
    judge = OpenAICompatibleGenerator(server.url, "m", template="plain")
    condition = JudgedCondition(prompt="{output}?", instead=RegexCondition(pattern="bad"))
    assert predicate_of(condition, judge)("anything") is not (reply.lower().startswith("no"))


# --- keys ----


def test_a_key_is_in_no_error_file_or_table(
    studio: Studio, keyed: str, server: Server, address: str, tmp_path: Path
) -> None:
    """An endpoint that repeats the key in its error, as some do."""
    server.say = lambda number, body: failure(401, f"Incorrect API key provided: {KEY}.")
    view = explained(studio, keyed)
    assert view.status == "failed" and "Incorrect API key" in view.error
    assert any(KEY in one for one in server.keys)  # it was sent
    report = studio.red_team("own", ["remote"], names=["exception"], kept=tmp_path / "cells.jsonl")
    files = report.write(tmp_path / "out")
    said = [httpx.post(f"{address}/api/sessions/{keyed}/answer").text]
    said += [httpx.get(f"{address}{path}").text for path in _pages(keyed, view.id)]
    said += [file.read_text() for file in (*files, tmp_path / "cells.jsonl")]
    said += [json.dumps(studio.export(keyed)), json.dumps(studio.systems())]
    studio.close()
    said += [file.read_bytes().decode("latin-1") for file in (tmp_path / "data").iterdir()]
    assert all(said) and not [one for one in said if KEY in one or "OUR_KEY" in one]


def _pages(session: str, explanation: str) -> list[str]:
    return [
        f"/api/sessions/{session}",
        f"/api/sessions/{session}/export",
        f"/api/sessions/{session}/code/explain",
        f"/api/explanations/{explanation}",
        f"/api/explanations/{explanation}/page",
        "/api/systems",
        "/openapi.json",
    ]


def test_an_address_with_a_password_is_refused(server: Server) -> None:
    """Addresses are shown; keys stand in variables."""
    with pytest.raises(ConfigError, match="api_key_env"):
        own_system(server.url.replace("http://", f"http://user:{KEY}@"))


# --- a killed server, a full disk ----


def test_a_killed_server_loses_no_session(tmp_path: Path) -> None:
    with process_of(tmp_path) as (run, url), httpx.Client(base_url=url, timeout=30) as web:
        session = web.post("/api/sessions", json={"system": "finance"}).json()["id"]
        place = f"/api/sessions/{session}"
        web.post(f"{place}/retrieve", json={})
        begun = web.post(f"{place}/explain", json={"goal": "claims"}).json()["id"]
        wait_until(lambda: web.get(f"/api/explanations/{begun}").json()["status"] == "done")
        before = web.get(place).json(), web.get(f"/api/explanations/{begun}").json()
        change = {"kind": "add", "text": "The last edit before the end."}
        last = web.post(f"{place}/change", json={"change": change}).json()
        run.kill()
    again = Studio(tmp_path)
    assert again.session(session).model_dump(mode="json") == last
    assert again.view(begun).model_dump(mode="json") == before[1]
    assert again.undo(session).model_dump(mode="json")["state"] == before[0]["state"]
    again.close()


def test_a_disk_that_is_full_loses_no_session(tmp_path: Path) -> None:
    """No file may grow over 300 kB: what a full disk is to a program."""
    import resource

    def little() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    with (
        process_of(tmp_path, before=little) as (_, url),
        httpx.Client(base_url=url, timeout=30) as web,
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
        assert web.post(f"{place}/answer").status_code == 200
        # What was asked is not thrown away because it cannot be kept.
        begun = web.post(f"{place}/explain", json={}).json()["id"]
        with web.stream("GET", f"/api/explanations/{begun}/events") as stream:
            told = [line for line in stream.iter_lines() if line.startswith("data: ")]
        last = json.loads(told[-1].removeprefix("data: "))
        assert (last["status"], last["probes"]) == ("done", 32)
        assert "will be gone when the studio ends" in last["notes"][-1]
    again = Studio(tmp_path)
    assert again.session(session).model_dump(mode="json") == kept
    again.close()


def test_a_folder_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="--data"):
        Studio(tmp_path / "file" / "data")


def test_what_a_source_says_is_not_done(studio: Studio, server: Server) -> None:
    """Nothing that a source names is fetched: the only calls are those of the endpoint."""
    server.say = lambda number, body: (200, {}, completion("It is blue.", body))
    studio.add_system(own_system(server.url))
    session = studio.retrieve(studio.new_session("own").id)
    other = server.url.removesuffix("/v1")
    text = f"![x]({other}/stolen) <img src='{other}/stolen'> file:///etc/passwd {{{{ 7*7 }}}} blue"
    studio.change(session.id, Add(text=text))
    view = explained(studio, session.id)
    assert view.status == "done" and "<img" not in studio.page(view.id)
    assert set(server.paths) == {"/v1/chat/completions"}
