"""``rulerag ruleqa update``: what it says and refuses, and indexes of what has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.ruleqa import RuleQADataset, build
from rulerag.synthetic import World

Refused = Callable[..., str]
NEW = "subject,relation,object,date\nAnn,joins,Acme,2022-03-01\nBob,joins,Acme,2022-03-02\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "dataset"
    build(None, World.generate(1000).graph).save(folder)
    return folder


@pytest.fixture
def dataset(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "dataset")
    (tmp_path / "new.csv").write_text(NEW)
    return tmp_path / "dataset"


def test_an_index_of_a_dataset_that_grew_is_built_anew(
    dataset: Path, rulerag: Any, tmp_path: Path
) -> None:
    assert rulerag("index", dataset, "--out", tmp_path / "index").code == 0
    size = len(RuleQADataset.load(dataset).corpus)
    facts = tmp_path / "new.csv"
    first = rulerag("ruleqa", "update", dataset, "--facts", facts)
    assert first.out.startswith("2 new facts of 3 new entities and 1 new relations\n")
    assert f"documents {size:,} → {size + 2:,}" in first.out
    assert "are no longer held out" in first.out
    assert (
        rulerag("ruleqa", "update", dataset, "--facts", facts).out == "0 new facts (2 were known)\n"
    )
    asked = ("answer", "Time 2022-04-01 what does Ann joins ?", "--dataset", dataset, "--index")
    old = rulerag(*asked, tmp_path / "index").err
    assert "built from another corpus" in old and "build it anew: rulerag index" in old
    anew = rulerag("index", dataset, "--out", tmp_path / "index")
    assert f"{size + 2:,} documents indexed" in anew.out
    assert rulerag(*asked, tmp_path / "index").code == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("who,what\nAnn,Acme\n", "subject"),
        ("subject,relation,object\nAnn,joins,Acme\n", "not dated"),
        ("subject,relation,object,date\nAnn,joins,Acme,soon\n", "line 2"),
        ("", "holds no fact"),
    ],
)
def test_facts_that_cannot_join_are_refused(
    dataset: Path, refused: Refused, tmp_path: Path, table: str, message: str
) -> None:
    before = (dataset / "manifest.json").read_bytes()
    (tmp_path / "new.csv").write_text(table)
    told = refused("ruleqa", "update", dataset, "--facts", tmp_path / "new.csv")
    assert message in told
    assert (dataset / "manifest.json").read_bytes() == before


def test_the_card_says_so_and_judgements_of_gone_questions_go(rulerag: Any, tmp_path: Path) -> None:
    World.generate(1000).save(tmp_path / "world")
    folder = tmp_path / "dataset"
    made = ("ruleqa", "build", "--kg", tmp_path / "world", "--out", folder, "--quiet")
    assert rulerag(*made).code == 0
    judged = folder / "judgements" / "test.jsonl"
    assert judged.read_text()
    for number, lines in enumerate(([1], [2], [1, 2]), start=1):
        rows = NEW.splitlines(keepends=True)
        (tmp_path / "new.csv").write_text(rows[0] + "".join(rows[line] for line in lines))
        rulerag("ruleqa", "update", folder, "--facts", tmp_path / "new.csv")
        card = (folder / "README.md").read_text()
        assert card.count(" facts were added.\n") == 1
        assert card.endswith(f"Since then {min(number, 2)} facts were added.\n")
    assert not judged.read_text()
    assert not RuleQADataset.load(folder).qrels()


def test_texts_and_facts_that_were_added_are_read(
    rulerag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept of the texts before is never met again, and is met where nothing changed."""
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    facts = [f"f{n % 4},hires,p{n}\np{n},works for,f{n % 4}\n" for n in range(40)]
    (tmp_path / "facts.csv").write_text("s,p,o\n" + "".join(facts))
    dataset, index, out = (tmp_path / name for name in ("dataset", "index", "answers.jsonl"))
    rulerag("ruleqa", "build", "--kg", tmp_path / "facts.csv", "--out", dataset)
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "news.txt").write_text("Last week f3 hires young p7.\n\nThen f1 hires Zoe.")
    rulerag("index", texts, "--out", index)

    def asked(who: str) -> tuple[str, bytes]:
        question = ("answer", f"Who does {who} work for?", "--dataset", dataset)
        said = rulerag(*question, "--index", index, "--top-k", 1, "--out", out)
        assert said.code == 0, said.err
        return said.out, out.read_bytes()

    first = asked("p7")
    assert "answer: f3" in first[0] and asked("p7") == first
    shown = rulerag("cache").out
    assert "whom texts mention, and which facts of a dataset they state" in shown
    assert rulerag("cache", "clear", "texts").out.startswith("cleared texts: 1 files")
    assert asked("p7") == first
    assert "nobody known is mentioned" in asked("Zoe")[0]
    (tmp_path / "new.csv").write_text("s,p,o\nf1,hires,Zoe\n")
    assert rulerag("ruleqa", "update", dataset, "--facts", tmp_path / "new.csv").code == 0
    assert "answer: f1\n  because f1 hires Zoe" in asked("Zoe")[0]
    assert "answer: (none" in asked("p9")[0]
    (texts / "more.txt").write_text("Today f1 hires p9.")
    assert rulerag("index", texts, "--out", index).code == 0
    assert "answer: f1\n  because f1 hires p9" in asked("p9")[0]
    assert "answer: f1\n  because f1 hires Zoe" in asked("Zoe")[0]
