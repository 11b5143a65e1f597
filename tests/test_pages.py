"""The pages of the documentation: their blocks run and print what stands below them."""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.natural.rewriting import wordings_of
from benchmarks.pictures import DRAWN, chromium, explained, photograph, similarity
from rulerag.explanation.explaining.why import PICTURES
from tests.integrations.apart import run
from tests.pages import ROOT, alike, printed_and_shown, printed_by, steady

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in DOCS.glob("*.md")}

# --- blocks that stand for themselves, each behind what it prints --------------------------------

ALONE = {
    page: re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXTS[page], re.DOTALL)
    for page in ("explain", "faithfulness", "integrations", "pictures", "similarity", "studio")
}
APART = ("ragas", "deepeval")
"""Packages that do not go with the pins."""
NEEDED = re.compile(
    r"^(?:from|import) (langchain_core|llama_index|haystack|ragas|deepeval|rulerag\.studio)",
    re.MULTILINE,
)
NEEDS = {"rulerag.studio": "re2"}


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page, blocks in ALONE.items() for n in range(len(blocks))]
)
def test_a_block_prints_what_stands_below_it(
    page: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = ALONE[page][number]
    for package in NEEDED.findall(code):
        if package in APART:
            here = find_spec(package) is not None
            assert steady(run(package, tmp_path, "-c", code, here=here)) == steady(shown)
            return
        pytest.importorskip(NEEDS.get(package, package))
    monkeypatch.chdir(tmp_path)
    if page == "integrations" and number:
        printed_by(ALONE[page][0][0])  # the folder that the others open
    assert printed_by(code) == steady(shown)
    for drawn in filter(Path.exists, map(tmp_path.joinpath, ("similarity.svg",))):
        assert drawn.read_text("utf-8") == (DOCS / drawn.name).read_text("utf-8")


@pytest.mark.parametrize("page", ALONE)
def test_every_block_of_python_is_run(page: str) -> None:
    assert 0 < len(ALONE[page]) == TEXTS[page].count("```python")


# --- pages that are read from the top -----------------------------------------------------------


@pytest.mark.parametrize("page", ["own-data", "linking", "benchmark", "other-benchmarks"])
def test_a_page_prints_what_stands_there(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("networkx", "bs4", "pypdf") if page == "own-data" else ():
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    pairs = list(printed_and_shown(DOCS / f"{page}.md"))
    assert pairs
    for printed, shown in pairs:
        assert printed == shown


@pytest.mark.slow
@pytest.mark.timeout(900)  # two trainings of each kind
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing")  # PEFT's, of transformers
def test_training_prints_nearly_what_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    pairs = list(printed_and_shown(DOCS / "train.md"))
    assert pairs
    for printed, shown in pairs:
        assert alike(printed, shown, within=0.1), f"{printed}\n\n{shown}"


# --- figures, pictures, settings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "rows"), [("natural/natural", r"ruleqa-. "), ("linking/metaqa", "(?:one|two) hop")]
)
def test_figures_of_questions_in_own_words_are_measured(table: str, rows: str) -> None:
    """Each row is one of the committed table, with some of its columns."""
    measured = (RESULTS / f"{table}.md").read_text("utf-8").splitlines()
    shown = re.findall(rf"^\| {rows}.*$", TEXTS["natural"], re.MULTILINE)
    assert shown
    for row in shown:
        cells = [iter(line.split(" | ")) for line in map(_bare, measured)]
        assert any(all(cell in one for cell in _bare(row).split(" | ")) for one in cells), row


def _bare(row: str) -> str:
    return row.strip("| ")


def test_seconds_of_similarity_are_measured() -> None:
    measured = json.loads((RESULTS / "speed" / "similarity.json").read_text(encoding="utf-8"))
    rows = re.findall(r"\n\| (\S+)[^|]*\| ([\d.]+) \| ([\d.]+) \|", TEXTS["similarity"])
    assert rows
    for name, *seconds in rows:
        known = [measured[name][f"{time}_cpu_seconds"] for time in ("first", "again")]
        assert list(map(float, seconds)) == known


def test_examples_of_own_words_are_wordings() -> None:
    text = re.sub(r"\s+", " ", TEXTS["natural"])
    known = wordings_of("Consult")
    for example, templates in (
        ("China sat down for talks with Iran", known.statements),
        ("With whom did China hold consultations", known.questions),
    ):
        assert example in text
        filled = {t.replace("{x}", "China").replace("{y}", "Iran").rstrip("?") for t in templates}
        assert example in filled


def test_every_kind_of_picture_is_named_and_every_file_is_there_and_small() -> None:
    assert all(f'why.picture("{kind}"' in TEXTS["pictures"] for kind in PICTURES)
    named = re.findall(r"!\[[^\]]*\]\((\S+?)\)", TEXTS["pictures"])
    sizes = {name: (DOCS / name).stat().st_size for name in named}
    assert {f"pictures/{file.name}" for file in (DOCS / "pictures").iterdir()} == set(sizes)
    assert max(sizes.values()) < 300_000 and sum(sizes.values()) < 2_000_000


@pytest.mark.parametrize("kind", DRAWN)
def test_the_committed_pictures_are_those_that_are_drawn(kind: str, tmp_path: Path) -> None:
    file = explained().picture(kind, DRAWN[kind]).save(tmp_path / "drawn.svg")
    committed = DOCS / "pictures" / f"{kind}.svg"
    assert file.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_a_page_is_photographed_at_its_width(tmp_path: Path) -> None:
    if not shutil.which("chromium"):
        pytest.skip("no chromium on PATH")
    page = similarity(DOCS)["similarity.html"]
    with chromium() as browser:
        files = list(photograph(browser, page, tmp_path / "page"))
    ends = ("screen", "screen-dark", "phone", "phone-dark")
    assert [file.name for file in files] == [f"page-{end}.png" for end in ends]
    for file, width in zip(files, (1280, 1280, 390, 390), strict=True):
        taken = file.read_bytes()
        assert int.from_bytes(taken[16:20], "big") == width
        assert int.from_bytes(taken[20:24], "big") > 900


def test_the_system_of_the_page_of_the_studio_opens(tmp_path: Path) -> None:
    pytest.importorskip("re2")
    from rulerag.studio.service import Studio

    (settings,) = re.findall(r"```yaml\n(.*?)```", TEXTS["studio"], re.DOTALL)
    (tmp_path / "systems" / "notes").mkdir(parents=True)
    (tmp_path / "systems" / "notes.yaml").write_text(settings, encoding="utf-8")
    (tmp_path / "systems" / "notes" / "one.txt").write_text("A visit costs 12 euros.")
    studio = Studio(tmp_path)
    session = studio.retrieve(studio.new_session("notes").id)
    assert [source.text for source in session.state.sources] == ["A visit costs 12 euros."]
    assert str(studio.system("notes").condition("local")) == "the answer names a price"
    studio.close()
