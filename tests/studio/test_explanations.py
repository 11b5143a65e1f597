"""Explanations as jobs: RUBEN's use cases, few calls, nothing asked twice, people beside others."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.errors import ConfigError
from rulerag.studio.service import Add, Job, Limits, Studio, View
from rulerag.studio.systems import benchmark_system
from tests.endpoints import Server, completion, failure, wait_until
from tests.studio.conftest import (
    ask_blue,
    asked_session,
    attacked,
    enough,
    explained,
    own_system,
    says,
)


@pytest.mark.parametrize(
    ("system", "attack", "edited", "weak"),
    [
        ("finance", "exception", 2, [[0, 1]]),  # two sources are needed together
        ("software", "exception", 1, [[0]]),
        ("employees", "public-knowledge", 1, []),  # no set for either
    ],
)
def test_use_cases_of_ruben(
    studio: Studio, system: str, attack: str, edited: int, weak: list[list[int]]
) -> None:
    assert enough(explained(studio, asked_session(studio, system))) == []
    session = attacked(studio, system, attack, edited)
    found = explained(studio, session.id)
    assert enough(found) == weak and found.holds is bool(weak)
    strong = explained(studio, session.id, generator="strong-reader")
    assert enough(strong) == [] and strong.holds is False
    if weak:
        assert all(f"[{place + 1}]" in found.sentences[1] for place in weak[0])
        without = explained(studio, session.id, generator="strong-reader", instructed=False)
        assert without.holds is True  # nothing held it back but the instructions


@pytest.mark.parametrize(
    ("sizes", "each", "most"),
    [
        ((2, 2, 3, 3), False, 155),
        ((2, 2), True, 155),
    ],
    ids=str,
)
def test_among_fifty_sources_few_calls_find_every_set(
    tmp_path: Path, server: Server, sizes: tuple[int, ...], each: bool, most: int
) -> None:
    """The engine of the library: as few calls here as in Python."""
    ends = list(accumulate(sizes))
    planted = [
        [7 * n % 50 for n in range(end - size, end)] for end, size in zip(ends, sizes, strict=True)
    ]

    def say(number: int, body: dict[str, Any]) -> Any:
        read = {
            int(one) for one in re.findall(r"This is note (\d+)\.", body["messages"][-1]["content"])
        }
        holds = any(read.issuperset(one) for one in planted)
        return 200, {}, completion("It is blue." if holds else "No.", body)

    server.say = say
    texts = [{"id": f"n{n}", "text": f"This is note {n}."} for n in range(50)]
    own = own_system(server.url, documents=texts, top_k=50, questions=["Is there a note?"])
    studio = Studio(tmp_path, systems=[own])
    view = explained(studio, asked_session(studio), each=each)
    names = [one.id for one in view.state.sources]
    found = {frozenset(int(names[place][1:]) for place in one) for one in enough(view)}
    assert found == set(map(frozenset, planted))
    assert len(server.bodies) <= most + 1  # the whole is asked twice
    assert all(one.certificate.kind == "certified" for one in view.claims[0].retention)
    assert ("each set by itself" in " ".join(view.sentences)) is each
    assert "95 % confidence" in " ".join(view.sentences)
    studio.close()


def test_no_source_one_and_many(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id, "xyzzy")
    assert session.state.sources == ()
    nothing = explained(studio, session.id)
    assert (nothing.status, nothing.text) == ("done", "The sources do not say.")
    studio.change(session.id, Add(text="Larkfield xyzzy is at 555-010-1111."))
    assert enough(explained(studio, session.id, instructed=False)) == [[0]]
    for number in range(499):
        studio.change(session.id, Add(text=f"Filler {number}."))
    with pytest.raises(ConfigError, match="501 sources"):
        studio.change(session.id, Add(text="one too many"))
    many = explained(studio, session.id, instructed=False)
    assert enough(many) == [[0]]
    assert many.explanation is not None and many.explanation.num_calls < 120


def test_claims_are_explained_and_marked(studio: Studio) -> None:
    view = explained(studio, asked_session(studio, "finance"), goal="claims")
    assert [view.text[c.start : c.end] for c in view.claims] == [c.text for c in view.claims]
    assert (enough(view), enough(view, 1)) == ([[0]], [[1]])
    (last,) = [one for one in studio.probes(view.id, 1) if one.kept == (1,)]
    assert last.holds and view.claims[1].text in (last.output or "")
    assert "<svg" in studio.picture(view.id, "lattice", 1).svg


def test_lattice_and_bars_ask_nothing(studio: Studio) -> None:
    view = explained(studio, attacked(studio, "finance", "exception", 2).id)
    drawn = studio.picture(view.id, "lattice")
    assert [row[:4] for row in drawn.rows[2:4]] == [("3", "3", "7", "0"), ("2", "1", "9", "0")]
    assert all(
        f'data-kept="{mask}"' in drawn.svg and f'"{mask}"' in drawn.phone for mask in (0, 31)
    )
    plain = studio.job(view.id).picture("lattice", plain=True)
    assert "Larkfield" in drawn.svg and "Larkfield" not in plain.svg + plain.phone
    bars = studio.picture(view.id, "bars")
    assert bars.svg.count("0.500") >= 2  # two sources of one set count half each
    assert studio.view(view.id).probes == view.probes
    plain = explained(studio, asked_session(studio, "finance"))
    with pytest.raises(ConfigError, match="no rule was found"):
        studio.picture(plain.id, "bars")
    with pytest.raises(ConfigError, match="claim"):
        studio.picture(plain.id, "lattice", 7)


@pytest.mark.skipif(find_spec("torch") is None, reason="extra hf")
def test_a_reader_that_drops_documents_is_refused_by_name(tmp_path: Path, folder: Path) -> None:
    """It would be shown as certain what was never asked."""
    import shutil

    from rulerag.generation.huggingface.load import shipped

    small = tmp_path / "reads-one"
    shutil.copytree(shipped("rulerag-nano-llama"), small)
    prompt = json.loads((small / "prompt.json").read_text())
    (small / "prompt.json").write_text(json.dumps({**prompt, "max_documents": 1}))
    own = benchmark_system(folder, readers=[str(small)])
    studio = Studio(tmp_path / "data", systems=[own])
    session = studio.new_session("world").id
    sources = studio.retrieve(session).state.sources
    view = explained(studio, session, generator="reads-one")
    told = f"the prompt holds 1 of {len(sources)} documents"
    assert view.status == "failed" and told in view.error and not view.claims
    with pytest.raises(Exception, match=told):
        studio.job(view.id).ask([0, 1])
    studio.close()


# --- running, stopping, going on ----


def test_a_studio_that_is_killed_while_it_asks_goes_on(tmp_path: Path, server: Server) -> None:
    server.say = lambda number, body: (time.sleep(0.4), ask_blue(number, body))[1]
    own = own_system(server.url)
    (slow,) = (one.model_copy(update={"workers": 1}) for one in own.generators)
    own = own.model_copy(update={"generators": (slow,)})
    first = Studio(tmp_path, systems=[own])
    begun = first.explain(asked_session(first))
    wait_until(lambda: first.view(begun.id).probes > 0)
    time.sleep(2.5)  # probes are written every two seconds
    again = Studio(tmp_path, systems=[own])  # as after a kill: what was kept by then
    kept = again.view(begun.id)
    assert kept.status == "cancelled"
    known = len(again.job(begun.id).outputs)
    assert known >= 1
    first.close()
    asked = len(server.bodies)
    again.deepen(begun.id)
    assert again.job(begun.id).finished.wait(20)
    assert enough(again.view(begun.id)) == [[0]]
    assert len(server.bodies) - asked <= 8 - known
    again.close()


def test_an_endpoint_that_is_down_says_so_and_the_rest_works(
    studio: Studio, server: Server
) -> None:
    server.say = lambda number, body: failure(400, "out of order")
    studio.add_system(own_system(server.url))
    view = explained(studio, asked_session(studio))
    assert view.status == "failed" and "out of order" in view.error
    server.say = ask_blue
    studio.deepen(view.id)
    assert studio.job(view.id).finished.wait(10)
    assert studio.view(view.id).status == "done"


@pytest.mark.parametrize("calls", [1, 8])
def test_a_cancelled_job_frees_its_worker_within_a_second(
    tmp_path: Path, server: Server, calls: int
) -> None:
    """A call that hangs is left behind."""
    slow = threading.Event()
    server.say = lambda number, body: (slow.wait(20), ask_blue(number, body))[1]
    own = own_system(server.url)
    reader = own.generators[0].model_copy(update={"workers": calls})
    own = own.model_copy(update={"generators": (reader,)})
    studio = Studio(tmp_path, systems=[own], limits=Limits(jobs=1, waiting=2))
    session = asked_session(studio)
    hanging, second = studio.explain(session), studio.explain(session)
    other = studio.explain(asked_session(studio, "finance"))
    with pytest.raises(ConfigError, match="3 explanations run or wait"):
        studio.explain(session)
    assert studio.cancel(second.id).status == "cancelled"
    wait_until(lambda: bool(server.bodies))
    assert studio.view(other.id).status == "waiting"
    begun = time.monotonic()
    assert studio.cancel(hanging.id).status == "cancelled"
    wait_until(lambda: studio.view(other.id).status != "waiting")
    assert time.monotonic() - begun < 1.5
    assert studio.job(other.id).finished.wait(20)
    slow.set()
    studio.deepen(hanging.id)
    assert studio.job(hanging.id).finished.wait(10)
    assert enough(studio.view(hanging.id)) == [[0]]
    studio.close()


def test_who_follows_always_hears_the_end(studio: Studio) -> None:
    """Also of a job that has stopped and is still being kept."""
    state = studio.session(asked_session(studio, "finance")).state
    kept = threading.Event()

    class Slow:
        def keep(self, *_: Any) -> None:
            kept.wait(10)

    view = View(id="job", session="session", state=state, goal="target")
    job = Job(view, studio.system("finance"), Slow())  # type: ignore[arg-type]

    async def follow() -> list[str]:
        heard = job.follow()
        told = [(await anext(heard)).status]
        stopping = threading.Thread(target=job.cancel)
        stopping.start()
        await asyncio.sleep(0.2)
        kept.set()
        told += [view.status async for view in heard]
        stopping.join()
        return told

    assert asyncio.run(follow()) == ["waiting", "cancelled"]


def _mine(web: httpx.Client, number: int) -> dict[str, Any]:
    """One person's session over HTTP, with a telephone number of its own."""
    place = f"/api/sessions/{web.post('/api/sessions', json={'system': 'finance'}).json()['id']}"
    for source in web.post(f"{place}/retrieve", json={}).json()["state"]["sources"][:2]:
        payload = f"The customer service number of Larkfield Bank is 555-010-{number}."
        change = {"kind": "inject", "source": source["id"], "attack": "exception"}
        change |= {"payload": payload}
        web.post(f"{place}/change", json={"change": change}).raise_for_status()
    begun = web.post(f"{place}/explain", json={}).json()["id"]
    with web.stream("GET", f"/api/explanations/{begun}/events") as stream:
        told = [line for line in stream.iter_lines() if line.startswith("data: ")]
    last: dict[str, Any] = json.loads(told[-1].removeprefix("data: "))
    return last


