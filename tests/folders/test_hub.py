"""Rule banks, datasets, encoders and explanations to a server with the Hub's API, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rulerag
from rulerag import RuleBank, RuleQADataset, Why
from rulerag.cli import main
from rulerag.errors import DataError
from rulerag.folders import local_copy
from rulerag.mining.amie import AmieMiner
from rulerag.ruleqa import build
from rulerag.synthetic import World
from tests.folders.server import TOKEN, Hub, hub_server

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The server, which the library takes for the Hub, with a cache of its own; I am the owner."""
    with hub_server() as server:
        form = "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in {
            "ENDPOINT": server.address,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.address + form,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture(scope="module")
def bank() -> RuleBank:
    graph = World.generate(800, kind="static", seed=1).graph
    rules = AmieMiner(min_head_size=20).mine(graph.train)
    about = {"name": "world", "fingerprint": graph.fingerprint, "facts": len(graph.train)}
    return RuleBank(rules, {"graph": about, "miner": "amie", "settings": {"min_head_size": 20}})


def test_a_rule_bank_goes_and_comes_with_its_graph_settings_and_card(
    hub: Hub, bank: RuleBank
) -> None:
    address = bank.push_to_hub("me/rules")
    held = hub.repositories["datasets/me/rules"]
    assert address.endswith(held.branches["main"])
    back = RuleBank.from_pretrained("me/rules")
    assert (list(back), back.origin, back.fingerprint) == (
        list(bank),
        bank.origin,
        bank.fingerprint,
    )
    files = held.commits[held.branches["main"]]
    assert files["README.md"].decode() == back.card()  # made from the bank alone
    for part in (bank.fingerprint, bank.origin["graph"]["fingerprint"], '"min_head_size": 20'):
        assert part in back.card()


def test_revisions_private_and_gated_repositories(
    hub: Hub, bank: RuleBank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bank.push_to_hub("me/rules", private=True)
    half = RuleBank(list(bank)[:3])
    half.push_to_hub("me/rules", revision="small")
    assert len(RuleBank.from_pretrained("me/rules", revision="small")) == 3
    assert len(RuleBank.from_pretrained("me/rules")) == len(bank)
    with pytest.raises(DataError, match="me/rules: has no such revision — a branch, tag or commit"):
        RuleBank.from_pretrained("me/rules", revision="none")
    monkeypatch.setenv("HF_TOKEN", "hf_stranger")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "another"))
    with pytest.raises(DataError, match=r"no such repository, or it is private .* hf auth login"):
        RuleBank.from_pretrained("me/rules")
    with pytest.raises(DataError, match="hf auth login, with a token that may write"):
        bank.push_to_hub("you/rules")
    held = hub.repositories["datasets/me/rules"]
    held.private, held.gated = False, True
    with pytest.raises(DataError, match="me/rules: is gated — accept its terms on its page"):
        RuleBank.from_pretrained("me/rules")


