"""Many probes at a real server in a process of its own: none is lost, none is another's."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("openai")

from benchmarks.models.load import _posted, by_function, by_generator, cancelled, serving


@pytest.mark.parametrize("way", [by_generator, by_function])
def test_every_answer_is_its_own(way: object) -> None:
    with serving(0.2) as url:
        found = way(url, 150, 150)  # type: ignore[operator]
        counted = asyncio.run(_posted(url))
    assert found["own"] == counted["calls"] == 150
    assert counted["most_at_once"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_generator, by_function])
def test_two_thousand_at_once(way: object) -> None:
    with serving(1.0) as url:
        found = way(url, 2_000, 2_000)  # type: ignore[operator]
        counted = asyncio.run(_posted(url))
    assert found["own"] == counted["calls"] == 2_000


@pytest.mark.parametrize("how", ["function", "generator"])
def test_cancelling_hands_back_what_is_known_at_once(
    how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(0.5) as url:
        found = cancelled(url, how)
    assert found["seconds"] < 0.5 and found["known"]
    assert capfd.readouterr().err == "", "nothing is left behind that asyncio would speak of"
