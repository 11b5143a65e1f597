"""Runs of the trainer: what it writes, that it resumes, stops and refuses."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rulerag.composition.config import load_config
from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import read_json
from rulerag.retrieval.dense.encoders.load import load_encoder
from rulerag.retrieval.dense.retriever import open_dense
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import changed
from training.common.checkpoint import TrainingError
from training.common.tiny import make_encoder, train_tokenizer
from training.retriever.run import main, train_retriever
from training.retriever.settings import RetrieverSettings

ROOT = Path(__file__).resolve().parents[3]
Make = Callable[..., RetrieverSettings]
Two = Callable[[Callable[[], object]], list[int | None]]


class Killed(Exception):
    """Stands for the end of a process."""


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_encoder(folder, device="cpu").model.state_dict()


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_a_run_writes_two_encoders_and_never_trains_the_documents(
    settings: Make, encoder_folder: Path, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    made = settings()
    metrics = train_retriever(made)
    out = Path(made.out)
    assert_equal(weights(out / "document_encoder"), weights(encoder_folder))
    assert metrics["steps"] == 6
    assert [row["step"] for row in metrics["history"]] == [0, 2, 4, 6]
    best = max(row[made.validation.metric] for row in metrics["history"])
    assert metrics["best"][made.validation.metric] == best
    matrix = np.load(next((tmp_path / "cache").rglob("*.npy")))
    documents = load_encoder(encoder_folder, role="document", device="cpu")
    texts = [document.text for document in world_dataset.corpus[:20]]
    np.testing.assert_allclose(matrix[:20], documents.encode(texts), atol=1e-5)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: sentence-transformers")
    assert "RGFT" in card and world_dataset.fingerprint in card
    assert not list((out / "run").glob("*.pt"))
    assert train_retriever(made) == read_json(out / "metrics.json")


def test_the_folder_of_a_run_stands_for_both_sides(
    settings: Make, encoder_folder: Path, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    made = settings(max_steps=60, every=20, batch_size=16, learning_rate=3e-3, epochs=50)
    train_retriever(made)
    corpus = world_dataset.corpus[:50]
    queries = world_dataset.query_set("full")[:5]
    one = open_dense(corpus, encoder=made.out)
    both = open_dense(corpus, encoder=encoder_folder, query_encoder=made.out)
    plain = open_dense(corpus, encoder=encoder_folder)
    assert one.retrieve(queries, 5) == both.retrieve(queries, 5) != plain.retrieve(queries, 5)
    one.save(tmp_path / "index")
    assert open_dense(corpus, folder=tmp_path / "index", encoder=made.out).retrieve(
        queries, 5
    ) == one.retrieve(queries, 5)


def test_training_learns_and_keeps_the_best_step(settings: Make, encoder_folder: Path) -> None:
    made = settings(max_steps=60, every=20, batch_size=16, learning_rate=3e-3, epochs=50)
    metrics = train_retriever(made)
    losses = [row["loss"] for row in metrics["history"][1:]]
    assert losses[-1] < 0.7 * losses[0]
    assert metrics["best"][made.validation.metric] > metrics["before"][made.validation.metric]
    before, after = weights(encoder_folder), weights(made.out)
    assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("killed_at", [1, 3, 5])
def test_a_killed_run_goes_on_to_the_same_result(
    settings: Make, tmp_path: Path, killed_at: int
) -> None:
    whole, cut = settings(out=str(tmp_path / "whole")), settings(out=str(tmp_path / "cut"))
    expected = train_retriever(whole)

    def kill(step: int) -> None:
        if step == killed_at:
            raise Killed

    with pytest.raises(Killed):
        train_retriever(cut, after_step=kill)
    resumed = train_retriever(cut)
    assert_equal(weights(whole.out), weights(cut.out))
    assert resumed["history"] == expected["history"], "losses and recalls of every step"


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_state(settings: Make) -> None:
    made = settings(learning_rate=1e30, max_grad_norm=1e30, max_steps=6, every=1, warmup_share=0.0)
    with pytest.raises(TrainingError, match="is kept"):
        train_retriever(made)
    state = torch.load(Path(made.out) / "run" / "state.pt", weights_only=True)
    assert state["step"] < 6
    best = Path(made.out) / "run" / f"best-{state['best_step']:07d}.pt"
    kept = torch.load(best, weights_only=True)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in kept.values())
    assert not (Path(made.out) / "metrics.json").exists()


def test_a_folder_of_other_settings_is_refused(settings: Make) -> None:
    made = settings(max_steps=2)
    train_retriever(made)
    with pytest.raises(ConfigError, match="other settings"):
        train_retriever(changed(made, seed=1))


def test_what_is_no_encoder_is_refused(settings: Make, world_folder: Path) -> None:
    with pytest.raises(RetrievalError, match="holds no encoder"):
        train_retriever(settings(query=str(world_folder)))


def test_bf16_on_the_cpu_follows_fp32_and_trains_float32(settings: Make, tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        made = settings(precision=precision, max_steps=12, every=4, out=str(tmp_path / precision))
        made = changed(made, epochs=9)
        losses[precision] = [row["loss"] for row in train_retriever(made)["history"][1:]]
        assert {w.dtype for w in weights(made.out).values() if w.is_floating_point()} == {
            torch.float32
        }
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.05)
    assert losses["bf16"] != losses["fp32"], "another arithmetic"
    assert losses["fp32"][-1] < 0.9 * losses["fp32"][0], "it learned meanwhile"


def test_passes_of_one_step_give_its_update(
    settings: Make, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    """Every query meets the documents of the whole step, whatever pass it is read in."""
    texts = [document.text for document in world_dataset.corpus]
    still = tmp_path / "still"  # dropout would differ
    make_encoder(train_tokenizer(texts, vocabulary=600), width=32, layers=1).save(str(still))
    made = settings(query=str(still), every=1, out=str(tmp_path / "whole"), extra_negatives=5)
    cut = changed(made, accumulation=3, out=str(tmp_path / "cut"))
    one, other = train_retriever(made), train_retriever(cut)
    for row, same in zip(one["history"], other["history"], strict=True):
        assert same == pytest.approx(row, rel=1e-4)
    for name, tensor in weights(made.out).items():
        # Adam turns the rounding of a gradient near zero into a part of a step of 1e-3.
        torch.testing.assert_close(weights(cut.out)[name], tensor, rtol=1e-3, atol=1e-4)
    assert cut.fingerprint != made.fingerprint


@pytest.fixture
def config(world_folder: Path, encoder_folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(
        f"""extends: {ROOT / "configs/training/rgft-ruleqa-i.yaml"}