def test_offline_the_cache_is_used_and_what_is_not_in_it_is_named(
    hub: Hub, bank: RuleBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.push_to_hub("me/rules")
    RuleBank.from_pretrained("me/rules")
    asked = len(hub.requests)
    assert len(RuleBank.from_pretrained("me/rules", local_files_only=True)) == len(bank)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert len(RuleBank.from_pretrained("me/rules")) == len(bank)
    with pytest.raises(DataError, match="is not in the cache here, and the Hub cannot be reached"):
        RuleBank.from_pretrained("me/others")
    assert len(hub.requests) == asked


def test_an_upload_that_breaks_off_leaves_nothing_and_is_done_again(
    hub: Hub, bank: RuleBank
) -> None:
    hub.breaks = 9
    with pytest.raises(DataError, match="nothing is half done: try again"):
        bank.push_to_hub("me/rules")
    held = hub.repositories["datasets/me/rules"]
    assert held.commits[held.branches["main"]] == {}
    hub.breaks = 0
    bank.push_to_hub("me/rules")
    assert len(RuleBank.from_pretrained("me/rules")) == len(bank)


def test_every_command_takes_what_is_on_the_hub_for_a_folder(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], bank: RuleBank
) -> None:
    dataset = build("ruleqa-i", World.generate(900, seed=1).graph)
    dataset.save(tmp_path / "dataset")
    bank.save(tmp_path / "rules.jsonl")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        out, err = capsys.readouterr()
        return f"{end.value.code} {out}{err if end.value.code else ''}"

    assert "hf://me/qa" in run("push", str(tmp_path / "dataset"), "me/qa")
    assert "hf://me/rules@v1" in run(
        "push", str(tmp_path / "rules.jsonl"), "me/rules", "--revision", "v1"
    )
    question = next(iter(dataset.queries["test"])).text
    here = run("answer", question, "--dataset", str(tmp_path / "dataset"))
    assert here.startswith("0 ") and run("answer", question, "--dataset", "hf://me/qa") == here
    assert run("answer", question, "--dataset", "hf://datasets/me/qa@main") == here
    assert run("rules", "hf://me/rules@v1") == run("rules", str(tmp_path / "rules.jsonl"))
    assert run("rules", "hf://me/rules@v1/rules.jsonl").startswith("0 ")
    assert "is empty" in run("rules", "hf://me/rules")  # but for the branch v1
    assert "names no repository" in run("rules", "hf://rules")
    assert "rulerag push uploads it" in run("rules", "hf://me/rules@v1", "--out", "hf://me/more")
    explained = str(tmp_path / "explanations.jsonl")
    run("explain", str(tmp_path / "dataset"), "--limit", "2", "--out", explained)
    assert "hf://me/whys" in run("push", explained, "me/whys")
    assert len(local_copy("hf://me/whys/explanations.jsonl").read_text().splitlines()) == 2
    assert "has no other.jsonl" in run("rules", "hf://me/rules@v1/other.jsonl")
    (tmp_path / "empty.jsonl").touch()
    assert "an empty file" in run("push", str(tmp_path / "empty.jsonl"), "me/x")
    assert "no such file" in run("push", str(tmp_path / "nowhere"), "me/x")
    (tmp_path / "empty").mkdir()
    assert "2 error" in (said := run("push", str(tmp_path / "empty"), "me/x"))
    assert "nothing that can be uploaded" in said and "datasets/me/x" not in hub.repositories
    assert RuleQADataset.from_pretrained("me/qa").fingerprint == dataset.fingerprint


def test_an_explanation_and_its_page(hub: Hub) -> None:
    why = rulerag.explain(lambda _, found: "Paris" if "b" in found else "", "Where?", ["a", "b"])
    why.push_to_hub("me/why")
    assert Why.from_pretrained("me/why").to_json() == why.to_json()
    held = hub.repositories["datasets/me/why"]
    files = held.commits[held.branches["main"]]
    assert "Where?" in files["README.md"].decode() and b"<html" in files["explanation.html"]


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the Hub's library
def test_an_encoder_and_a_folder_of_a_model_with_large_files(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentence_transformers")
    import numpy as np

    from rulerag.retrieval.dense.encoders import NANO_ENCODER, SentenceEncoder, load_encoder

    encoder = load_encoder(NANO_ENCODER)
    encoder.push_to_hub("me/encoder")
    assert hub.objects  # the weights went ahead of the commit
    back = SentenceEncoder.from_pretrained("me/encoder")
    assert np.array_equal(back.encode(["a b"]), encoder.encode(["a b"]))
    assert back.fingerprint == encoder.fingerprint
    encoder.save(tmp_path / "model")
    with pytest.raises(SystemExit):
        main(["push", str(tmp_path / "model"), "me/model"])
    assert (local_copy("hf://me/model") / "modules.json").is_file()
    assert np.array_equal(load_encoder("me/model").encode(["a b"]), encoder.encode(["a b"]))
