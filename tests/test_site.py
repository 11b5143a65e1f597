"""The documentation as a site: every link leads somewhere, every name of the API is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_the_configuration_is_what_the_code_says(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import configuration; print(configuration.page(), end='')"],
        cwd=ROOT / "scripts",
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert said.stdout == written, "python scripts/configuration.py writes it anew"


def test_a_command_that_is_gone_names_its_commit() -> None:
    """What a page tells people to run is there, or stands beside the commit that has it."""
    pages = [ROOT / "README.md", ROOT / "benchmarks/results/README.md", *ROOT.glob("docs/**/*.md")]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            for name in re.findall(r"python -m ((?:benchmarks|training)[\w.]*\w)", line):
                place = ROOT / name.replace(".", "/")
                known = place.with_suffix(".py").exists() or (place / "__main__.py").exists()
                assert known or re.search(r"\b(a3d6e82|6b3dde98)\b", line), f"{page.name}: {name}"


@pytest.mark.slow
def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    out = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_site.py"), "--out", str(out)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    guided = (out / "api" / "rulerag.retrieval.guided.html").read_text(encoding="utf-8")
    assert 'id="rulerag.retrieval.guided.RuleGuidedRetriever"' in guided
    assert "Wraps any retriever" in guided and ":class:" not in guided
    assert "rulerag redteam" in (out / "command-line.html").read_text(encoding="utf-8")
    for page in out.rglob("*.html"):  # nothing is fetched from another host
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text and 'rel="stylesheet" href="http' not in text, page
    assert "(own-data.html)" in (out / "llms.txt").read_text(encoding="utf-8")
