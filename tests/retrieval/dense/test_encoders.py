"""Encoders give what their authors' models give: architectures, folders, prefixes, bad input."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from transformers import (
    AutoTokenizer,
    DPRContextEncoder,
    DPRQuestionEncoder,
    RobertaConfig,
    RobertaModel as Roberta,
)

from rulerag.errors import ConfigError, EmptyDataError, MissingDependencyError, RetrievalError
from rulerag.models import quiet_transformers
from rulerag.protocols import Encoder
from rulerag.retrieval.dense.encoders import NANO_ENCODER, SentenceEncoder, load_encoder
from rulerag.retrieval.dense.encoders.load import known_recipe
from tests.retrieval.dense.checkpoints import (
    SHAPE,
    TEXTS,
    WINDOW,
    bert,
    dpr,
    dpr_pair,
    forward,
    write_model,
)

pytestmark = pytest.mark.usefixtures("one_thread")

CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(scope="module")
def contriever(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without a pooler whose architecture says what it is."""
    folder = tmp_path_factory.mktemp("hub") / "some-retriever"
    return write_model(folder, bert(add_pooling_layer=False), architectures=["Contriever"])


# --- checkpoints of transformers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "role", "projection"),
    [(DPRQuestionEncoder, "query", 0), (DPRContextEncoder, "document", 6)],
)
def test_dpr(kind: type, role: str, projection: int, tmp_path: Path) -> None:
    model = dpr(kind, projection=projection)
    folder = write_model(tmp_path / "dpr", model)
    encoder = load_encoder(folder)
    assert isinstance(encoder, Encoder)
    assert (encoder.role, encoder.similarity, encoder.window) == (role, "dot", WINDOW)
    vectors = encoder.encode(TEXTS)
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, projection or 16))
    output, _ = forward(model, folder, TEXTS)
    np.testing.assert_allclose(vectors, output.pooler_output.numpy(), **CLOSE)


def test_simcse_contriever_and_e5_by_their_names(tmp_path: Path, contriever: Path) -> None:
    model = bert()
    names = "sup-simcse-bert-base-uncased", "unsup-simcse-bert-base-uncased", "e5-small-v2"
    folders = [write_model(tmp_path / name, model) for name in names]
    output, _ = forward(model, folders[0], TEXTS)
    pooled, first = output.pooler_output.numpy(), output.last_hidden_state[:, 0].numpy()
    assert np.abs(pooled - first).max() > 0.1
    for folder, expected in zip(folders, (pooled, first), strict=False):
        encoder = load_encoder(folder)
        assert encoder.similarity == "cosine"
        np.testing.assert_allclose(encoder.encode(TEXTS), expected, **CLOSE)
    stated = load_encoder(folders[1], pooling="pooler", similarity="dot")
    assert stated.similarity == "dot"
    np.testing.assert_allclose(stated.encode(TEXTS), pooled, **CLOSE)
    e5 = load_encoder(folders[2])
    for role, prefix in (("query", "query: "), ("document", "passage: ")):
        _, mean = forward(model, folders[2], [prefix + text for text in TEXTS])
        np.testing.assert_allclose(e5.with_role(role).encode(TEXTS), mean, **CLOSE)
    own = load_encoder(folders[2], role="query", query_prefix="a: ")
    plain = load_encoder(folders[2], query_prefix="", document_prefix="")
    expected = plain.encode([f"a: {text}" for text in TEXTS])
    np.testing.assert_allclose(own.encode(TEXTS), expected, **CLOSE)
    bare = load_encoder(contriever)
    _, mean = forward(bert(add_pooling_layer=False), contriever, TEXTS)
    assert bare.similarity == "dot"
    np.testing.assert_allclose(bare.encode(TEXTS), mean, **CLOSE)


