"""``rulerag index`` and ``rulerag retrieve``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import rulerag as rulerag_package
from rulerag.cli import main
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset

Refused = Callable[..., str]


def run_lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()]


@pytest.fixture
def index(dated: Path, rulerag: Any, tmp_path: Path) -> Path:
    """A BM25 index of the dated world."""
    result = rulerag("index", dated, "--out", tmp_path / "new" / "index", "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.out.split(" indexed in ")[0].endswith(" documents")
    return tmp_path / "new" / "index"


def test_a_run_lists_the_documents_of_every_query(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "run.trec"
    result = rulerag("retrieve", dated, "--out", out, "--top-k", 3)
    assert result.code == 0
    assert "%|" not in result.err + result.out
    rows = run_lines(out)
    assert {row[0] for row in rows} == {query.id for query in dated_dataset.query_set("full")}
    assert {row[2] for row in rows} <= set(dated_dataset.documents)
    assert {(row[1], row[5]) for row in rows} == {("Q0", "bm25")}
    assert {row[3] for row in rows} == {"1", "2", "3"}


@pytest.mark.parametrize("options", [(), ("--rules", "guided")])
def test_a_saved_index_gives_what_an_index_in_memory_gives(
    options: tuple[str, ...], index: Path, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    # Both with dates as one word: what an index is built with by default.
    config = tmp_path / "same.yaml"
    section = "{type: bm25, dates: token}"
    if options:
        timed = f"{{type: time_aware, retriever: {section}}}"
        section = f"{{type: guided, retriever: {timed}}}\nselector: {{type: head}}"
    config.write_text(
        f"dataset: {{path: {dated}}}\nretriever: {section}\ngenerator: {{type: symbolic}}\n"
    )
    for name, more in (("memory", ()), ("disk", ("--index", index))):
        assert rulerag("retrieve", config, "--out", tmp_path / name, *more, "--quiet").code == 0
    assert (tmp_path / "memory").read_text() == (tmp_path / "disk").read_text()
    result = rulerag("retrieve", dated, "--index", index, "--out", tmp_path / "x", *options)
    assert result.code == 0


def test_the_union_is_larger_and_holds_the_run(dated: Path, rulerag: Any, tmp_path: Path) -> None:
    command = ["retrieve", dated, "--retriever", "symbolic", "--top-k", 1, "--quiet"]
    assert rulerag(*command, "--out", tmp_path / "best").code == 0
    assert rulerag(*command, "--union", "--out", tmp_path / "all").code == 0
    best = {(row[0], row[2]) for row in run_lines(tmp_path / "best")}
    union = {(row[0], row[2]) for row in run_lines(tmp_path / "all")}
    assert len({query for query, _ in best}) == len(best)
    assert len(union) > len(best)


def test_queries_can_be_chosen(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    command = ["retrieve", dated, "--out", tmp_path / "run", "--quiet"]
    assert rulerag(*command, "--query-set", "supported", "--limit", 4).code == 0
    asked = list(dict.fromkeys(row[0] for row in run_lines(tmp_path / "run")))
    assert asked == [query.id for query in dated_dataset.query_set("supported")][:4]


def test_queries_without_known_answers_have_no_recall(
    dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    from dataclasses import replace

    open_ended = [replace(query, answers=()) for query in dated_dataset.query_set("full")][:3]
    folder = tmp_path / "open"
    RuleQADataset(corpus=dated_dataset.corpus, queries={"test": open_ended}).save(folder)
    result = rulerag("retrieve", folder, "--out", tmp_path / "run", "--quiet")
    assert result.code == 0
    assert "recall" not in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--retriever", "bm52"), "no retriever is called 'bm52' — did you mean 'bm25'?"),
        (("--rules", "guide"), "unknown choice 'guide' — none or guided"),
        (("--retriever", "symbolic", "--rules", "none"), "it cannot go without them"),
        (("--query-set", "ful"), "no query set 'ful' — did you mean 'full'?"),
        (("--top-k", "0"), "key 'top_k': 0 is below 1"),
        (("--limit", "0"), "key 'limit': 0 is below 1"),
        (("--union",), "key 'union': there is no union without rules"),
        (("--index", "nowhere"), "no bm25 index here"),
        (("--retriever", "symbolic", "--index", "nowhere"), "keeps no index on disk"),
    ],
)
def test_bad_options(
    options: tuple[str, ...], message: str, dated: Path, refused: Refused, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert message in refused("retrieve", dated, "--out", out, "--quiet", *options)
    assert not out.exists()


def test_an_index_is_of_one_corpus_and_one_kind(
    index: Path, datasets: dict[str, Path], refused: Refused, tmp_path: Path
) -> None:
    command = ("--out", tmp_path / "run", "--index", index, "--quiet")
    assert "built from another corpus" in refused("retrieve", datasets["static"], *command)
    told = refused("retrieve", datasets["temporal"], *command, "--retriever", "lucene")
    assert "holds an index of kind 'bm25'" in told
    config = tmp_path / "split.yaml"
    config.write_text(
        f"dataset: {{path: {datasets['temporal']}}}\nretriever: {{type: bm25, dates: split}}\n"
        "generator: {type: symbolic}\n"
    )
    told = refused("retrieve", config, *command)
    assert "split.yaml, key 'retriever.dates': is 'split' here" in told
    assert "built with 'token'" in told
    assert "decides this itself" in refused("retrieve", config, *command, "--top-k", 5)


# --- dense and fused ---------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache for the file: the corpus is encoded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def vectors(dated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense index of the dated world by the encoder that is installed."""
    folder = tmp_path_factory.mktemp("dense") / "index"
    with pytest.raises(SystemExit) as stop:
        main(["index", str(dated), "--retriever", "dense", "--out", str(folder), "--quiet"])
    assert not stop.value.code
    return folder


