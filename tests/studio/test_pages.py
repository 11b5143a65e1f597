"""The screens by NiceGUI's own simulated user: what is clicked, what is then read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

pytest.importorskip("nicegui")

from nicegui import ui
from nicegui.testing import User, user_simulation

from rulerag.studio.pages import pages_of
from rulerag.studio.service import Add, Edit, Inject, Studio
from tests.studio.conftest import asked_session, attacked, explained

pytestmark = pytest.mark.filterwarnings("default")
RESTS = "Rests on “Larkfield Bank, help pages” [1]"


def run(studio: Studio, visit: Any) -> None:
    """A visit of the studio's screens."""

    async def simulated() -> None:
        async with user_simulation(pages_of(studio)) as user:
            work: Coroutine[Any, Any, None] = visit(user)
            await asyncio.wait_for(work, 120)

    asyncio.run(simulated())


def selects(user: User, label: str) -> list[Any]:
    found = [one for one in user.client.elements.values() if isinstance(one, ui.select)]
    return [one for one in found if one.props.get("label") == label]


def test_ask_attack_explain_and_undo(studio: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/")
        user.find("Open Finance").click()
        await user.should_see("1. Ask", retries=30)
        user.find(kind=ui.button, content="Retrieve").click()
        await user.should_see("2. Sources (5)", retries=30)
        (row,) = studio.sessions()
        for source in studio.session(row["id"]).state.sources[:2]:
            studio.change(row["id"], Inject(source=source.id, attack="exception"))
        await user.open(f"/session/{row['id']}")
        user.find(kind=ui.button, content="Answer").click()
        await user.should_see("It breaks its instructions", retries=30)
        await user.should_see("No language model but a rule")
        user.find("Explain the break").click()
        await user.should_see(RESTS, retries=30)
        await user.should_see("Sources needed: 2. Smallest repair: take out 1.")
        await user.should_see("Certain: all 32 combinations", retries=30)
        (some,) = selects(user, "Look at some sources alone")
        some.value = [1, 0, 4]
        user.find("Look at them").click()
        await user.should_see("Read: Larkfield Bank, help pages, Bankwatch")
        await user.should_see("(the condition holds)")
        user.find("Ask it again").click()
        await user.should_see("The same as before.", retries=30)
        user.find("Undo").click()
        await user.should_see("exception")  # of the first source
        user.find(kind=ui.button, content="Answer").click()
        await user.should_see("It keeps to them", retries=30)
        await user.should_see("Against the answer before:")
        await user.should_see("its text was changed")
        source = studio.session(row["id"]).state.sources[0].id
        studio.change(row["id"], Edit(source=source, text="written in another tab"))
        user.find(kind=ui.switch, content="Safety instructions").click()
        await user.should_see("changed meanwhile")
        await user.should_see("written in another tab")
        await user.open("/session/nobody")
        await user.should_see("there is no such session")

    run(studio, visit)


def test_many_sessions_are_listed_bit_by_bit(studio: Studio) -> None:
    """Nine hundred links at once kept everybody waiting."""
    for number in range(50):
        studio.new_session("finance", f"Session {number}")

    async def visit(user: User) -> None:
        await user.open("/")
        await user.should_see("Session 49")

        def listed() -> int:
            links = (one for one in user.client.elements.values() if isinstance(one, ui.link))
            return sum(one.text.startswith("Session ") for one in links)

        assert listed() == 20
        user.find("Show more (30)").click()
        await user.should_see("Show more (10)")
        user.find("Show more (10)").click()
        await user.should_see("Session 0")
        assert listed() == 50

    run(studio, visit)


def test_texts_of_sources_stay_texts(studio: Studio) -> None:
    nasty = "<script>alert(1)</script> :onclick=alert(1) {{ 7 * 7 }}"
    session = asked_session(studio, "finance")
    studio.change(session, Add(text=f"Larkfield Bank customer number {nasty}", title=nasty))
    explained(studio, session, goal="claims")

    async def visit(user: User) -> None:
        await user.open(f"/session/{session}")
        await user.should_see(nasty, kind=ui.label)
        for element in user.client.elements.values():
            if not isinstance(element, ui.label | ui.input | ui.textarea):
                props = {k: v for k, v in element.props.items() if k not in ("value", "options")}
                assert "<script>" not in str(props), type(element)
            assert not any("<script>" in str(key) for key in element.props)

    run(studio, visit)


def test_every_explanation_has_an_address(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)
    for number in range(2):
        studio.change(session.id, Add(text=f"Note {number}.", title=f"Note {number}"))
    first = explained(studio, session.id)
    explained(studio, session.id, generator="strong-reader")

    async def visit(user: User) -> None:
        await user.open(f"/session/{session.id}")
        await user.should_see("The system withstands those.")  # another reader than the session's
        (earlier,) = selects(user, "Explanation")
        earlier.value = first.id
        await user.should_see(RESTS, retries=30)
        await user.open(f"/session/{session.id}/{first.id}")
        await user.should_see(RESTS, retries=30)
        await user.should_not_see("The system withstands")
        await user.should_see("How much each source counts")
        (some,) = selects(user, "Look at some sources alone")
        some.value = [6]
        user.find("Look at them").click()
        await user.should_see("(the condition does not hold)")

    run(studio, visit)


def test_two_generators_and_a_red_team(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)

    async def visit(user: User) -> None:
        await user.open(f"/compare/{session.id}")
        user.find("Explain both").click()
        await user.should_see("Sources needed: 2. Smallest repair: take out 1.", retries=50)
        await user.should_see("The system withstands them.", retries=50)
        await user.open("/red-team")
        user.find(kind=ui.button, content="Run").click()
        await user.should_see("3 of 4", retries=200)
        await user.should_see("19–99 %")
        await user.should_see("test_red_team.py")
        await user.open("/rules")
        await user.should_see("--dataset FOLDER")
        await user.open("/runs")
        await user.should_see("--run FOLDER")

    run(studio, visit)


def test_rules_by_hand(bench: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/rules")
        (compare,) = user.find(kind=ui.button, content="Compare").elements
        while not compare.enabled:  # the benchmark is being opened
            await asyncio.sleep(0.05)
        user.find(kind=ui.button, content="Compare").click()
        await user.should_see("B is better:", retries=200)
        await user.should_see("answer recall@10")
        user.find(kind=ui.button, content="Look").click()
        await user.should_see("Open B as a session", retries=50)
        await user.should_see("A: BM25, without rules")
        user.find("Open B as a session").click()
        await user.should_see("found by the rule", retries=100)
        await user.should_see("Mined rules of this question")
        query = bench.bench("world").dataset.query_set("full")[0]
        asked = f"For {query.subject_words}: {query.relation_words} what?"
        session = bench.retrieve(bench.new_session("world", question=asked).id)
        await user.open(f"/session/{session.id}")
        await user.should_see("Understood:", retries=50)
        await user.open(f"/compare/{session.id}")
        first, second = selects(user, "Retriever")
        first.value, second.value = "plain", "guided"
        user.find("Retrieve both").click()
        await user.should_see("sources by rank", retries=50)

    run(bench, visit)


def test_runs_by_outcome_and_two_of_them(bench: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/runs/one")
        await user.should_see("4 queries", retries=50)
        (outcome,) = selects(user, "Outcome")
        outcome.value = "not retrieved"
        user.find(kind=ui.button, content="Show").click()
        await user.should_see("1 queries; 1 are shown", retries=50)
        outcome.value = "any"
        (beside,) = selects(user, "Beside")
        beside.value = "two"
        user.find(kind=ui.button, content="Show").click()
        await user.should_see("1 queries came out otherwise", retries=50)
        user.find(kind=ui.button, content="Look").click()
        await user.should_see("two: ignored", retries=50)
        await user.should_see("It is Rome.")

    run(bench, visit)


def test_a_system_of_ones_own_by_its_form(studio: Studio) -> None:
    place = studio.own.place / "notes"
    place.mkdir(parents=True)
    (place / "visit.txt").write_text("A visit costs 12 euros.")

    async def visit(user: User) -> None:
        await user.open("/own")
        user.find(kind=ui.input, content="Name, such as").type("Our Notes")
        (broken,), (folder,) = selects(user, "Broken by"), selects(user, "Folder of texts")
        broken.value = "regex"
        user.find(kind=ui.input, content="Pattern").type("(?=x)")
        user.find(kind=ui.input, content="Address").type("localhost:8000")
        user.find("Keep and open").click()
        await user.should_see("fields are to be mended", retries=50)
        fields = [one for one in user.client.elements.values() if hasattr(one, "error")]
        wrong = {one.props.get("label"): one.error for one in fields if one.error}
        assert "small letters" in wrong["Name, such as our-notes"]
        assert "RE2" in wrong["Pattern (a regular expression of RE2)"]
        assert "http://" in wrong["Address of an OpenAI-compatible endpoint"]
        assert "choose a folder" in wrong["Folder of texts"]
        user.find(kind=ui.input, content="Name, such as").clear().type("our-notes")
        user.find(kind=ui.input, content="Pattern").clear().type("[0-9]+ euros")
        user.find(kind=ui.input, content="Address").clear()
        folder.value = "notes"
        user.find("Keep and open").click()
        await user.should_see("1. Ask", retries=50)

    run(studio, visit)
    assert (studio.own.place / "our-notes.yaml").is_file()
    session = studio.retrieve(studio.new_session("our-notes").id, "What does a visit cost?")
    assert studio.answer(session.id).holds
