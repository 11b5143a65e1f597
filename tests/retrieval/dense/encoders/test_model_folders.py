"""sentence-transformers folders: what their files say is done, as sentence-transformers does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

from rulerag.models import quiet_transformers
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.retrieval.dense.encoders.load import NANO_ENCODER
from rulerag.types import Document, Query
from tests.retrieval.encoder_checkpoints import SHAPE, forward

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = [
    "Time 2014-01-01 Police (Australia) Arrest, detain, or charge with legal action Women.",
    "Iran",
    "what does MALAYSIA Express intent to cooperate ?",
    "South Sudan and Angela Merkel. " * 60,
]
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}
CHAT = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} . {% endfor %}"


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transformer of the encoder that is installed, without what stands behind it."""
    folder = tmp_path_factory.mktemp("nano")
    with quiet_transformers():
        load_encoder(NANO_ENCODER).model[0].save(str(folder))
    return folder


def written(
    folder: Path,
    transformer: Path,
    *more: torch.nn.Module,
    pooling: Any = "mean",
    config: dict[str, Any] | None = None,
) -> Path:
    """A folder of a transformer, pooling and other modules, its configuration changed by hand."""
    first = Transformer(str(transformer))
    pool = Pooling(first.get_embedding_dimension(), pooling_mode=pooling)
    with quiet_transformers():
        SentenceTransformer(modules=[first, pool, *more], device="cpu").save(str(folder))
    path = folder / "config_sentence_transformers.json"
    values = {**json.loads(path.read_text()), "prompts": {}, **(config or {})}
    path.write_text(json.dumps(values), encoding="utf-8")
    return folder


def assert_same(folder: Path, texts: Sequence[str] = TEXTS) -> Any:
    """Our vectors are those of encode_query, encode_document and encode."""
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(folder)
    for role, theirs in (("query", model.encode_query), ("document", model.encode_document)):
        np.testing.assert_allclose(encoder.with_role(role).encode(texts), theirs(texts), **CLOSE)
    np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), **CLOSE)
    assert encoder.similarity == model.similarity_fn_name
    return encoder


# --- prompts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({"prompts": {"query": "query: ", "document": "text: "}}, "query: ", "text: "),
        ({"prompts": {"query": "query: "}}, "query: ", ""),
        ({"prompts": {"document": "text: "}}, "", "text: "),
        ({"prompts": {"query": "q: ", "sts": "s: "}, "default_prompt_name": "sts"}, "q: ", ""),
        ({"prompts": {"clustering": "c: "}, "default_prompt_name": "clustering"}, "", ""),
        ({"prompts": {}, "similarity_fn_name": "dot"}, "", ""),
    ],
)
def test_prompts_go_to_the_side_that_they_are_named_after(
    nano: Path, tmp_path: Path, config: dict[str, Any], query: str, document: str
) -> None:
    encoder = assert_same(written(tmp_path / "model", nano, config=config))
    assert encoder.with_role("query").prefix == query
    assert encoder.with_role("document").prefix == document


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_documents_may_be_called_passages(nano: Path, tmp_path: Path, name: str) -> None:
    config = {"prompts": {"query": "query: ", name: "text: "}}
    folder = written(tmp_path / "model", nano, config=config)
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(folder, role="document")
    assert encoder.prefix == "text: "
    expected = model.encode(TEXTS, prompt_name=name)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, **CLOSE)


def test_nothing_is_said_of_prompts_from_the_folder_to_the_documents_found(
    nano: Path, tmp_path: Path
) -> None:
    config = {"prompts": {"query": "query: ", "passage": "passage: "}}
    folder = written(tmp_path / "model", nano, Normalize(), config=config)
    documents = [Document(f"d{i}", text) for i, text in enumerate(TEXTS)]
    retriever = DenseRetriever(documents, load_encoder(folder), cache=False)
    found = retriever.search([Query("q", "who visits Iran ?")], 4)
    model = SentenceTransformer(str(folder), device="cpu")
    query = model.encode(["who visits Iran ?"], prompt_name="query")[0]
    scores = model.encode(TEXTS, prompt_name="passage") @ query
    assert found.rows[0].tolist() == np.argsort(-scores).tolist()
    np.testing.assert_allclose(found.scores[0], -np.sort(-scores), **CLOSE)


