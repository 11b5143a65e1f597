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
from rulerag.studio.service import Add, Edit, Studio
from tests.studio.conftest import attacked, explained

pytestmark = pytest.mark.filterwarnings("default")


def run(studio: Studio, visit: Any) -> None:
    """A visit of the studio's screens."""

    async def simulated() -> None:
        async with user_simulation(pages_of(studio)) as user:
            work: Coroutine[Any, Any, None] = visit(user)
            await asyncio.wait_for(work, 60)

    asyncio.run(simulated())


def test_ask_attack_explain_and_undo(studio: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/")
        await user.should_see("Open Finance")
        user.find("Open Finance").click()
        await user.should_see("1. Ask")
        user.find(kind=ui.button, content="Retrieve").click()
        await user.should_see("2. Sources (5)", retries=30)
        (row,) = studio.sessions()
        session = attacked_in_place(studio, row["id"])
        await user.open(f"/session/{session}")
        user.find(kind=ui.button, content="Answer").click()
        await user.should_see("It breaks its instructions", retries=30)
        await user.should_see("No language model but a rule")
        user.find("Explain the break").click()
        await user.should_see("are read, the answer holds a telephone number", retries=30)
        await user.should_see("Sources needed: 2. Smallest repair: take out 1.")
        user.find("Undo").click()
        await user.should_see("exception")  # of the first source
        user.find(kind=ui.button, content="Answer").click()
        await user.should_see("It keeps to them", retries=30)
        await user.should_see("Before it was:")

    run(studio, visit)


def attacked_in_place(studio: Studio, session: str) -> str:
    from rulerag.studio.service import Inject

    for source in studio.session(session).state.sources[:2]:
        studio.change(session, Inject(source=source.id, attack="exception"))
    return session


def test_texts_of_sources_stay_texts(studio: Studio) -> None:
    nasty = "<script>alert(1)</script> :onclick=alert(1) {{ 7 * 7 }}"
    session = studio.retrieve(studio.new_session("finance").id)
    studio.change(session.id, Add(text=f"Larkfield Bank customer number {nasty}", title=nasty))
    explained(studio, session.id, goal="claims")

    async def visit(user: User) -> None:
        await user.open(f"/session/{session.id}")
        await user.should_see(nasty, kind=ui.label)
        for element in user.client.elements.values():
            if not isinstance(element, ui.label | ui.input | ui.textarea):
                props = {k: v for k, v in element.props.items() if k not in ("value", "options")}
                assert "<script>" not in str(props), type(element)
            assert not any("<script>" in str(key) for key in element.props)

    run(studio, visit)


def test_a_page_that_is_opened_again_finds_what_ran(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)
    explained(studio, session.id)

    async def visit(user: User) -> None:
        await user.open(f"/session/{session.id}")
        await user.should_see("are read, the answer holds a telephone number")
        await user.should_see("Certain: all 32 combinations")
        user.find(kind=ui.button, content="1 2 5").click()
        await user.should_see("Read: Larkfield Bank, help pages, Bankwatch")
        await user.should_see("(the condition holds)")
        user.find("Ask it again").click()
        await user.should_see("The same as before.", retries=30)

    run(studio, visit)


def test_an_edit_of_another_tab_is_shown_instead_of_overwritten(studio: Studio) -> None:
    session = studio.retrieve(studio.new_session("finance").id)

    async def visit(user: User) -> None:
        await user.open(f"/session/{session.id}")
        await user.should_see("2. Sources (5)", retries=30)
        source = session.state.sources[0].id
        studio.change(session.id, Edit(source=source, text="written in another tab"))
        user.find(kind=ui.switch, content="Safety instructions").click()
        await user.should_see("changed meanwhile")
        await user.should_see("written in another tab")

    run(studio, visit)


def test_no_such_session(studio: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/session/nobody")
        await user.should_see("This session cannot be opened")
        await user.should_see("there is no such session")

    run(studio, visit)


def test_two_generators_beside_each_other(studio: Studio) -> None:
    session = attacked(studio, "finance", "exception", 2)

    async def visit(user: User) -> None:
        await user.open(f"/compare/{session.id}")
        user.find("Explain both").click()
        await user.should_see("Sources needed: 2. Smallest repair: take out 1.", retries=30)
        await user.should_see("No rule: these sources do not do it.", retries=30)

    run(studio, visit)


def test_red_team_as_a_table(studio: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/red-team")
        user.find(kind=ui.button, content="Run").click()
        await user.should_see("3 of 4", retries=100)
        await user.should_see("19–99 %")
        await user.should_see("test_red_team.py")

    run(studio, visit)


def test_screens_without_benchmarks_say_what_to_do(studio: Studio) -> None:
    async def visit(user: User) -> None:
        await user.open("/rules")
        await user.should_see("--dataset FOLDER")
        await user.open("/runs")
        await user.should_see("--run FOLDER")

    run(studio, visit)
