"""Runs of the retriever's training: what they write, that they resume, stop and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import read_json
from rulerag.retrieval.dense.encoders.load import load_encoder
from rulerag.retrieval.dense.retriever import open_dense
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import changed, weights
from training.retriever.run import main, train_retriever
from training.retriever.settings import RetrieverSettings

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # accelerate's, on torch 2.13
ROOT = Path(__file__).resolve().parents[3]
Make = Callable[..., RetrieverSettings]
Two = Callable[[Callable[[], object]], list[int | None]]


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_training_learns_and_writes_two_encoders_that_open_as_one(
    settings: Make, encoder_folder: Path, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    made = settings(max_steps=60, every=20, batch_size=16, learning_rate=3e-3, epochs=50)
    metrics = train_retriever(made)
    assert [row["step"] for row in metrics["history"]] == [0, 20, 40, 60] and metrics["steps"] == 60
    losses = [row["loss"] for row in metrics["history"][1:]]
    assert losses[-1] < 0.7 * losses[0]
    name = made.validation.metric
    assert metrics["best"][name] == max(row[name] for row in metrics["history"])
    assert metrics["best"][name] > metrics["before"][name]

    out = Path(made.out)
    assert_equal(weights(out / "document_encoder"), weights(encoder_folder))
    matrix = np.load(next((tmp_path / "cache").rglob("*.npy")))
    documents = load_encoder(encoder_folder, role="document", device="cpu")
    texts = [document.text for document in world_dataset.corpus[:20]]
    np.testing.assert_allclose(matrix[:20], documents.encode(texts), atol=1e-5)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: sentence-transformers")
    assert "RGFT" in card and world_dataset.fingerprint in card

    corpus, queries = world_dataset.corpus[:50], world_dataset.query_set("full")[:5]
    one = open_dense(corpus, encoder=made.out)
    both = open_dense(corpus, encoder=encoder_folder, query_encoder=made.out)
    plain = open_dense(corpus, encoder=encoder_folder)
    assert one.retrieve(queries, 5) == both.retrieve(queries, 5) != plain.retrieve(queries, 5)


@pytest.mark.slow  # it starts processes that train
def test_passes_and_processes_share_a_step_and_give_its_update(
    settings: Make, still_encoder: Path, tmp_path: Path, two_processes: Two
) -> None:
    """Every query meets the documents of the whole step, wherever it is read."""
    made = settings(query=str(still_encoder), max_steps=3, every=1, extra_negatives=5)
    one = train_retriever(made)
    passes = changed(made, accumulation=4, out=str(tmp_path / "passes"))
    both = changed(made, accumulation=2, out=str(tmp_path / "both"))
    assert two_processes(lambda: train_retriever(both)) == [0, 0]
    for other in (train_retriever(passes), read_json(tmp_path / "both" / "metrics.json")):
        for row, same in zip(one["history"], other["history"], strict=True):
            assert same == pytest.approx(row, rel=1e-3)
    for name, tensor in weights(made.out).items():
        # Adam turns the rounding of a gradient near zero into a part of a step of 1e-3.
        torch.testing.assert_close(weights(passes.out)[name], tensor, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(weights(both.out)[name], tensor, rtol=1e-3, atol=1e-4)
    with pytest.raises(ConfigError, match="cannot be shared by 1 processes with 3 passes"):
        train_retriever(changed(made, accumulation=3, out=str(tmp_path / "three")))


@pytest.mark.slow  # two trainings
def test_bf16_on_the_cpu_follows_fp32_and_keeps_float32(settings: Make, tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        made = settings(precision=precision, max_steps=8, every=4, out=str(tmp_path / precision))
        losses[precision] = [row["loss"] for row in train_retriever(made)["history"][1:]]
        kept = {w.dtype for w in weights(made.out).values() if w.is_floating_point()}
        assert kept == {torch.float32}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.05)
    assert losses["bf16"] != losses["fp32"], "another arithmetic"


def test_the_command_trains_by_a_file_and_changes_of_it(
    settings: Make, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = settings()
    file = tmp_path / "run.yaml"
    file.write_text(
        f"""extends: {ROOT / "configs/training/rgft-ruleqa-i.yaml"}
dataset: {{path: {made.dataset.path}}}
model: {{query: {encoder_folder}, document: null}}
training: {{learning_rate: 1.0e-3, batch_size: 8, max_steps: 2, extra_negatives: 4}}
validation: {{every: 1}}
out: {tmp_path / "out"}
device: cpu
""",
        encoding="utf-8",
    )
    for change, named in (
        ("method=rgtf", "data.method"),
        ("+data.num_queries=-1", "data.num_queries"),
        ("temperature=0", "temperature"),
        ("training.learnin_rate=1", "learnin_rate"),
        ("metric=mrr", "metric"),
        ("dataset.path=nowhere", "nowhere"),
    ):
        assert main([str(file), change, f"out={tmp_path / 'refused'}"]) == 2
        message = capsys.readouterr().err
        assert named in message and "Traceback" not in message
    assert main([str(file), "method=ssft"]) == 0
    written = capsys.readouterr().out
    assert "step 1: loss " in written and "answer_recall@10: " in written
    metrics = read_json(tmp_path / "out" / "metrics.json")
    assert metrics["method"] == "ssft" and metrics["steps"] == 2
    with pytest.raises(RetrievalError, match="holds no encoder"):
        train_retriever(settings(query=made.dataset.path, out=str(tmp_path / "other")))


def test_the_papers_settings_are_the_defaults() -> None:
    made = RetrieverSettings.load(ROOT / "configs" / "training" / "rgft-ruleqa-i.yaml")
    training = made.training
    assert (training.learning_rate, training.batch_size, training.temperature) == (1e-5, 32, 0.01)
    model = {"query": made.model.query, "document": made.model.document}
    plain = RetrieverSettings(dataset={"path": made.dataset.path}, model=model, out=made.out)
    assert made.model_dump() == plain.model_dump()
