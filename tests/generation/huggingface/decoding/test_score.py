"""Shared beginnings as a tree, and the log-probability of given answers, against plain passes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from benchmarks.speed.generation import requests, small_llama
from rulerag.errors import ConfigError, GenerationError
from rulerag.generation.huggingface.decoding.prefix_tree import Trie, path
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {
    "vocab_size": 2048,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "initializer_range": 0.6,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=2),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES,
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=512,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SIZES),
    "window": lambda: transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=40),
}


@pytest.fixture(scope="module")
def tokenizer() -> transformers.PreTrainedTokenizerFast:
    return small_llama([PromptTemplate().render(r).text for r in requests(40)])[1]


def generator(
    kind: str, tokenizer: transformers.PreTrainedTokenizerFast, **options: object
) -> HuggingFaceGenerator:
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(MODELS[kind]())
    settings = {"tokenizer": tokenizer, "device": "cpu", "max_new_tokens": 6, **options}
    return HuggingFaceGenerator(model, **settings)  # type: ignore[arg-type]


def plain_score(reader: HuggingFaceGenerator, prompt: str, text: str) -> float:
    """One forward pass over the whole, without cache, padding or sharing."""
    begin = reader.tokenizer(prompt)["input_ids"]
    end = [*reader.tokenizer(text)["input_ids"], reader.tokenizer.eos_token_id]
    with torch.no_grad():
        logits = reader.model(torch.tensor([begin + end])).logits[0].double()
    chosen = torch.log_softmax(logits, dim=-1)[len(begin) - 1 : -1]
    return float(chosen.gather(1, torch.tensor(end)[:, None]).sum())


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("packed", [True, False])
def test_scores_are_those_of_plain_passes(
    kind: str, packed: bool, tokenizer: transformers.PreTrainedTokenizerFast
) -> None:
    asked = requests(3)
    asked += [replace(asked[0], documents=asked[0].documents[n:]) for n in (1, 4, 10)]
    answers = ["Norland", "Citizen (Sudavia)", "Ostra"]
    pairs = [(request, answer) for request in asked for answer in answers]
    for batch_size in (7, 1):
        reader = generator(kind, tokenizer, batch_size=batch_size)
        if not packed:  # as on a GPU
            reader._decoders = (None, reader._decoders[1])
        texts = [prompt.text for prompt in reader.prompts([request for request, _ in pairs])]
        expected = [
            plain_score(reader, text, f" {answer}.")
            for text, (_, answer) in zip(texts, pairs, strict=True)
        ]
        scores = reader.score([r for r, _ in pairs], [a for _, a in pairs])
        np.testing.assert_allclose(scores, expected, atol=2e-3)
    assert reader.score([], []).shape == (0,)


def test_padded_rows_read_what_they_share_once(
    tokenizer: transformers.PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = generator("llama", tokenizer)
    read: list[int] = []
    forward = reader.model.forward

    def counting(input_ids: torch.Tensor, **arguments: object) -> object:
        read.append(input_ids.numel())
        return forward(input_ids=input_ids, **arguments)

    monkeypatch.setattr(reader.model, "forward", counting)
    (tokens,) = [ids for _, ids in reader.encode(requests(1))]
    ends = [reader.encode_completion("", f" Norland {n}.") for n in range(20)]
    whole = [np.concatenate([tokens, end]) for end in ends]
    reader._decoders[1].score(whole, [len(tokens)] * 20, reader._limits)
    assert sum(read) < len(tokens) + 20 * (2 + max(map(len, ends)))


def test_the_score_of_an_answer_is_that_of_writing_it(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    reader = generator("llama", tokenizer)
    asked = requests(8)
    tokens = [ids for _, ids in reader.encode(asked)]
    decoded = reader._decode(tokens)
    # What ended by itself, before the last token that was allowed.
    ended = [n for n, d in enumerate(decoded) if len(d.tokens) < reader.settings.max_new_tokens]
    for n, result in enumerate(decoded):
        whole = np.concatenate([tokens[n], np.array([*result.tokens, 1])])
        limits = reader._limits
        (score,) = reader._decoder(len(whole)).score([whole], [len(tokens[n])], limits)
        if n in ended:
            assert score == pytest.approx(result.log_probability, abs=1e-3)
        else:
            assert score < result.log_probability


def test_bad_requests_are_named(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    reader = generator("llama", tokenizer)
    with pytest.raises(GenerationError, match="1 answers for 2 requests"):
        reader.score(requests(2), ["x"])
    with pytest.raises(GenerationError, match="the model reads 1024"):
        reader.score(requests(1), ["Norland " * 1000])
    citing = generator("llama", tokenizer, template="citation")
    with pytest.raises(ConfigError, match="supporting fact"):
        citing.score(requests(1), ["Norland"])
    fact = ("Norland", "Consult")
    (score,) = citing.score(requests(1), ["Ostra"], facts=[fact])
    (literal,) = citing.score(requests(1), [" Norland | Consult | Ostra."], literal=True)
    assert score == literal


@pytest.mark.parametrize("seed", range(4))
def test_every_shared_beginning_is_computed_once(seed: int) -> None:
    chance = random.Random(seed)
    base = [np.array([chance.randrange(3) for _ in range(60)]) for _ in range(3)]
    sequences = []
    for _ in range(40):
        parts = [part for part in base if chance.random() < 0.6]
        parts.append(np.array([chance.randrange(2) for _ in range(chance.randint(1, 4))]))
        sequences.append(np.concatenate(parts))
    trie = Trie(sequences)
    assert sorted(trie.order) == list(range(40))
    for leaf in trie.leaves:
        whole = np.concatenate([node.tokens for node in path(leaf)])
        assert whole.tolist() == sequences[trie.order[leaf.first]].tolist()
        assert path(leaf)[0].begin == 0
        assert all(a.end == b.begin for a, b in zip(path(leaf), path(leaf)[1:], strict=False))
    nodes = {id(node): node for leaf in trie.leaves for node in path(leaf)}
    computed = sum(len(node.tokens) for node in nodes.values())
    assert computed < sum(map(len, sequences)) / 3
    groups = trie.groups(7, 100_000, 5)
    assert [leaf for group in groups for leaf in group] == trie.leaves
    assert max(map(len, groups)) == 7
    small = trie.groups(7, 100, 5)
    assert all(
        len(g) == 1 or len(g) * (5 + max(len(leaf.tokens) for leaf in g)) <= 100 for g in small
    )


def test_attention_is_given_back(
    tokenizer: transformers.PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    reader = generator("llama", tokenizer)
    before = reader.model.config._attn_implementation
    reader.generate(requests(2))
    assert reader.model.config._attn_implementation == before
    ids = torch.tensor([reader.tokenizer("Time 2014")["input_ids"]])
    assert torch.isfinite(reader.model(ids).logits).all()


def test_what_ends_with_its_line_is_scored_up_to_there(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    reader = generator("llama", tokenizer)
    (tokens,) = [ids for _, ids in reader.encode(requests(1))]
    (prompt,) = reader.prompts(requests(1))
    line = reader.encode_completion(prompt.text, " Ostra.\n")
    assert reader.tokenizer.eos_token_id not in line.tolist()
    assert reader.encode_completion(prompt.text, " Ostra.")[-1] == reader.tokenizer.eos_token_id
    assert reader.encode_completion(prompt.text, "\n")[-1] == reader.tokenizer.eos_token_id
    (score,) = reader.score(requests(1), [" Ostra.\n"], literal=True)
    whole = torch.tensor(np.concatenate([tokens, line]))[None]
    with torch.inference_mode():
        logs = torch.log_softmax(reader.model(whole).logits[0].float(), dim=-1)
    told = sum(float(logs[len(tokens) + n - 1, token]) for n, token in enumerate(line.tolist()))
    assert score == pytest.approx(told, abs=1e-3)
