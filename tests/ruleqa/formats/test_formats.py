"""Benchmarks of others, each in the form in which it is published."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulerag.cli import main
from rulerag.errors import DataError, DataFormatError, EmptyDataError, RuleRAGError
from rulerag.io import read_json
from rulerag.kg import KnowledgeGraph
from rulerag.linking import QuestionLinker
from rulerag.mining.amie import AmieMiner
from rulerag.ruleqa import RuleQADataset, is_benchmark, read_benchmark

Rows = Sequence[Mapping[str, Any]]


def lines(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def run(*words: object) -> None:
    """A command that must succeed."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0


# The rows are those of the publications, cut to what a test needs.
FLASHRAG = [
    {
        "id": "test_0",
        "question": "who got the first nobel prize in physics",
        "golden_answers": ["Wilhelm Conrad Röntgen"],
        "metadata": {},
    },
    {
        "id": "test_1",
        "question": "when is the next deadpool movie being released",
        "golden_answers": ["May 18 , 2018"],
    },
]
CONTENTS = [
    {"id": "0", "contents": '"Nobel Prize"\nThe first prize went to Wilhelm Conrad Röntgen.'},
    {"id": "1", "contents": "Deadpool 2 was released on May 18, 2018."},
]
BEIR_CORPUS = [
    {"_id": "4983", "title": "Microstructural development", "text": "Alterations of the brain."},
    {"_id": "5836", "title": "Myelodysplasia", "text": "Induction of suppressor cells."},
    {"_id": "7912", "title": "A title alone", "text": "", "metadata": {}},
    {"_id": "9000", "title": "", "text": ""},
]
BEIR_QUERIES = [
    {"_id": "1", "text": "suppressor cells", "metadata": {}},
    {"_id": "3", "text": "brain of infants", "metadata": {}},
    {"_id": "5", "text": "never judged", "metadata": {}},
]
HOTPOT = {
    "_id": "5a8b57f25542995d1e6f1371",
    "answer": "yes",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0]],
    "context": [
        ["Ed Wood (film)", ["Ed Wood is a 1994 film.", " It is about Ed Wood."]],
        ["Scott Derrickson", ["Scott Derrickson is an American director."]],
        ["Ed Wood", ["Edward Davis Wood Jr. was an American filmmaker.", " He wrote too."]],
        ["Nothing", []],
    ],
}
ROG = {
    "id": "WebQTest-0",
    "question": "what does jamaican people speak",
    "answer": ["Jamaican English", "Jamaican Creole English Language"],
    "q_entity": ["Jamaica"],
    "a_entity": ["Jamaican English", "Jamaican Creole English Language"],
    "graph": [
        ["Jamaica", "location.country.languages_spoken", "Jamaican English"],
        ["Jamaica", "location.country.languages_spoken", "Jamaican Creole English Language"],
        ["Jamaica", "location.location.containedby", "Caribbean"],
    ],
}
WEBQSP = {
    "Version": "1.0",
    "Questions": [
        {
            "QuestionId": "WebQTest-0",
            "RawQuestion": "what does jamaican people speak?",
            "ProcessedQuestion": "what does jamaican people speak",
            "Parses": [
                {
                    "TopicEntityName": "Jamaica",
                    "TopicEntityMid": "m.03_r3",
                    "InferentialChain": ["location.country.languages_spoken"],
                    "Answers": [
                        {"AnswerArgument": "m.01428y", "EntityName": "Jamaican English"},
                        {"AnswerArgument": "1962-08-06", "EntityName": None},
                    ],
                }
            ],
        },
        {
            "QuestionId": "WebQTest-1",
            "RawQuestion": "who is nobody?",
            "Parses": [{"TopicEntityMid": None, "TopicEntityName": None, "Answers": []}],
        },
    ],
}
CWQ = [
    {
        "ID": "WebQTest-832_c334509bb5e02cacae1ba2e80c176499",
        "webqsp_ID": "WebQTest-832",
        "question": "What language is spoken in the country of Kingston?",
        "sparql": "…",
        "answers": [{"answer_id": "m.01428y", "answer": "Jamaican English", "aliases": ["Patois"]}],
    }
]
SPOKEN = "location.country.languages_spoken"
TRIPLES = f"m.03_r3\t{SPOKEN}\tm.01428y\nm.03_r3\t{SPOKEN}\tm.0x\n"


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    home = tmp_path / "scifact"
    lines(home / "corpus.jsonl", BEIR_CORPUS)
    lines(home / "queries.jsonl", BEIR_QUERIES)
    (home / "qrels").mkdir()
    header = "query-id\tcorpus-id\tscore\n"
    (home / "qrels/test.tsv").write_text(header + "1\t5836\t1\n1\t4983\t0\n1\t404\t1\n")
    (home / "qrels/train.tsv").write_text(header + "3\t4983\t2\n1\t5836\t1\n")
    return home