def test_dense_retrieval_works_with_what_is_installed(
    vectors: Path, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    command = ["retrieve", dated, "--retriever", "dense", "--quiet"]
    for name, more in (("memory", ()), ("disk", ("--index", vectors))):
        result = rulerag(*command, "--out", tmp_path / name, *more)
        assert (result.code, result.err) == (0, "")
    assert (tmp_path / "memory").read_text() == (tmp_path / "disk").read_text()
    assert {row[5] for row in run_lines(tmp_path / "disk")} == {"dense"}
    command += ["--index", vectors, "--rules", "guided", "--fusion", "rrf"]
    result = rulerag(*command, "--out", tmp_path / "fused")
    assert result.code == 0
    assert {row[5] for row in run_lines(tmp_path / "fused")} == {"dense-guided-fused"}
    answered = rulerag("answer", dated, "--retriever", "dense", "--limit", 2, "--quiet")
    assert answered.code == 0 and "exact match" in answered.out


def test_a_compressed_dense_index_is_opened_as_it_was_built(
    dated: Path, rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    made = ("--retriever", "dense", "--kind", "PQ32x4", "--quiet")
    assert rulerag("index", dated, "--out", tmp_path / "index", *made).code == 0
    file = tmp_path / "experiment.yaml"
    run = ("retrieve", file, "--index", tmp_path / "index", "--out", tmp_path / "run", "--quiet")
    rest = f"dataset: {{path: {dated}}}\ngenerator: {{type: symbolic}}\nselector: {{type: head}}\n"
    for stated in ("", ", index: PQ32x4"):
        file.write_text(f"{rest}retriever: {{type: dense{stated}}}\n", encoding="utf-8")
        assert rulerag(*run).code == 0
    file.write_text(f"{rest}retriever: {{type: dense, index: SQ8}}\n", encoding="utf-8")
    message = refused(*run)
    assert "experiment.yaml, key 'retriever.index'" in message
    assert "was built with 'PQ32x4' — name an index that fits" in message


def test_queries_without_rules_are_told(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "ruleless"
    RuleQADataset(
        corpus=dated_dataset.corpus, queries=dated_dataset.queries, labels=dated_dataset.labels
    ).save(folder)
    runs = {}
    for rules in ("guided", "none"):
        command = ["retrieve", folder, "--retriever", "dense", "--rules", rules, "--limit", 3]
        result = rulerag(*command, "--out", tmp_path / rules, "--quiet")
        assert result.code == 0
        runs[rules] = [row[:4] for row in run_lines(tmp_path / rules)]
        told = "3 of 3 queries have no guiding rule and are searched as they are" in result.err
        assert told == (rules == "guided")
    assert {row[0] for row in runs["guided"]} == {row[0] for row in runs["none"]}


def test_documents_longer_than_the_window_are_counted(rulerag: Any, tmp_path: Path) -> None:
    rows = [{"_id": "d1", "text": "Iran Consult Oman. " * 60}, {"_id": "d2", "text": "Oman."}]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = rulerag("index", tmp_path, "--retriever", "dense", "--out", tmp_path / "i", "--quiet")
    assert result.code == 0
    assert "1 of 2 documents are longer than the encoder's window and are cut" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--encoder", "{data}"), "holds no encoder (neither modules.json nor config.json)"),
        (("--encoder", "./no/where"), "./no/where: no such folder"),
        (("--retriever", "bm25", "--encoder", "x"), "key 'encoder': bm25 has no encoder"),
        (("--fusion", "rrf"), "key 'fusion': a rule-guided list is fused with the plain one"),
        (("--rules", "guided", "--fusion", "rff"), "unknown method 'rff' — did you mean 'rrf'?"),
        (("--index", "{data}"), "kind 'dense', layout 1 is wanted"),
        (("--index", "./no/where"), "no dense index here"),
        (("--retriever", "bm25", "--index", "{index}"), "holds an index of kind 'dense'"),
    ],
)
def test_bad_options_of_dense_retrieval(
    options: tuple[str, ...], message: str, dated: Path, vectors: Path, refused: Refused
) -> None:
    given = [option.format(data=dated, index=vectors) for option in options]
    if "--retriever" not in given:
        given += ["--retriever", "dense"]
    assert message in refused("retrieve", dated, "--out", "run", "--quiet", *given)


def test_a_dense_index_of_another_corpus_or_encoder(
    vectors: Path, datasets: dict[str, Path], refused: Refused, tmp_path: Path
) -> None:
    command = ("--retriever", "dense", "--index", vectors, "--out", tmp_path / "run", "--quiet")
    assert "built from another corpus" in refused("retrieve", datasets["static"], *command)
    other = tmp_path / "encoder"
    shutil.copytree(Path(rulerag_package.__file__).parent / "models" / "nano-encoder", other)
    weights = load_file(other / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][7] += 0.5
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    told = refused("retrieve", datasets["temporal"], *command, "--encoder", other)
    assert "built by another encoder" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("bm25", "--kind", "Flat"), "key 'kind': means nothing to bm25 — --retriever dense"),
        (("dense", "--dates", "split"), "key 'dates': means nothing to dense"),
        (("dense", "--kind", "flot"), "key 'index': FAISS cannot make an index 'flot'"),
        (("dense", "--kind", "PQ48"), "an index 'PQ48' of vectors of 128 numbers"),
    ],
)
def test_options_of_another_index(
    options: tuple[str, ...], message: str, dated: Path, refused: Refused, tmp_path: Path
) -> None:
    told = refused("index", dated, "--out", tmp_path / "i", "--quiet", "--retriever", *options)
    assert message in told


