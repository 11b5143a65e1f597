"""Models that compare: the installed encoder, a cross-encoder made here, and what is neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer, util
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from rulerag.errors import DataError, ExplanationError
from rulerag.explanation.similarity import cosines, similarity_attribution
from rulerag.models import SHIPPED, known_models, model_folder

ANSWER = "Paris is the capital of France. It rains."
DOCUMENTS = ["The capital of France is Paris. Lyon is a city.", "It rains in Paris."]


def cross_encoder(folder: Path, labels: int) -> Path:
    """A random cross-encoder: no one ships a small one."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] paris capital france rains lyon city".split()  # noqa: SIM905
    folder.mkdir()
    (folder / "words.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(words),
        intermediate_size=32,
        num_labels=labels,
        initializer_range=1.0,
        **shape,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "words.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("models") / "reranker", 1)


def test_the_installed_encoder_gives_the_cosines_of_sentence_transformers() -> None:
    found = similarity_attribution(ANSWER, DOCUMENTS, "bi-encoder")
    assert found.scorer == f"bi-encoder:{SHIPPED[0]}"
    model = SentenceTransformer(str(model_folder(SHIPPED[0])))
    texts = [[one.text for one in part] for part in (found.sentences, found.sources)]
    expected = util.cos_sim(*(model.encode(part) for part in texts)).numpy()
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    again = similarity_attribution(ANSWER, DOCUMENTS, model)
    np.testing.assert_allclose(again.scores, found.scores, atol=1e-6)
    assert cosines(np.zeros((1, 3)), np.ones((1, 3))).tolist() == [[0.0]]


def test_a_cross_encoder_reads_pairs_and_gives_what_its_last_layer_says(reranker: Path) -> None:
    found = similarity_attribution(ANSWER, DOCUMENTS, f"cross-encoder:{reranker}")
    model = CrossEncoder(str(reranker))
    pairs = [(a.text, s.text) for a in found.sentences for s in found.sources]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(2, 3)
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    assert found.temperature == 1
    opened = similarity_attribution(ANSWER, DOCUMENTS, model)
    assert opened.scorer == "cross-encoder:CrossEncoder"
    flat = model.predict(pairs).reshape(2, 3)  # an open model keeps its own sigmoid
    np.testing.assert_allclose(opened.scores, flat, atol=1e-6)


def test_a_model_of_another_kind_is_refused_by_name(reranker: Path, tmp_path: Path) -> None:
    for name, told in (
        (f"cross-encoder:{SHIPPED[0]}", "is no cross-encoder but BertModel"),
        (f"cross-encoder:{cross_encoder(tmp_path / 'nli', 3)}", "but a classifier of 3 labels"),
        (f"bi-encoder:{reranker}", "reads two texts together — it is a cross-encoder:"),
        (f"bi-encoder:{tmp_path}", "cannot be opened as a bi-encoder"),
    ):
        with pytest.raises(ExplanationError, match=told):
            similarity_attribution(ANSWER, DOCUMENTS, name)


def test_a_model_that_was_not_fetched_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path))
    name = "all-minilm-l6-v2"
    assert name in known_models()
    with pytest.raises(DataError, match=f"rulerag models fetch {name}"):
        similarity_attribution(ANSWER, DOCUMENTS, f"bi-encoder:{name}")
