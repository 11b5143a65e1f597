"""Encoders give what their authors' models give: architectures, pooling, prefixes, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from transformers import AutoTokenizer, DPRContextEncoder, DPRQuestionEncoder, RobertaConfig
from transformers import RobertaModel as Roberta

from rulerag.errors import ConfigError, EmptyDataError, RetrievalError
from rulerag.protocols import Encoder
from rulerag.retrieval.dense.encoders.encoder import SentenceEncoder
from rulerag.retrieval.dense.encoders.load import known_recipe, load_encoder
from tests.retrieval.encoder_checkpoints import (
    SHAPE,
    TEXTS,
    WINDOW,
    bert,
    dpr,
    dpr_pair,
    forward,
    mean_of,
    write_model,
    write_tokenizer,
)

pytestmark = pytest.mark.usefixtures("one_thread")

CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(scope="module")
def contriever(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without a pooler whose architecture says what it is."""
    folder = tmp_path_factory.mktemp("hub") / "some-retriever"
    return write_model(folder, bert(add_pooling_layer=False), architectures=["Contriever"])


# --- architectures ---------------------------------------------------------------------------


@pytest.mark.parametrize("projection", [0, 6])
@pytest.mark.parametrize(
    ("kind", "role"), [(DPRQuestionEncoder, "query"), (DPRContextEncoder, "document")]
)
def test_dpr(kind: type, role: str, projection: int, tmp_path: Path) -> None:
    model = dpr(kind, projection=projection)
    folder = write_model(tmp_path / "dpr", model)
    encoder = load_encoder(folder)
    assert isinstance(encoder, Encoder)
    assert (encoder.role, encoder.similarity, encoder.window) == (role, "dot", WINDOW)
    output, _ = forward(model, folder, TEXTS)
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, projection or 16)
    np.testing.assert_allclose(vectors, output.pooler_output.numpy(), **CLOSE)


def test_simcse_supervised_keeps_its_pooler_and_unsupervised_drops_it(tmp_path: Path) -> None:
    model = bert()
    expected = {}
    for name in ("sup-simcse-bert-base-uncased", "unsup-simcse-bert-base-uncased"):
        folder = write_model(tmp_path / name, model)
        output, _ = forward(model, folder, TEXTS)
        expected = {
            "sup": output.pooler_output.numpy(),
            "unsup": output.last_hidden_state[:, 0].numpy(),
        }
        encoder = load_encoder(folder)
        assert encoder.similarity == "cosine"
        np.testing.assert_allclose(encoder.encode(TEXTS), expected[name.split("-")[0]], **CLOSE)
    assert np.abs(expected["sup"] - expected["unsup"]).max() > 0.1
    told = load_encoder(folder, pooling="pooler", similarity="dot")
    assert told.similarity == "dot"
    np.testing.assert_allclose(told.encode(TEXTS), expected["sup"], **CLOSE)


def test_contriever_is_the_mean_of_the_tokens_without_padding(contriever: Path) -> None:
    output, mask = forward(bert(add_pooling_layer=False), contriever, TEXTS)
    encoder = load_encoder(contriever)
    assert encoder.similarity == "dot"
    expected = mean_of(output.last_hidden_state, mask)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, **CLOSE)


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
    output, mask = forward(model, folder, TEXTS[:3])
    expected = mean_of(output.last_hidden_state, mask)
    np.testing.assert_allclose(encoder.encode(TEXTS[:3]), expected, **CLOSE)
    assert np.isfinite(encoder.encode(["a " * 100])).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("princeton-nlp/sup-simcse-roberta-large", "pooler"),
        ("princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
        ("facebook/contriever-msmarco", "mean"),
        ("facebook/mcontriever", "mean"),
        ("intfloat/multilingual-e5-small", "mean"),
        ("intfloat/e5-mistral-7b-instruct", None),
        ("bert-base-uncased", None),
    ],
)
def test_recipes_by_name(name: str, expected: str | None) -> None:
    recipe = known_recipe(name)
    assert (recipe.pooling if recipe else None) == expected