def test_another_model_is_pooled_by_the_mean_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    shape = {**SHAPE, "max_position_embeddings": WINDOW + 2, "pad_token_id": 0}
    model = Roberta(RobertaConfig(**shape)).eval()
    folder = write_model(tmp_path / "robin", model)
    # A tokenizer without a limit of its own; RoBERTa's positions begin after the padding's.
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": true}', encoding="utf-8"
    )
    encoder = load_encoder(folder)
    assert "mean of its tokens" in caplog.text
    assert encoder.window == WINDOW + 1
    _, mean = forward(model, folder, TEXTS[:3])
    np.testing.assert_allclose(encoder.encode(TEXTS[:3]), mean, **CLOSE)
    assert np.isfinite(encoder.encode(["a " * 100])).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("princeton-nlp/sup-simcse-roberta-large", "pooler"),
        ("princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
        ("facebook/mcontriever", "mean"),
        ("intfloat/multilingual-e5-small", "mean"),
        ("intfloat/e5-mistral-7b-instruct", None),
        ("bert-base-uncased", None),
    ],
)
def test_recipes_by_name(name: str, expected: str | None) -> None:
    recipe = known_recipe(name)
    assert (recipe.pooling if recipe else None) == expected


# --- folders of sentence-transformers ----------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a transformer, pooling, a dense layer and normalisation, without prompts."""
    place = tmp_path_factory.mktemp("saved")
    first = Transformer(str(write_model(place / "inner", bert(add_pooling_layer=False))))
    torch.manual_seed(0)
    modules = [first, Pooling(16, pooling_mode="max"), Dense(16, 12), Normalize()]
    with quiet_transformers():
        SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(place / "model"))
    return place / "model"


def changed(saved: Path, folder: Path, **config: Any) -> Path:
    """A copy of a folder whose configuration is changed by hand."""
    shutil.copytree(saved, folder)
    path = folder / "config_sentence_transformers.json"
    values = {**json.loads(path.read_text()), "prompts": {}, **config}
    path.write_text(json.dumps(values), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({"prompts": {"query": "a: ", "document": "b: "}}, "a: ", "b: "),
        ({"prompts": {"query": "a: "}, "similarity_fn_name": "dot"}, "a: ", ""),
        ({"prompts": {"query": "a: ", "sts": "b: "}, "default_prompt_name": "sts"}, "a: ", ""),
        ({"truncate_dim": 8}, "", ""),
    ],
)
def test_what_a_folder_says_is_done(
    saved: Path, tmp_path: Path, config: dict[str, Any], query: str, document: str
) -> None:
    folder = changed(saved, tmp_path / "model", **config)
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(folder)
    assert encoder.similarity == model.similarity_fn_name
    assert encoder.dimension == config.get("truncate_dim", 12)
    for role, prefix, theirs in (
        ("query", query, model.encode_query),
        ("document", document, model.encode_document),
        ("both", encoder.prefix, model.encode),
    ):
        side = encoder.with_role(role)
        assert side.prefix == prefix
        np.testing.assert_allclose(side.encode(TEXTS), theirs(TEXTS), **CLOSE)


def test_documents_may_be_called_passages_and_prefixes_may_be_ours(
    saved: Path, tmp_path: Path
) -> None:
    folder = changed(saved, tmp_path / "model", prompts={"query": "a: ", "passage": "b: "})
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(folder, role="document")
    assert encoder.prefix == "b: "
    expected = model.encode(TEXTS, prompt_name="passage")
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, **CLOSE)
    bare = load_encoder(folder, role="query", query_prefix="")
    np.testing.assert_allclose(bare.encode(TEXTS), model.encode(TEXTS), **CLOSE)
    with pytest.raises(ConfigError, match="its own pooling"):
        load_encoder(folder, pooling="cls")


