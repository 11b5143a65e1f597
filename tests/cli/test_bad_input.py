"""Bad input of every command: one message that says what, where and what would work; status 2."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset

Refused = Callable[..., str]

# The arguments, with places in braces, and key words of the message. Words part at spaces.
ASKED = [
    ("nowhere", "is no dataset folder and no experiment file — for a question"),
    ("nowhere.yaml", "nowhere.yaml: no such file"),
    ("{dated} --query q-00001x", "no query has the id 'q-00001x' — did you mean"),
    ("{dated} --limit 0", "key 'limit': 0 is out of range"),
    ("{dated} --dataset {dated}", "is no question"),
    ("{dated} --out {blocked}/a.jsonl", "cannot be written"),
    ("{dated} --out {dated}", "is a folder"),
    ("what? --dataset nowhere", "the dataset folder nowhere is not here"),
    ("what? --dataset {dated} --limit 3", "key 'limit': chooses queries of a"),
    ("what? --dataset {dated} --query q-000001", "a question was asked"),
    ("what? --index {dated}", "is no index of texts"),
    ("what? --index nowhere", "nowhere, key 'index': no such folder"),
    ("what? --index {texts} --rules guided", "no facts that rules could follow"),
    ("what? --index {texts} --generator rulerag-nano-llama", "statements of facts, not prose"),
    ("{dated} --language-model m", "key 'language_model': writes what a question"),
    ("{experiment} --rules guided", "decides this itself"),
]
EXPLAINED = [
    ("{dated} --html {blocked}/why.html", "cannot be written"),
    ("{dated} --out - --html -", "two outputs would be mixed on standard output"),
    (
        "{dated} --limit 1 --value log-probability --attribution guided",
        "SymbolicReader gives no log-probability",
    ),
    ("{dated} --limit 1 --votes 0", "key 'votes': expected a number from 1"),
    ("what? --documents {notes}", "nothing answers"),
    ("what? --documents {notes} --endpoint http://localhost:1/v1", "go together"),
    ("what? --documents {notes} --answerer rag", "'rag' names no function"),
    ("what? --documents {notes} --answerer no_rag:answer", "ModuleNotFoundError"),
    ("what? --documents {notes} --answerer no_rag.py:answer", "there is no such file"),
    ("what? --documents {notes} --answerer json:dump", "raised AttributeError"),
    ("what? --documents {notes} --answerer json:dumb", "did you mean 'dump'"),
    ("what? --answerer json:dump", "a function needs documents"),
    ("what? --documents nowhere --answerer json:dump", "nowhere: cannot be read"),
    ("what? --documents {folder} --answerer json:dump", "no document is there"),
    ("what? --documents {broken.jsonl} --answerer json:dump", "broken.jsonl, line 2: not JSON"),
    ("what? --documents {notes} --answerer json:dump --generator m", "answerer and generator"),
    ("what? --documents {notes} --answerer json:dump --retriever bm25", "is for datasets"),
    ("what? --documents {notes} --answerer json:dump --predicate correct", "is for datasets"),
    ("{no-spans.json} --answerer json:dump", "holds no span"),
    ("{no-spans.json} --generator m", "key 'generator': takes no logged messages"),
]
RETRIEVED = [
    ("{dated} --union", "key 'union': there is no union without rules"),
    ("{static} --index {index}", "built from another corpus"),
    ("{changed}", "corpus.jsonl: has the fingerprint"),
    ("{hollow}", "the query set 'full' of 'hollow' holds no query"),
]
INDEXED = [
    ("nowhere", "no such corpus"),
    ("{dated} --retriever symbolic", "keeps no index"),
    ("{dated} --kind Flat", "key 'kind': means nothing to bm25 — --retriever dense"),
    ("{dated} --retriever dense --dates split", "key 'dates': means nothing to dense"),
    ("{dated} --dates roman", "key 'dates': expected 'token' or 'split' or 'drop', found 'roman'"),
    ("{notes} --words 20 --overlap 10", "is not from 0 to 9"),
    ("{not-json}", "corpus.jsonl, line 1: not a JSON object"),
    ("{no-text}", "corpus.jsonl, line 1, key 'text': expected a text"),
    ("{no-documents}", "the corpus holds no documents"),
    ("{twice}", "two documents share the id 'd'"),
    ("{folder}", "no document is there"),
]
MINED = [
    ("{temporal} --miner amie", "are dated and AmieMiner mines static rules"),
    ("{temporal} --miner tlogic --max-atoms 3", "key 'max_atoms': unknown key"),
    ("{temporal} --format csv", "key 'format': unknown format 'csv'"),
    ("{temporal} --format amie", "cannot hold the temporal rules of 'temporal'"),
    ("{temporal} --lengths one", "'one' is no list of lengths — for example --lengths 1"),
    ("{temporal} --lengths 1,4", "key 'lengths': temporal bodies of lengths [1, 4]"),
    ("{temporal} --min-confidence 2", "key 'min_confidence': 2.0 is"),
    ("{temporal} --prune-covered", "covered rules are found on static facts"),
    ("{static-graph} --min-confidence nan", "expected a number, found nan"),
    ("{static-graph} --top 0", "key 'top': 0 is out of range"),
    ("{static-graph} --score product", "key 'score': ranks the rules of a head"),
    ("{static-graph} --layout csv", "key 'layout': unknown layout 'csv'"),
    ("{folder}", "no training facts here: looked for train.txt"),
    ("nowhere", "nowhere"),
]
FILTERED = [
    ("{bank} --head nothing", "no rule predicts 'nothing'"),
    ("{bank} --top 0", "key 'top': 0 is out of range"),
    ("{bank} --min-confidence 2", "key 'min-confidence': 2.0 is out of range"),
    ("{bank} --max-body-atoms 0", "key 'max-body-atoms': 0 is out of range"),
    ("{bank} --per-head 2 --score products", "did you mean 'product'"),
    ("{bank} --prune-covered", "key 'prune-covered': needs the graph of the rules"),
    ("{bank} --merge none.jsonl", "none.jsonl: cannot be read"),
    ("{bank} --out-format csv", "key 'out-format': unknown format 'csv'"),
    ("none.jsonl", "cannot be read"),
    ("{poem.txt}", "no rule file that is known here"),
    ("{tlogic.json}", "--kg FOLDER"),
]
EVALUATED = [
    ("nowhere.yaml", "no such file"),
    ("{dated}", "is a folder — name a method"),
    ("bm25__symbolic", "a method needs a dataset"),
    ("{experiment} --limit 3 top_k=5 --quiet topk=5", "key 'topk': no such key to override"),
    ("{experiment} dataset.path=nowhere", "the dataset folder nowhere is not"),
    ("{experiment} --limit 0", "key 'limit': 0 is out of range"),
    (
        "{experiment} generator.evidence.prior=-5",
        "key 'generator.evidence.prior': -5 is",
    ),
    ("{unknown-key.yaml}", "unknown-key.yaml, key 'topk': unknown key — did you mean 'top_k'?"),
]
OTHERS = [
    ("inspect nowhere", "nowhere"),
    ("inspect {empty.csv}", "empty.csv: holds no fact"),
    ("inspect {zeros.csv}", "zero bytes"),
    ("inspect {who.csv}", "Wer, Was, Wen"),
    ("inspect {who.csv} --columns subject=Wr", "'Wr' for the subject"),
    ("demo --facts 10", "10 is out of range — 100 to"),
    ("demo --seed -1", "-1 is out of range"),
    ("demo --out {blocked}", "cannot be written"),
    ("demo --out -", "-: is standard output, and a folder is to be written"),
    ("index {dated} --out -", "-: is standard output, and a folder is to be written"),
    ("index {dated} --out {poem.txt}", "is a file"),
    ("index {dated} --out {notes}", "exists and is no index"),
    ("retrieve {dated} --out {blocked}/run", "cannot be written"),
    ("evaluate {experiment} --out {blocked}", "cannot be written"),
    ("evaluate {experiment} --out {foreign}", "predictions of an unknown run"),
    ("extract {folder} --out x", "no document is there"),
    ("extract {dull.txt} --out x", "no triple was found (no sentence names two entities)"),
    ("extract {dull.txt} --out x --min-confidence 3", "is not from 0 to 1"),
    ("extract {dull.txt} --out x --generator symbolic", "is no language model"),
    ("link-prediction {temporal} limit=1 limit=2", "key 'limit': is given twice"),
    ("link-prediction {temporal} --miner amy", "amy"),
    ("ruleqa build --kg {temporal} --out x num_queris=3", "did you mean 'num_queries'"),
    ("ruleqa build --kg {empty.csv} --out x", "holds no fact"),
    ("ruleqa check {folder}", "it has no manifest.json"),
    ("ruleqa table", "FOLDERS requires an argument"),
    ("ruleqa table {folder}", "is no built dataset"),
    ("data fetch", "key 'name': no data set was named — --list shows them"),
    ("data fetch icews15", "icews14"),
    ("models fetch gemma", "unknown model 'gemma'"),
    ("models fetch gemma-3-270m", "add --accept-terms"),
    ("models info smol", "called 'smol'"),
    ("cache show bm25", "shown together"),
    ("cache clear bm52", "nothing of the kind 'bm52' is cached — did you mean 'bm25'?"),
    ("redteam finanze --data {folder}/s", "finan"),
]
CASES = [
    *(
        (f"{command} {words}", message)
        for command in ("answer", "explain")
        for words, message in ASKED
    ),
    *((f"explain {words}", message) for words, message in EXPLAINED),
    *((f"retrieve {words} --out x", message) for words, message in RETRIEVED),
    *((f"index {words} --out x", message) for words, message in INDEXED),
    *((f"mine {words} --out x", message) for words, message in MINED),
    *((f"rules {words}", message) for words, message in FILTERED),
    *((f"evaluate {words} --out x", message) for words, message in EVALUATED),
    *OTHERS,
]
EXPERIMENT = (
    "dataset: {{path: {dated}, query_set: full}}\nselector: {{type: head}}\n"
    "retriever: {{type: symbolic}}\ngenerator: {{type: symbolic}}\n"
)
FILES = {
    "experiment": EXPERIMENT,
    "unknown-key.yaml": EXPERIMENT + "topk: 5\n",
    "broken.jsonl": '{{"text": "a"}}\n{{"text"\n',
    "no-spans.json": "[]",
    "poem.txt": "Roses are red\n",
    "dull.txt": "It rained.\n",
    "tlogic.json": '{{"0": []}}',
    "empty.csv": "",
    "zeros.csv": "\0" * 99,
    "who.csv": "Wer;Was;Wen\nAnna;kennt;Ben\nBen;kennt;Anna\n",
    "not-json/corpus.jsonl": "{{oops",
    "no-text/corpus.jsonl": '{{"_id": "d1"}}',
    "no-documents/corpus.jsonl": "",
    "twice/corpus.jsonl": '{{"_id": "d", "text": "x"}}\n' * 2,
    "foreign/predictions.jsonl": "{{}}\n",
    "notes/a.md": "# Staff\n\nAnna Meyer works for Acme.\n\nBen lives in Bonn.\n",
}


@pytest.fixture(scope="module")
def places(
    datasets: dict[str, Path],
    graphs: dict[str, Path],
    dated_dataset: RuleQADataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """What the braces of the cases stand for."""
    home = tmp_path_factory.mktemp("places")
    made = {"dated": datasets["temporal"], "static": datasets["static"], "folder": home / "none"}
    made |= {"temporal": graphs["temporal"], "static-graph": graphs["static"]}
    made["folder"].mkdir()
    for name, text in FILES.items():
        file = home / (f"{name}.yaml" if name == "experiment" else name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(**made))
        made[name] = file
        made.setdefault(name.partition("/")[0], file.parent)
    made["bank"] = made["dated"] / "rules.jsonl"
    made["blocked"] = made["poem.txt"] / "below"
    for name in ("changed", "hollow"):
        made[name] = home / name
    dated_dataset.save(made["changed"])
    with (made["changed"] / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "dx", "text": "smuggled in"}) + "\n")
    RuleQADataset(
        corpus=dated_dataset.corpus, queries={"test": []}, info=DatasetInfo("hollow")
    ).save(made["hollow"])
    from rulerag.cli import main

    for name, corpus in (("index", made["dated"]), ("texts", made["notes"])):
        made[name] = home / f"{name}-index"
        with pytest.raises(SystemExit) as stop:
            main(["index", str(corpus), "--out", str(made[name]), "--quiet"])
        assert not stop.value.code
    return made


@pytest.mark.parametrize(("words", "message"), CASES, ids=[words for words, _ in CASES])
def test_bad_input_is_one_message(
    words: str,
    message: str,
    places: dict[str, Path],
    refused: Refused,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    filled = [
        re.sub(r"\{(.+?)\}", lambda match: str(places[match[1]]), word) for word in words.split()
    ]
    if filled[0] in ("answer", "explain", "mine", "retrieve", "index"):
        filled.append("--quiet")
    assert message in refused(*filled)
    left = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert not left, "a run that fails leaves nothing"