def test_a_prompt_that_pooling_leaves_out(nano: Path, tmp_path: Path) -> None:
    config = {"prompts": {"query": "find what answers: "}}
    folder = written(tmp_path / "model", nano, config=config)
    whole = assert_same(folder).with_role("query").encode(TEXTS)
    path = folder / "1_Pooling" / "config.json"
    values = {**json.loads(path.read_text()), "include_prompt": False}
    path.write_text(json.dumps(values), encoding="utf-8")
    part = assert_same(folder).with_role("query").encode(TEXTS)
    assert np.abs(whole - part).max() > 1e-3


# --- modules -----------------------------------------------------------------------------------

POOLINGS: list[Any] = ["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


@pytest.mark.parametrize("pooling", [*POOLINGS, ("cls", "mean")], ids=str)
def test_pooling_of_every_kind(nano: Path, tmp_path: Path, pooling: Any) -> None:
    assert_same(written(tmp_path / "model", nano, pooling=pooling))


def test_pooling_as_old_folders_write_it(nano: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "model", nano)
    path = folder / "1_Pooling" / "config.json"
    size = json.loads(path.read_text())["embedding_dimension"]
    old = {"word_embedding_dimension": size, "pooling_mode_cls_token": True}
    path.write_text(json.dumps({**old, "pooling_mode_mean_tokens": False}), encoding="utf-8")
    first = assert_same(folder)
    assert np.abs(first.encode(TEXTS) - load_encoder(NANO_ENCODER).encode(TEXTS)).max() > 1e-3


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_dense_layers_and_normalisation(nano: Path, tmp_path: Path, dtype: str) -> None:
    torch.manual_seed(0)
    size = load_encoder(NANO_ENCODER).dimension
    modules = [Dense(size, 24), Dense(24, 20, activation_function=torch.nn.Identity())]
    folder = written(tmp_path / "model", nano, *modules, Normalize())
    encoder = assert_same(folder)
    vectors = load_encoder(folder, dtype=dtype).encode(TEXTS)
    assert vectors.shape == (4, 20)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-2)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=0.05)


def test_vectors_cut_by_the_folder(nano: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "model", nano, Normalize(), config={"truncate_dim": 16})
    assert assert_same(folder).dimension == 16


def test_padding_on_the_left(nano: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "model", nano, pooling="lasttoken")
    path = folder / "tokenizer_config.json"
    values = {**json.loads(path.read_text()), "padding_side": "left"}
    path.write_text(json.dumps(values), encoding="utf-8")
    assert_same(folder)


def test_a_chat_template_is_filled_as_sentence_transformers_does(
    nano: Path, tmp_path: Path
) -> None:
    plain = written(tmp_path / "plain", nano)
    tokenizer = AutoTokenizer.from_pretrained(nano)
    tokenizer.chat_template = CHAT
    first = Transformer(str(nano))
    first.model.save_pretrained(tmp_path / "inner")
    tokenizer.save_pretrained(tmp_path / "inner")
    config = {"prompts": {"query": "find: "}}
    folder = written(tmp_path / "chat", tmp_path / "inner", config=config)
    filled = assert_same(folder).encode(TEXTS)
    assert np.abs(filled - load_encoder(plain).encode(TEXTS)).max() > 1e-3


def test_the_last_token_of_a_decoder_that_is_no_such_folder(nano: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(nano)
    config = LlamaConfig(**{**SHAPE, "vocab_size": len(tokenizer)}, pad_token_id=0)
    model = LlamaModel(config).eval()
    folder = tmp_path / "decoder"
    with quiet_transformers():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    output, mask = forward(model, folder, TEXTS)
    ends = mask.sum(1) - 1
    expected = output.last_hidden_state[torch.arange(len(TEXTS)), ends].numpy()
    encoder = load_encoder(folder, pooling="lasttoken")
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, **CLOSE)


# --- a pretrained model ------------------------------------------------------------------------


@pytest.mark.models
def test_minilm_and_what_is_built_on_it(pretrained: Callable[[str], Path], tmp_path: Path) -> None:
    folder = pretrained("all-minilm-l6-v2")
    assert_same(folder)
    torch.manual_seed(0)
    config = {"prompts": {"query": "query: ", "document": "passage: "}}
    assert_same(written(tmp_path / "model", folder, Dense(384, 64), Normalize(), config=config))
