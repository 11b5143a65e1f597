"""Checkpoints that are no encoders, damaged ones, and the Hugging Face Hub without a network."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from transformers import DPRContextEncoder

from rulerag.errors import MissingDependencyError, RetrievalError
from rulerag.retrieval.dense.encoders.load import load_encoder
from tests.retrieval.encoder_checkpoints import TEXTS, bert, dpr, write_model


def config(folder: Path, **values: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "is no encoder \\(LlamaForCausalLM\\)"),
        ({"architectures": ["GPT2LMHeadModel"]}, "is no encoder"),
        ({"architectures": ["T5ForConditionalGeneration"]}, "is no encoder"),
        ({"architectures": ["DPRReader"], "model_type": "dpr"}, "is no encoder"),
        ({"architectures": ["BertForSequenceClassification"]}, "classifier or cross-encoder"),
        ({"architectures": ["BertForQuestionAnswering"]}, "classifier or cross-encoder"),
        ({"model_type": "bart", "is_encoder_decoder": True}, "is a decoder"),
        ({"model_type": "dpr"}, "whether it encodes questions or contexts"),
        ({"model_type": "nonsense"}, "cannot be opened as an encoder"),
    ],
)
def test_what_is_no_encoder_is_told(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=message):
        load_encoder(config(tmp_path / "model", **values))


def test_other_sentence_transformers_are_no_encoders(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]", encoding="utf-8")
    (tmp_path / "config_sentence_transformers.json").write_text(
        '{"model_type": "CrossEncoder"}', encoding="utf-8"
    )
    with pytest.raises(RetrievalError, match="is a CrossEncoder"):
        load_encoder(tmp_path)
    (tmp_path / "config_sentence_transformers.json").unlink()
    with pytest.raises(RetrievalError, match="cannot be opened as an encoder"):
        load_encoder(tmp_path)


def test_weights_of_another_architecture_are_not_made_up(tmp_path: Path) -> None:
    context = write_model(tmp_path / "dpr", dpr(DPRContextEncoder))
    settings = json.loads((context / "config.json").read_text())
    config(context, **{**settings, "architectures": ["DPRQuestionEncoder"]})
    with pytest.raises(RetrievalError, match="weights of the encoder are missing"):
        load_encoder(context)
    bare = write_model(tmp_path / "sup-simcse-x", bert(add_pooling_layer=False))
    with pytest.raises(RetrievalError, match="2 weights of the encoder are missing \\(pooler"):
        load_encoder(bare)
    lost = write_model(tmp_path / "contriever", bert())
    weights = torch.load(lost / "pytorch_model.bin")
    del weights["encoder.layer.1.output.dense.weight"]
    torch.save(weights, lost / "pytorch_model.bin")
    with pytest.raises(RetrievalError, match="1 weights of the encoder are missing"):
        load_encoder(lost)


def test_damaged_checkpoints_are_told(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "contriever", bert())
    (folder / "pytorch_model.bin").write_bytes(b"no weights")
    with pytest.raises(RetrievalError, match="cannot be opened as an encoder"):
        load_encoder(folder)
    (folder / "pytorch_model.bin").unlink()
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(RetrievalError, match="cannot be opened as an encoder"):
        load_encoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RetrievalError, match="cannot be opened as an encoder"):
        load_encoder(folder)
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(RetrievalError, match="the checkpoint is damaged"):
        load_encoder(folder)
    (folder / "config.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(RetrievalError, match="the checkpoint is damaged"):
        load_encoder(folder)


def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "contriever", bert())
    with pytest.raises(RetrievalError, match="device"):
        load_encoder(folder, device="warp-drive")


@pytest.mark.parametrize("name", ["../no/such folder", "./gone", "a/b/c", ".hidden"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(RetrievalError, match="no such folder"):
        load_encoder(name)


def test_a_hub_name_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RetrievalError, match=r"hf download someone/tiny-contriever"):
        load_encoder("someone/tiny-contriever")
    # The layout in which a download leaves a checkpoint.
    kept = tmp_path / "models--someone--tiny-contriever"
    snapshot = write_model(kept / "snapshots" / ("c" * 40), bert(add_pooling_layer=False))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("c" * 40, encoding="utf-8")
    encoder = load_encoder("someone/tiny-contriever")
    assert (encoder.name, encoder.similarity) == ("someone/tiny-contriever", "dot")
    copied = tmp_path / "contriever"
    shutil.copytree(snapshot, copied)
    np.testing.assert_array_equal(encoder.encode(TEXTS), load_encoder(copied).encode(TEXTS))


@pytest.mark.parametrize("module", ["torch", "sentence_transformers"])
def test_missing_libraries_are_told(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[dense\]'"):
        load_encoder("facebook/contriever")
