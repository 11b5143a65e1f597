"""Real pretrained models, as anyone gets them with ``rulerag models fetch``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.models import gguf_info
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.types import Document, GenerationRequest, Query

pytestmark = pytest.mark.models


def test_minilm_knows_what_is_alike(pretrained: Callable[[str], Path]) -> None:
    encoder = load_encoder(pretrained("all-minilm-l6-v2"))
    texts = ["A man eats bread.", "Someone is eating food.", "The stock market fell sharply."]
    vectors = encoder.encode(texts)
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.6 > 0.2 > far
    theirs = SentenceTransformer(str(pretrained("all-minilm-l6-v2"))).encode(texts)
    assert np.allclose(vectors, theirs, atol=1e-6)  # what the layers' other product may round


def test_smollm_answers_from_a_document(pretrained: Callable[[str], Path]) -> None:
    folder = pretrained("smollm2-135m-instruct")
    about = gguf_info(folder / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert (about["architecture"], about["quantization"]) == ("llama", "Q4_1")
    assert about["chat_template"] and about["parameters"] == 134_515_008
    generator = HuggingFaceGenerator(folder, template="rule-guided", max_new_tokens=12)
    assert generator.chat
    document = Document("d", "The capital of France is Paris.")
    query = Query("q", "What is the capital of France?", "France", "capital")
    (said,) = generator.write([GenerationRequest(query, (document,), ())])
    assert "Paris" in said
