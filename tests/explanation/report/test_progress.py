"""What explaining costs is said before it starts."""

from __future__ import annotations

import pytest

from rulerag.explanation.report.explain import ExplainSettings, explain_answer
from rulerag.explanation.report.progress import Progress
from tests.fakes import PlantedGenerator, planted_answer


def test_the_cost_is_said_before_the_first_probe_and_in_seconds_after_a_few(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress(3, 1024) as progress:
        before = capsys.readouterr()
        progress.add(1, 0.5)
        assert capsys.readouterr().err == ""
        progress.add(3, 1.5)
        progress.next_answer()
    assert (before.out, before.err) == (
        "",
        "explaining 3 answers: at most 3 × 1,024 = 3,072 probes\n",
    )
    # No bar where standard error is no terminal.
    assert capsys.readouterr().err == "a probe takes 500.0 ms: at most 1,536.0 s in all\n"


def test_without_a_bound_none_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, None) as progress:
        progress.add(5, 0.01)
        progress.next_answer()
    said = "explaining 1 answer: no limit of probes is set (max_probes)\na probe takes 2.0 ms\n"
    assert capsys.readouterr().err == said


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, 8, quiet=True) as progress:
        progress.add(8, 1.0)
        progress.next_answer()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 1024),
        ({"max_sources": 4}, 16),
        ({"max_sources": 4, "attribution": ("linear",), "value": "log-probability"}, 32),
        ({"max_probes": 50}, 50),
        ({"validity": 0.9}, None),
        ({"validity": 0.9, "max_probes": 50}, 50),
        ({"group_by": "rule"}, None),
    ],
)
def test_probes_are_bounded_by_the_settings(settings: dict[str, object], most: int | None) -> None:
    assert ExplainSettings.read(settings).most_probes() == most


def test_an_explanation_stays_within_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    answer = planted_answer("France", [[], [], [], []])
    settings = ExplainSettings(counterfactuals=True, attribution=("shapley", "guided"))
    generator = PlantedGenerator.dnf([["d1"], ["d2", "d3"]], yes="France", no="Spain")
    told = explain_answer(answer, generator, settings, progress=True)
    assert told.num_probes <= 16 <= (settings.most_probes() or 0)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "explaining 1 answer: at most 1,024 probes"
    assert second.startswith("a probe takes ")