def test_models_of_two_ways_and_instructions_that_pooling_leaves_out(saved: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(saved).backend_tokenizer
    torch.manual_seed(3)
    static = StaticEmbedding(tokenizer, embedding_dim=12)
    parts = list(SentenceTransformer(str(saved), device="cpu"))
    router = Router.for_query_document(query_modules=[static], document_modules=parts)
    routed = SentenceTransformer(modules=[router], device="cpu")
    encoder = SentenceEncoder(routed, batch_size=2)
    queries, documents = encoder.with_role("query"), encoder.with_role("document")
    np.testing.assert_allclose(queries.encode(TEXTS), routed.encode_query(TEXTS), **CLOSE)
    np.testing.assert_allclose(documents.encode(TEXTS), routed.encode_document(TEXTS), **CLOSE)
    assert queries.fingerprint != documents.fingerprint
    instructor = SentenceTransformer(str(saved), device="cpu", prompts={"query": "a: "})
    instructor.set_pooling_include_prompt(False)
    asked = SentenceEncoder(instructor, role="query")
    np.testing.assert_allclose(asked.encode(TEXTS), instructor.encode_query(TEXTS), **CLOSE)


def test_saving_keeps_vectors_prefixes_similarity_and_fingerprint(tmp_path: Path) -> None:
    context, _ = dpr_pair(tmp_path)
    encoder = load_encoder(context, document_prefix="c: ")
    encoder.save(tmp_path / "saved")
    again = load_encoder(tmp_path / "saved", role="document")
    assert (again.similarity, again.prefix, again.window) == ("dot", "c: ", WINDOW)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.models
def test_minilm(pretrained: Callable[[str], Path]) -> None:
    folder = pretrained("all-minilm-l6-v2")
    texts = ["Iran", "what does MALAYSIA visit ?", "South Sudan and Angela Merkel. " * 60]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(load_encoder(folder).encode(texts), expected, rtol=0, atol=1e-5)


# --- batches, windows, names -------------------------------------------------------------------


def test_batches_keep_the_order_of_the_texts(contriever: Path) -> None:
    texts = [TEXTS[i % 4] + " b" * (i % 7) for i in range(30)]
    one_by_one = load_encoder(contriever, batch_size=1).encode(texts)
    encoder = load_encoder(contriever, batch_size=7)
    np.testing.assert_allclose(encoder.encode(texts), one_by_one, **CLOSE)
    assert encoder.encode([]).shape == (0, 16)


def test_texts_beyond_the_window_are_counted_and_told(
    contriever: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = load_encoder(contriever)
    encoder.encode(TEXTS)
    assert encoder.truncated == 1
    assert f"{WINDOW} tokens of a text: 1 of 4 texts are longer" in caplog.text
    encoder.encode(TEXTS[:3])
    assert encoder.truncated == 0
    short = load_encoder(contriever, max_length=4)
    short.encode(TEXTS)
    assert (short.window, short.truncated) == (4, 3)


def test_the_fingerprint_names_all_that_changes_vectors_and_nothing_else(
    contriever: Path, saved: Path
) -> None:
    encoder = load_encoder(contriever, document_prefix="a: ", batch_size=7)
    name = encoder.fingerprint
    encoder.encode(TEXTS)
    assert encoder.fingerprint == name
    assert load_encoder(contriever, role="query").fingerprint == name
    half = load_encoder(contriever, dtype="bf16")
    np.testing.assert_allclose(half.encode(TEXTS), encoder.encode(TEXTS), atol=0.1)
    others = {
        half.fingerprint,
        load_encoder(contriever, role="document", document_prefix="a: ").fingerprint,
        load_encoder(contriever, pooling="cls").fingerprint,
        load_encoder(contriever, max_length=9).fingerprint,
    }
    with torch.no_grad():
        next(encoder.model.parameters()).add_(1e-3)
    assert len({name, encoder.fingerprint, *others}) == 6
    # Reloaded with a random pooler every time, which nobody reads.
    assert load_encoder(saved).fingerprint == load_encoder(saved).fingerprint
    with torch.no_grad():
        next(encoder.model.parameters()).fill_(float("nan"))
    with pytest.raises(RetrievalError, match="no numbers for 2 of 2 texts, the first is 'a'"):
        encoder.encode(["a", "b"])


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("role", "reader"),
        ("pooling", "median"),
        ("similarity", "euclidean"),
        ("dtype", "int3"),
        ("batch_size", 0),
        ("max_length", 2),
    ],
)
def test_options_out_of_range(contriever: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        load_encoder(contriever, **{key: value})


def test_empty_texts_devices_and_sides(contriever: Path, tmp_path: Path) -> None:
    with pytest.raises(EmptyDataError, match="text 1 of 2 is empty"):
        load_encoder(contriever).encode(["a", " \n"])
    with pytest.raises(RetrievalError, match="device"):
        load_encoder(contriever, device="warp-drive")
    context, _ = dpr_pair(tmp_path)
    with pytest.raises(RetrievalError, match=r"DPRContextEncoder encodes the document.*question"):
        load_encoder(context, role="query")
    with pytest.raises(ConfigError, match="encodes a document, not a query"):
        load_encoder(context).with_role("query")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": '{"architectures": ["LlamaForCausalLM"]}'}, "no encoder .LlamaForC"),
        ({"config.json": '{"architectures": ["GPT2LMHeadModel"]}'}, "is no encoder"),
        ({"config.json": '{"architectures": ["DPRReader"], "model_type": "dpr"}'}, "is no enc"),
        ({"config.json": '{"architectures": ["BertForQuestionAnswering"]}'}, "is a classifier"),
        ({"config.json": '{"model_type": "bart", "is_encoder_decoder": true}'}, "is a decoder"),
        ({"config.json": '{"model_type": "dpr"}'}, "whether it encodes questions or contexts"),
        ({"config.json": '{"model_type": "x"}'}, "cannot be opened as an encoder"),
        ({"config.json": "{"}, "the checkpoint is damaged"),
        ({"config.json": "[1]"}, "the checkpoint is damaged"),
        ({"vocab.txt": "a"}, "holds no encoder"),
        ({"modules.json": "[]"}, "cannot be opened as an encoder"),
        (
            {
                "modules.json": "[]",
                "config_sentence_transformers.json": '{"model_type": "CrossEncoder"}',
            },
            "is a CrossEncoder",
        ),
    ],
)
def test_what_is_no_encoder_is_told(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(RetrievalError, match=message):
        load_encoder(tmp_path)


def test_weights_that_are_missing_or_damaged_are_not_made_up(tmp_path: Path) -> None:
    context = write_model(tmp_path / "dpr", dpr(DPRContextEncoder))
    values = json.loads((context / "config.json").read_text())
    (context / "config.json").write_text(
        json.dumps({**values, "architectures": ["DPRQuestionEncoder"]})
    )
    bare = write_model(tmp_path / "sup-simcse-x", bert(add_pooling_layer=False))
    lost, damaged = (write_model(tmp_path / f"contriever-{n}", bert()) for n in "ab")
    weights = torch.load(lost / "pytorch_model.bin")
    del weights["encoder.layer.1.output.dense.weight"]
    torch.save(weights, lost / "pytorch_model.bin")
    (damaged / "pytorch_model.bin").write_bytes(b"no weights")
    for folder, message in (
        (context, "weights of the encoder are missing"),
        (bare, r"2 weights of the encoder are missing \(pooler"),
        (lost, "1 weights of the encoder are missing"),
        (damaged, "cannot be opened as an encoder"),
    ):
        with pytest.raises(RetrievalError, match=message):
            load_encoder(folder)


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
    write_model(kept / "snapshots" / ("c" * 40), bert(add_pooling_layer=False))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("c" * 40, encoding="utf-8")
    encoder = load_encoder("someone/tiny-contriever")
    assert (encoder.name, encoder.similarity) == ("someone/tiny-contriever", "dot")


@pytest.mark.parametrize("module", ["torch", "sentence_transformers"])
def test_missing_libraries_are_told(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[dense\]'"):
        load_encoder(NANO_ENCODER)