# --- sentence-transformers -------------------------------------------------------------------


def sentence_transformer(folder: Path, **options: Any) -> Path:
    inner = folder / "inner"
    write_model(inner, bert(add_pooling_layer=False))
    first = Transformer(str(inner))
    model = SentenceTransformer(
        modules=[first, Pooling(16, pooling_mode="max"), Normalize()], device="cpu", **options
    )
    model.save_pretrained(str(folder / "saved"))
    return folder / "saved"


def test_a_sentence_transformers_folder_with_its_own_prompts(tmp_path: Path) -> None:
    prompts = {"query": "a: ", "document": "b: "}
    folder = sentence_transformer(tmp_path, prompts=prompts, similarity_fn_name="dot")
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(folder)
    assert encoder.similarity == "dot"
    queries, documents = encoder.with_role("query"), encoder.with_role("document")
    np.testing.assert_allclose(queries.encode(TEXTS), model.encode_query(TEXTS), **CLOSE)
    np.testing.assert_allclose(documents.encode(TEXTS), model.encode_document(TEXTS), **CLOSE)
    np.testing.assert_allclose(encoder.encode(TEXTS), model.encode(TEXTS), **CLOSE)
    bare = load_encoder(folder, role="query", query_prefix="")
    np.testing.assert_allclose(bare.encode(TEXTS), model.encode(TEXTS), **CLOSE)
    with pytest.raises(ConfigError, match="its own pooling"):
        load_encoder(folder, pooling="cls")


def test_prefixes_of_e5_and_of_the_caller(tmp_path: Path) -> None:
    model = bert()
    folder = write_model(tmp_path / "e5-small-v2", model)
    encoder = load_encoder(folder)
    for role, prefix in (("query", "query: "), ("document", "passage: ")):
        output, mask = forward(model, folder, [prefix + text for text in TEXTS])
        expected = mean_of(output.last_hidden_state, mask)
        np.testing.assert_allclose(encoder.with_role(role).encode(TEXTS), expected, **CLOSE)
    own = load_encoder(folder, role="query", query_prefix="a: ")
    plain = load_encoder(folder, query_prefix="", document_prefix="")
    expected = plain.encode([f"a: {text}" for text in TEXTS])
    np.testing.assert_allclose(own.encode(TEXTS), expected, **CLOSE)


def test_saving_keeps_vectors_prefixes_similarity_and_fingerprint(tmp_path: Path) -> None:
    context, _ = dpr_pair(tmp_path)
    encoder = load_encoder(context, document_prefix="c: ")
    encoder.save(tmp_path / "saved")
    again = load_encoder(tmp_path / "saved", role="document")
    assert (again.similarity, again.prefix, again.window) == ("dot", "c: ", WINDOW)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_models_that_read_more_than_tokens_go_their_own_way(tmp_path: Path) -> None:
    folder = sentence_transformer(tmp_path / "a", prompts={"query": "a: "})
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    torch.manual_seed(3)
    static = StaticEmbedding(tokenizer, embedding_dim=16)
    parts = [SentenceTransformer(str(folder), device="cpu")[i] for i in range(3)]
    router = Router.for_query_document(query_modules=[static], document_modules=parts)
    routed = SentenceTransformer(modules=[router], device="cpu")
    encoder = SentenceEncoder(routed, batch_size=2)
    queries, documents = encoder.with_role("query"), encoder.with_role("document")
    np.testing.assert_allclose(queries.encode(TEXTS), routed.encode_query(TEXTS), **CLOSE)
    np.testing.assert_allclose(documents.encode(TEXTS), routed.encode_document(TEXTS), **CLOSE)
    assert queries.fingerprint != documents.fingerprint
    instructor = SentenceTransformer(str(folder), device="cpu")
    instructor.set_pooling_include_prompt(False)
    asked = SentenceEncoder(instructor, role="query")
    np.testing.assert_allclose(asked.encode(TEXTS), instructor.encode_query(TEXTS), **CLOSE)
    assert np.abs(asked.encode(TEXTS) - load_encoder(folder, role="query").encode(TEXTS)).max() > 0