def test_beir_has_the_judged_queries_of_each_split(beir: Path) -> None:
    dataset = read_benchmark(beir)
    assert [document.id for document in dataset.corpus] == ["4983", "5836", "7912"]
    assert dataset.corpus[2].text == "A title alone" and dataset.corpus[2].title == ""
    assert {split: [q.id for q in rows] for split, rows in dataset.queries.items()} == {
        "test": ["1"],
        "train": ["3"],
    }
    assert dataset.qrels() == {"1": {"5836": 1, "4983": 0}}
    assert dataset.qrels("train") == {"3": {"4983": 2}}
    assert dataset.statistics["left_out"] == {
        "documents without title and text": 1,
        "queries judged in another split too": 1,
        "judgements of documents that the corpus lacks": 1,
        "queries without judgements": 1,
    }
    assert not dataset.prediction and dataset.name == "scifact"


def test_retrieval_is_measured_against_the_judgements_of_beir(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(beir / "corpus.jsonl", BEIR_CORPUS[:3])
    out = tmp_path / "run"
    run("evaluate", "bm25__symbolic", "--dataset", beir, "--out", out)
    metrics = read_json(out / "metrics.json")["metrics"]
    # Of two judged documents one is right (grade 1), and it is found first; the other has grade 0.
    assert (metrics["recall@10"], metrics["ndcg@10"]) == (1.0, 1.0)
    assert read_json(out / "metrics.json")["benchmark"] == "scifact"
    capsys.readouterr()
    run("retrieve", beir, "--query-set", "train", "--out", tmp_path / "run.trec")
    assert "recall@10 100.0 %, nDCG@10 100.0 %" in capsys.readouterr().out


def test_flashrag_reads_questions_over_the_corpus_beside_them(tmp_path: Path) -> None:
    home = tmp_path / "nq"
    lines(home / "test.jsonl", FLASHRAG)
    lines(home / "dev.jsonl", [{"question": "who ?", "golden_answers": ["x"]}])
    lines(home / "wiki.jsonl.gz", CONTENTS)
    dataset = read_benchmark(home)
    assert [(d.id, d.title, d.text) for d in dataset.corpus] == [
        ("0", "", '"Nobel Prize" The first prize went to Wilhelm Conrad Röntgen.'),
        ("1", "", "Deadpool 2 was released on May 18, 2018."),
    ]
    assert [q.answers for q in dataset.queries["test"]] == [
        ("Wilhelm Conrad Röntgen",),
        ("May 18 , 2018",),
    ]
    assert [q.id for q in dataset.queries["dev"]] == ["dev_0"]
    assert len(read_benchmark(home / "dev.jsonl").query_set("full")) == 1
    (home / "test.jsonl").rename(home / "train.jsonl")
    with pytest.raises(
        EmptyDataError, match="'full' of 'nq' holds no query — those with queries: "
    ):
        read_benchmark(home).query_set("full")
    (home / "wiki.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"no corpus lies beside them — put a file of lines"):
        read_benchmark(home)


@pytest.mark.parametrize("form", ["list", "lines", "columns"])
def test_hotpotqa_judges_its_supporting_paragraphs(tmp_path: Path, form: str) -> None:
    other = {**HOTPOT, "_id": "b", "answer": "1994", "supporting_facts": [["Gone", 0]]}
    rows: list[dict[str, Any]] = [HOTPOT, other]
    if form == "columns":  # as the package datasets keeps it
        for place, row in enumerate(rows):
            facts, context = zip(*row["supporting_facts"], strict=True), row["context"]
            titles, places = facts
            rows[place] = {
                "id": row["_id"],
                **{key: row[key] for key in ("question", "answer")},
                "supporting_facts": {"title": [*titles], "sent_id": [*places]},
                "context": {
                    "title": [title for title, _ in context],
                    "sentences": [sentences for _, sentences in context],
                },
            }
    path = tmp_path / "hotpot_dev_distractor_v1.json"
    if form == "list":
        path.write_text(json.dumps(rows))
    else:
        lines(path, rows)
    dataset = read_benchmark(path)
    assert [(d.title, d.text) for d in dataset.corpus] == [
        ("Ed Wood (film)", "Ed Wood is a 1994 film. It is about Ed Wood."),
        ("Scott Derrickson", "Scott Derrickson is an American director."),
        ("Ed Wood", "Edward Davis Wood Jr. was an American filmmaker. He wrote too."),
    ]
    assert dataset.qrels() == {HOTPOT["_id"]: {"p000002": 1, "p000003": 1}}
    assert [q.answers for q in dataset.query_set("full")] == [("yes",), ("1994",)]
    assert dataset.statistics["left_out"] == {
        "paragraphs without a sentence": 2,
        "supporting paragraphs outside of the context": 1,
    }


def test_the_published_hotpotqa(tmp_path: Path, graph_folder: Callable[[str], Path]) -> None:
    file = graph_folder("hotpotqa") / "test.jsonl"
    dataset = read_benchmark(file)
    assert len(dataset.query_set("full")) == 500 and len(dataset.corpus) == 4947
    assert sum(map(len, dataset.qrels().values())) == 1000  # two supporting paragraphs a question
    saved = tmp_path / "saved"
    dataset.save(saved)
    assert RuleQADataset.load(saved).fingerprint == dataset.fingerprint


def test_rog_states_the_triples_of_all_questions_once(tmp_path: Path) -> None:
    more = {**ROG, "id": "WebQTest-2", "q_entity": ["m.gone", "Caribbean"], "answer": ["Jamaica"]}
    none = {**ROG, "id": "WebQTest-3", "answer": []}
    path = lines(tmp_path / "webqsp/test.jsonl", [ROG, more, none])
    dataset = read_benchmark(path)
    assert [document.text for document in dataset.corpus] == [
        "Jamaica languages spoken Jamaican English.",
        "Jamaica languages spoken Jamaican Creole English Language.",
        "Jamaica containedby Caribbean.",
    ]
    assert [query.subject for query in dataset.query_set("full")] == ["Jamaica", "Caribbean"]
    assert dataset.query_set("full")[0].relation == ""  # what solves it is not given away
    assert dataset.statistics["left_out"] == {"questions without an answer": 1}
    assert dataset.corpus[0].facts[0].relation == "location.country.languages_spoken"


def test_rules_of_a_graph_benchmark_are_mined_from_its_corpus(tmp_path: Path) -> None:
    people = [f"p{n}" for n in range(12)]
    graph = [[p, "people.person.born_in", f"t{n % 3}"] for n, p in enumerate(people)]
    graph += [[p, "people.person.lives_in", f"t{n % 3}"] for n, p in enumerate(people[:-1])]
    row = {**ROG, "question": "where does p11 lives in ?", "q_entity": ["p11"], "answer": ["t2"]}
    dataset = read_benchmark(lines(tmp_path / "mine.jsonl", [{**row, "graph": graph}]))
    facts = [fact for document in dataset.corpus for fact in document.facts]
    dataset.rules = AmieMiner(min_head_size=5).mine(KnowledgeGraph.from_facts(facts).train)
    (found,) = QuestionLinker(dataset).link([row["question"]])
    (query,) = dataset.query_set("full")
    assert query.relation == "" and query.subject == found.query().subject == "p11"
    dataset.queries["test"] = [replace(query, relation=found.query().relation)]
    dataset.save(tmp_path / "mine")
    out = tmp_path / "run"
    run("evaluate", "bm25-guided__symbolic", "--dataset", tmp_path / "mine", "--out", out)
    # Only the rule knows: where p11 lives is stated nowhere.
    assert read_json(out / "metrics.json")["metrics"]["exact_match"] == 1.0


def test_webqsp_as_published_is_asked_of_the_graph_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "webqsp"
    home.mkdir()
    (home / "WebQSP.test.json").write_text(json.dumps(WEBQSP, indent=1), encoding="utf-8-sig")
    with pytest.raises(DataError, match="without its triples"):
        read_benchmark(home)
    (home / "graph.txt").write_text(TRIPLES)
    dataset = read_benchmark(home)
    (query,) = dataset.query_set("full")
    assert query.text == "what does jamaican people speak?" and query.relation == ""
    assert (query.subject, query.subject_words) == ("m.03_r3", "Jamaica")
    assert query.answers == ("Jamaican English", "1962-08-06")
    assert [document.text for document in dataset.corpus] == [
        "Jamaica languages spoken Jamaican English.",
        "Jamaica languages spoken m.0x.",
    ]
    assert dataset.statistics["left_out"] == {"questions without an answer": 1}


def test_cwq_takes_aliases_as_answers(tmp_path: Path) -> None:
    home = tmp_path / "cwq"
    home.mkdir()
    (home / "ComplexWebQuestions_dev.json").write_text(json.dumps(CWQ))
    address = "<http://rdf.freebase.com/ns/{}>"
    (home / "graph").mkdir()
    triples = [" ".join(map(address.format, row.split("\t"))) for row in TRIPLES.splitlines()]
    pytest.importorskip("rdflib")
    (home / "graph/all.nt").write_text("".join(f"{row} .\n" for row in triples))
    dataset = read_benchmark(home)
    (query,) = dataset.query_set("full")
    assert query.answers == ("Jamaican English", "Patois") and query.subject == ""
    assert dataset.corpus[0].text == "m.03_r3 languages spoken Jamaican English."


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [FLASHRAG[0], {"id": 2, "golden_answers": []}],
            r"line 2, key 'question': expected a text",
        ),
        (
            [{**FLASHRAG[0], "golden_answers": "Röntgen"}],
            r"line 1, key 'golden_answers': expected a list",
        ),
        ([HOTPOT, {**HOTPOT, "context": [["a"]]}], r"line 2, key 'context': expected pairs of"),
        ([HOTPOT, HOTPOT], r"test.jsonl: the query id '5a8b57f25542995d1e6f1371' occurs twice"),
        (
            [{k: v for k, v in HOTPOT.items() if k != "answer"}],
            r"key 'answer': the question has no answer — the published test file has none",
        ),
        ([{**ROG, "graph": [["a", "b"]]}], r"key 'graph': expected \[subject, relation, object\]"),
        ([{"some": "thing"}], "is no benchmark of a known form — build a dataset"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, rows: Rows, message: str) -> None:
    path = lines(tmp_path / "test.jsonl", rows)
    lines(tmp_path / "corpus.jsonl", CONTENTS)
    with pytest.raises(RuleRAGError, match=message):
        read_benchmark(path)


def test_an_entry_of_a_list_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([HOTPOT, {**HOTPOT, "question": ""}]))
    with pytest.raises(
        DataFormatError, match=r"dev.json, key 'question': entry 2: expected a text"
    ):
        read_benchmark(path)