# --- corpora and datasets ----------------------------------------------------------------------

CORPORA = {
    "no JSON": ("{oops", "corpus.jsonl, line 1: not a JSON object"),
    "no text": ('{"_id": "d1"}', "corpus.jsonl, line 1, key 'text': expected a text"),
    "facts": (
        '{"_id": "d1", "text": "x", "metadata": {"facts": 3}}',
        "corpus.jsonl, line 1, key 'metadata.facts': expected a list",
    ),
    "metadata": (
        '{"_id": "d1", "text": "x", "metadata": [3]}',
        "corpus.jsonl, line 1, key 'metadata': expected an object",
    ),
    "empty": ("", "the corpus holds no documents"),
    "twice": ('{"_id": "d", "text": "x"}\n' * 2, "two documents share the id 'd'"),
}


@pytest.mark.parametrize("case", CORPORA)
def test_a_broken_corpus_is_told_by_line_and_key(
    case: str, refused: Refused, tmp_path: Path
) -> None:
    text, message = CORPORA[case]
    (tmp_path / "corpus.jsonl").write_text(text)
    assert message in refused("index", tmp_path, "--out", tmp_path / "index", "--quiet")
    assert not (tmp_path / "index").exists()


def test_bad_places(dated: Path, refused: Refused, tmp_path: Path, blocked: Path) -> None:
    assert "no such corpus" in refused("index", tmp_path / "nowhere", "--out", tmp_path / "i")
    assert "cannot be written" in refused("index", dated, "--out", blocked / "index")
    file = blocked.parent
    assert "is a file" in refused("index", dated, "--out", file)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("years of work\n")
    told = refused("index", dated, "--out", tmp_path / "taken", "--quiet")
    assert "exists and is no index" in told
    assert "keeps no index" in refused("index", dated, "--out", "i", "--retriever", "symbolic")
    told = refused("index", dated, "--out", tmp_path / "i", "--dates", "roman", "--quiet")
    assert "key 'dates': unknown handling of dates 'roman'" in told
    assert "cannot be written" in refused("retrieve", dated, "--out", blocked / "run")
    assert "is a folder" in refused("retrieve", dated, "--out", tmp_path)


def test_a_dataset_that_is_missing_broken_or_changed(
    dated_dataset: RuleQADataset, refused: Refused, tmp_path: Path
) -> None:
    command = ("--out", tmp_path / "run", "--quiet")
    told = refused("retrieve", tmp_path / "ruleqa-i", *command)
    assert "build it: rulerag ruleqa build --name ruleqa-i" in told
    assert "it has no manifest.json" in refused("retrieve", tmp_path, *command)
    folder = tmp_path / "copy"
    dated_dataset.save(folder)
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "dx", "text": "smuggled in"}) + "\n")
    told = refused("retrieve", folder, *command)
    assert f"{folder / 'corpus.jsonl'}: has the fingerprint" in told
    assert "the manifest says" in told
    dated_dataset.save(folder)
    (folder / "queries.jsonl").unlink()
    assert "the dataset lacks this file" in refused("retrieve", folder, *command)


def test_an_empty_split(dated_dataset: RuleQADataset, refused: Refused, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    RuleQADataset(
        corpus=dated_dataset.corpus, queries={"test": []}, info=DatasetInfo("hollow")
    ).save(folder)
    told = refused("retrieve", folder, "--out", tmp_path / "run", "--quiet")
    assert told == "error: the query set 'full' of 'hollow' holds no query"