# --- batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_vectors_come_in_the_order_of_the_texts(contriever: Path, batch_size: int) -> None:
    texts = [TEXTS[i % 4] + " b" * (i % 7) for i in range(30)]
    encoder = load_encoder(contriever, batch_size=batch_size)
    one_by_one = np.concatenate([encoder.encode([text]) for text in texts])
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
    with pytest.raises(ConfigError, match="max_length"):
        load_encoder(contriever, max_length=2)


def test_half_precision_comes_close_and_is_another_encoder(contriever: Path) -> None:
    whole, half = load_encoder(contriever), load_encoder(contriever, dtype="bf16")
    assert half.encode(TEXTS).dtype == np.float32
    np.testing.assert_allclose(half.encode(TEXTS), whole.encode(TEXTS), atol=0.1)
    assert np.abs(half.encode(TEXTS) - whole.encode(TEXTS)).max() > 1e-4
    assert half.fingerprint != whole.fingerprint


def test_the_fingerprint_names_all_that_changes_vectors_and_nothing_else(contriever: Path) -> None:
    encoder = load_encoder(contriever, document_prefix="a: ", batch_size=7)
    name = encoder.fingerprint
    encoder.encode(TEXTS)
    assert encoder.fingerprint == name
    assert load_encoder(contriever, document_prefix="b: ").fingerprint == name
    assert load_encoder(contriever, role="query").fingerprint == name
    others = {
        load_encoder(contriever, role="document", document_prefix="a: ").fingerprint,
        load_encoder(contriever, pooling="cls").fingerprint,
        load_encoder(contriever, max_length=9).fingerprint,
    }
    with torch.no_grad():
        next(encoder.model.parameters()).add_(1e-3)
    assert len({name, encoder.fingerprint, *others}) == 5


def test_the_fingerprint_ignores_a_pooler_that_nobody_reads(tmp_path: Path) -> None:
    folder = sentence_transformer(tmp_path)  # reloaded with a random pooler every time
    torch.manual_seed(1)
    one = load_encoder(folder)
    torch.manual_seed(2)
    assert one.fingerprint == load_encoder(folder).fingerprint


# --- bad input -------------------------------------------------------------------------------


def test_empty_texts_are_named(contriever: Path) -> None:
    with pytest.raises(EmptyDataError, match="text 1 of 2 is empty"):
        load_encoder(contriever).encode(["a", " \n"])


def test_vectors_that_are_no_numbers_are_an_error(contriever: Path) -> None:
    encoder = load_encoder(contriever)
    with torch.no_grad():
        next(encoder.model.parameters()).fill_(float("nan"))
    with pytest.raises(RetrievalError, match="no numbers for 2 of 2 texts, the first is 'a'"):
        encoder.encode(["a", "b"])


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"role": "reader"}, "role"),
        ({"pooling": "median"}, "pooling"),
        ({"similarity": "euclidean"}, "similarity"),
        ({"dtype": "int3"}, "dtype"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_options_out_of_range(contriever: Path, options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        load_encoder(contriever, **options)


def test_an_encoder_of_one_side_does_not_encode_the_other(tmp_path: Path) -> None:
    context, _ = dpr_pair(tmp_path)
    with pytest.raises(RetrievalError, match=r"DPRContextEncoder encodes the document.*question"):
        load_encoder(context, role="query")
    with pytest.raises(ConfigError, match="encodes a document, not a query"):
        load_encoder(context).with_role("query")


def test_the_tokenizer_alone_is_no_checkpoint(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "bare")
    with pytest.raises(RetrievalError, match="holds no encoder"):
        load_encoder(tmp_path / "bare")