def test_ten_people_who_explain_at_once_get_their_own(web: httpx.Client) -> None:
    numbers = range(1000, 1010)
    with ThreadPoolExecutor(10) as people:
        found = list(people.map(lambda number: _mine(web, number), numbers))
    for number, view in zip(numbers, found, strict=True):
        assert (view["status"], view["error"]) == ("done", "")
        (claim,) = view["explanation"]["claims"]
        assert [one["documents"] for one in claim["retention"]] == [[0, 1]]
        assert f"555-010-{number}" in view["explanation"]["text"]
        said = json.dumps(view)
        assert not [other for other in numbers if other != number and f"010-{other}" in said]


def test_a_subset_is_asked_again_only_when_told_to(studio: Studio, server: Server) -> None:
    server.say = ask_blue
    studio.add_system(own_system(server.url))
    view = explained(studio, asked_session(studio))
    asked = len(server.bodies)
    assert studio.job(view.id).ask([0]).output == "It is blue."
    assert len(server.bodies) == asked
    server.say = says("Red.")
    again = studio.job(view.id).ask([0], again=True)
    assert (again.output, again.holds, len(server.bodies)) == ("Red.", True, asked + 1)
    assert studio.job(view.id).ask([0]).output == "It is blue."  # as it is in the explanation
    with pytest.raises(ConfigError, match="3 sources"):
        studio.job(view.id).ask([3])
