"""Prompts as files to read: one question of each benchmark in the words of every template."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments.prompt_gallery import load_request, main, prompts
from rulerag.ruleqa.settings import GRAPHS

GOLDEN = Path(__file__).parent / "golden_prompts"


@pytest.mark.parametrize("name", GRAPHS)
def test_every_prompt_is_the_one_that_was_read(name: str) -> None:
    request = load_request(GOLDEN / name / "request.json")
    assert len(request.documents) == 10 and request.rules
    rendered = dict(prompts(request))
    files = {file.stem: file.read_text(encoding="utf-8") for file in GOLDEN.glob(f"{name}/*.txt")}
    assert rendered == files
    for kind, text in rendered.items():
        if kind.endswith("without-rules") or kind == "standard":
            assert "rule" not in text.lower()
        assert not any(answer in text.splitlines()[-1] for answer in request.query.answers)


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--datasets", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert "ruleqa-i" in capsys.readouterr().err