dataset: {{path: {world_folder}}}
model: {{query: {encoder_folder}, document: null}}
training: {{learning_rate: 1.0e-3, batch_size: 8, max_steps: 2, extra_negatives: 4}}
validation: {{every: 1}}
out: {tmp_path / "out"}
device: cpu
""",
        encoding="utf-8",
    )
    return path


def test_two_steps_through_the_command(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(config), "method=ssft", "--quiet"]) == 0
    assert "answer_recall@10" in capsys.readouterr().out
    metrics = read_json(tmp_path / "out" / "metrics.json")
    assert metrics["method"] == "ssft" and metrics["steps"] == 2


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("method=rgtf", "data.method"),
        ("+data.num_queries=-1", "data.num_queries"),
        ("temperature=0", "temperature"),
        ("batch_size=1", "batch_size"),
        ("training.learnin_rate=1", "learnin_rate"),
        ("metric=mrr", "metric"),
        ("dataset.path=nowhere", "nowhere"),
    ],
)
def test_bad_settings_are_named(
    config: Path, override: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(config), override]) == 2
    message = capsys.readouterr().err
    assert named in message and "Traceback" not in message


def test_the_default_configuration_has_the_papers_settings() -> None:
    config = load_config(ROOT / "configs" / "training" / "rgft-ruleqa-i.yaml")
    made = RetrieverSettings.from_config(config)
    training = made.training
    assert (training.learning_rate, training.batch_size, training.temperature) == (1e-5, 32, 0.01)
    model = {"query": made.model.query, "document": made.model.document}
    plain = RetrieverSettings(dataset={"path": made.dataset.path}, model=model, out=made.out)
    assert made.to_json() == plain.to_json()


@pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_two_processes_give_the_result_of_one(
    settings: Make, world_dataset: RuleQADataset, tmp_path: Path, two_processes: Two
) -> None:
    texts = [document.text for document in world_dataset.corpus]
    still = tmp_path / "still"  # dropout would differ between the two
    make_encoder(train_tokenizer(texts, vocabulary=600), width=32, layers=1).save(str(still))
    made = settings(query=str(still), max_steps=3, every=1, out=str(tmp_path / "one"))
    train_retriever(made)
    both = changed(made, out=str(tmp_path / "two"))
    assert two_processes(lambda: train_retriever(both)) == [0, 0]
    one, two = (read_json(tmp_path / name / "metrics.json")["history"] for name in ("one", "two"))
    losses = [[row["loss"] for row in history[1:]] for history in (one, two)]
    # The loss of each step shows the weights that the steps before it made.
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert len(set(losses[0])) == 3