def test_wrong_judgements_are_named(beir: Path) -> None:
    file = beir / "qrels/test.tsv"
    file.write_text("query-id\tcorpus-id\tscore\n1\t5836\thigh\n")
    with pytest.raises(DataFormatError, match=r"test.tsv, line 2: expected query-id"):
        read_benchmark(beir)
    file.write_text("1\t5836\t1\n99\t5836\t1\n")
    with pytest.raises(DataFormatError, match=r"test.tsv, key 'query-id': no query .* '99'"):
        read_benchmark(beir)


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    assert not is_benchmark(tmp_path) and not is_benchmark(tmp_path / "none.jsonl")
    (tmp_path / "settings.json").write_text(json.dumps({"a": {"b": 1}}, indent=1))
    (tmp_path / "bad.json").write_text("[oops")
    assert not is_benchmark(tmp_path)
    with pytest.raises(DataFormatError, match=r"no manifest\.json"):
        read_benchmark(tmp_path)
    lines(tmp_path / "a.jsonl", FLASHRAG)
    lines(tmp_path / "b.jsonl", [HOTPOT])
    with pytest.raises(DataFormatError, match="several benchmarks: flashrag, hotpotqa"):
        read_benchmark(tmp_path)
    other = tmp_path / "rog"
    other.mkdir()
    (other / "test-00000-of-00002.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataFormatError, match=r"holds Parquet files — write them as JSON lines"):
        read_benchmark(other)


def test_a_benchmark_is_indexed_and_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines(tmp_path / "test.jsonl", [HOTPOT])
    run("index", path, "--out", tmp_path / "index")
    assert "3 documents indexed" in capsys.readouterr().out
    index = ["--index", str(tmp_path / "index"), "--rules", "none", "--top-k", "1"]
    run("answer", path, *index)
    shown = capsys.readouterr().out
    assert "Scott Derrickson" in shown and "no reader" in shown
    run("inspect", path)
    assert "read as hotpotqa" in capsys.readouterr().out
