"""The transformers reader on tiny checkpoints of eight architectures, against plain passes."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rulerag.errors import GenerationError, RuleRAGError
from rulerag.generation.huggingface.decoding.prefix_tree import Trie, path
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.rules import Atom, Rule
from rulerag.types import Document, GenerationRequest, Query

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "initializer_range": 0.6,  # large, so that answers depend on prompts and are not one token
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=2),
    "mistral": lambda: transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=40
    ),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, num_key_value_heads=2),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=False,
        sliding_window=512,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SIZES),
    "gpt2": lambda: transformers.GPT2Config(**SIZES),
    "mamba": lambda: transformers.MambaConfig(**SIZES),
}
NAMES = ["Norland", "Ostra", "Sudavia", "Velmora", "Ivo Marek", "J. R."]
VISIT = Rule(Atom("visit", "?x", "?y"), (Atom("consult", "?x", "?y"),))
ACCUSE = Rule(Atom("accuse", "?x", "?y"), (Atom("arrest", "?y", "?x"),))
CHAT = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def requests(number: int, *, documents: int = 4, seed: int = 0) -> list[GenerationRequest]:
    chance = random.Random(seed)
    made = []
    for i in range(number):
        found = tuple(
            Document(f"{i}-{d}", f"{chance.choice(NAMES)} consult {chance.choice(NAMES)}.")
            for d in range(chance.randrange(documents + 1))
        )
        relation, rules = chance.choice([("visit", (VISIT,)), ("accuse", (ACCUSE, VISIT))])
        query = Query(f"q{i}", f"what does {chance.choice(NAMES)} {relation} ?")
        made.append(GenerationRequest(query, found, rules))
    return made


def write_tokenizer(folder: Path, *, chat: bool = False) -> transformers.PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=390,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    template = PromptTemplate.rule_guided()
    bpe.train_from_iterator([template.render(r).text for r in requests(50, seed=9)], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    if chat:
        tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with a tiny random checkpoint of each architecture."""
    root = tmp_path_factory.mktemp("checkpoints")
    for name, config in ARCHITECTURES.items():
        torch.manual_seed(3)
        model = transformers.AutoModelForCausalLM.from_config(config())
        model.save_pretrained(root / name)
        write_tokenizer(root / name)
    return root


@pytest.fixture(scope="session")
def llama(checkpoints: Path) -> Path:
    return checkpoints / "llama"


def plain_answers(folder: Path, texts: list[str], new_tokens: int) -> list[tuple[str, float]]:
    """One prompt at a time through transformers' own generation: new text and its score."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    answers = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        output = model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=new_tokens,
            return_dict_in_generate=True,
            output_logits=True,
        )
        new = output.sequences[0, inputs["input_ids"].shape[1] :]
        score, kept = 0.0, []
        for token, logits in zip(new.tolist(), output.logits, strict=True):
            score += torch.log_softmax(logits[0].float(), dim=-1)[token].item()
            if token == tokenizer.eos_token_id:
                break
            kept.append(token)
            if "\n" in tokenizer.decode([token]) and tokenizer.decode(kept).strip():
                break
        answers.append((tokenizer.decode(kept, skip_special_tokens=True), score))
    return answers


def plain_score(reader: HuggingFaceGenerator, prompt: str, text: str) -> float:
    """One forward pass over the whole, without cache, padding or sharing."""
    begin = reader.tokenizer(prompt)["input_ids"]
    end = [*reader.tokenizer(text)["input_ids"], reader.tokenizer.eos_token_id]
    with torch.no_grad():
        logits = reader.model(torch.tensor([begin + end])).logits[0].double()
    chosen = torch.log_softmax(logits, dim=-1)[len(begin) - 1 : -1]
    return float(chosen.gather(1, torch.tensor(end)[:, None]).sum())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_batches_and_shared_beginnings_answer_and_score_as_plain_passes(
    checkpoints: Path, architecture: str
) -> None:
    """Packed where the architecture is known, and padded, as on a GPU."""
    folder = checkpoints / architecture
    asked = requests(8)
    asked += [replace(asked[3], documents=asked[3].documents[n:]) for n in (1, 2)]
    answers = ["Norland", "Ivo Marek", "Ostra", "J. R.", "Sudavia"] * 2
    generator = HuggingFaceGenerator(folder, max_new_tokens=6, device="cpu")
    texts = [prompt.text for prompt in generator.prompts(asked)]
    expected = plain_answers(folder, texts, 6)
    pairs = zip(texts, answers, strict=True)
    scores = [plain_score(generator, text, f" {answer}.") for text, answer in pairs]
    assert len({answer for answer, _ in expected}) > 3, "answers must depend on the prompts"
    parse = generator.template.parse
    for packed, batch_size in ((True, 128), (False, 128), (True, 3), (False, 3)):
        generator = HuggingFaceGenerator(
            folder, max_new_tokens=6, device="cpu", batch_size=batch_size
        )
        if not packed:
            generator._decoders = (None, generator._decoders[1])
        completions = generator.generate(asked)
        assert [c.text for c in completions] == [parse(answer) for answer, _ in expected]
        assert [c.score for c in completions] == pytest.approx([s for _, s in expected], abs=1e-3)
        assert generator.score(asked, answers) == pytest.approx(scores, abs=2e-3)
    assert generator.score([], []).shape == (0,)


@pytest.mark.parametrize("way", [0, 1], ids=["packed", "padded"])
def test_what_rows_share_is_read_once(
    llama: Path, monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    reader = HuggingFaceGenerator(llama, max_new_tokens=1, device="cpu")
    read: list[int] = []
    forward = reader.model.forward

    def counting(input_ids: torch.Tensor, **arguments: object) -> object:
        read.append(input_ids.numel())
        return forward(input_ids=input_ids, **arguments)

    monkeypatch.setattr(reader.model, "forward", counting)
    ((prompt, tokens),) = reader.encode(requests(1))
    ends = [reader.encode_completion(prompt.text, f" Norland {n}.") for n in range(20)]
    whole = [np.concatenate([tokens, end]) for end in ends]
    most = len(tokens) + 20 * (2 + max(map(len, ends)))
    decoder = reader._decoders[way]
    assert decoder is not None
    decoder.score(whole, [len(tokens)] * 20, reader._limits)
    assert sum(read) < most
    read.clear()
    decoder.generate(whole, reader._limits, lambda _: None)
    assert sum(read) < most
    assert reader.model.config._attn_implementation == "sdpa", "attention is given back"


@pytest.mark.parametrize("seed", range(2))
def test_every_shared_beginning_stands_once_in_the_tree(seed: int) -> None:
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
        assert all(a.end == b.begin for a, b in zip(path(leaf), path(leaf)[1:], strict=False))
    nodes = {id(node): node for leaf in trie.leaves for node in path(leaf)}
    computed = sum(len(node.tokens) for node in nodes.values())
    assert computed < sum(map(len, sequences)) / 3
    groups = trie.groups(7, 100_000, 5)
    assert [leaf for group in groups for leaf in group] == trie.leaves
    assert max(map(len, groups)) == 7


def test_a_text_is_scored_up_to_its_end_as_it_was_written(llama: Path) -> None:
    reader = HuggingFaceGenerator(llama, max_new_tokens=6, device="cpu")
    asked = requests(8)
    tokens = [ids for _, ids in reader.encode(asked)]
    for n, written in enumerate(reader._decode(tokens)):
        whole = np.concatenate([tokens[n], np.array([*written.tokens, 1])])
        limits = reader._limits
        (score,) = reader._decoder(len(whole)).score([whole], [len(tokens[n])], limits)
        # What ended by itself, before the last token that was allowed.
        if len(written.tokens) < 6 and "\n" not in reader.tokenizer.decode(written.tokens):
            assert score == pytest.approx(written.log_probability, abs=1e-3)
        else:
            assert score < written.log_probability
    (prompt,) = reader.prompts(asked[:1])
    for text, ended in ((" Ostra.\n", False), (" Ostra.", True), ("\n", True)):
        assert (reader.encode_completion(prompt.text, text)[-1] == 1) == ended, repr(text)


def test_scores_of_citations_and_what_cannot_be_scored(llama: Path) -> None:
    reader = HuggingFaceGenerator(llama, device="cpu")
    citing = HuggingFaceGenerator(llama, device="cpu", template="citation")
    for score, message in (
        (lambda: reader.score(requests(2), ["x"]), "1 answers for 2 requests"),
        (lambda: reader.score(requests(1), ["Norland " * 1000]), "the model reads 1024"),
        (lambda: citing.score(requests(1), ["Norland"]), "supporting fact"),
    ):
        with pytest.raises(RuleRAGError, match=message):
            score()
    (score,) = citing.score(requests(1), ["Ostra"], facts=[("Norland", "Consult")])
    (literal,) = citing.score(requests(1), [" Norland | Consult | Ostra."], literal=True)
    assert score == literal


def test_long_prompts_lose_their_last_documents_and_say_so(
    llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    generator = HuggingFaceGenerator(llama, max_new_tokens=4, device="cpu", template="standard")
    documents = tuple(Document(f"d{i}", f"Norland consult Ostra {i}.") for i in range(200))
    request = GenerationRequest(Query("q", "what does Norland visit ?"), documents)
    (prompt,) = generator.prompts([request])
    assert prompt.kept == tuple(d.id for d in documents[: len(prompt.kept)])
    assert prompt.kept + prompt.dropped == tuple(d.id for d in documents)
    size = len(generator.tokenizer(prompt.text)["input_ids"])
    one_more = len(generator.tokenizer(documents[0].text + "\n")["input_ids"])
    assert 1024 - 4 - 2 * one_more < size <= 1024 - 4
    with caplog.at_level(logging.WARNING):
        generator.generate([request])
    assert "1 of 1 prompts are over 1020 tokens" in caplog.text
    tight = HuggingFaceGenerator(llama, template="rule-guided", max_input_tokens=30, device="cpu")
    with pytest.raises(GenerationError, match="without any document, and 30 fit"):
        tight.generate(requests(1))


def test_the_chat_template_is_used_where_there_is_one(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path, dirs_exist_ok=True)
    write_tokenizer(tmp_path, chat=True)
    asked = requests(5)
    chat = HuggingFaceGenerator(tmp_path, max_new_tokens=6, device="cpu")
    texts = [f"<s><|user|>{p.text}<|assistant|>" for p in chat.prompts(asked)]
    expected = [chat.template.parse(a) for a, _ in plain_answers(tmp_path, texts, 6)]
    assert [c.text for c in chat.generate(asked)] == expected
    without = HuggingFaceGenerator(tmp_path, max_new_tokens=6, device="cpu", chat=False)
    assert [c.text for c in without.generate(asked)] != expected
    assert chat.fingerprint != without.fingerprint


def test_an_answer_may_be_empty_and_scores_must_be_numbers(llama: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    model = transformers.AutoModelForCausalLM.from_pretrained(llama)
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head.zero_()  # every token is equally likely, and the first is the end
    model.generation_config.eos_token_id = [0, 1]
    generator = HuggingFaceGenerator(model, tokenizer=tokenizer, device="cpu")
    (completion,) = generator.generate(requests(1))
    assert completion.text == ""
    assert completion.score == pytest.approx(-torch.tensor(400.0).log().item())
    with torch.no_grad():
        head.fill_(float("nan"))
    with pytest.raises(GenerationError, match="not numbers"):
        generator.generate(requests(1))


# --- LoRA --------------------------------------------------------------------------------------


def write_adapter(base: Path, folder: Path) -> None:
    peft = pytest.importorskip("peft")
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"])
    torch.manual_seed(5)
    adapted = peft.get_peft_model(model, config)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=1.0)
    adapted.save_pretrained(folder)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT on transformers 5.23
def test_an_adapter_changes_answers_as_peft_does(llama: Path, tmp_path: Path) -> None:
    write_adapter(llama, tmp_path)
    asked = requests(6)
    adapted = HuggingFaceGenerator(llama, adapter=tmp_path, max_new_tokens=6, device="cpu")
    base = HuggingFaceGenerator(llama, max_new_tokens=6, device="cpu")
    assert adapted.fingerprint != base.fingerprint
    answers = [c.text for c in adapted.generate(asked)]
    assert answers != [c.text for c in base.generate(asked)]
    by_folder = HuggingFaceGenerator(
        tmp_path, tokenizer=llama, max_new_tokens=6, device="cpu"
    ).generate(asked)
    assert [c.text for c in by_folder] == answers


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT on transformers 5.23
def test_what_cannot_be_opened_is_named(llama: Path, checkpoints: Path, tmp_path: Path) -> None:
    write_adapter(llama, tmp_path / "adapter")
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        shutil.copy(llama / name, folder / name)

    def refused(message: str, model: Path | str, **options: Any) -> None:
        with pytest.raises(RuleRAGError, match=message):
            HuggingFaceGenerator(model, **{"device": "cpu", **options})

    adapter = tmp_path / "adapter"
    refused(r"does not fit .* take the base", checkpoints / "gpt_neox", adapter=adapter)
    refused("holds no adapter", llama, adapter=checkpoints / "qwen2")
    refused("no adapter folder", llama, adapter=tmp_path / "no" / "where")
    refused(r"tokenizer.* save it there", folder)
    HuggingFaceGenerator(folder, tokenizer=llama, device="cpu")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    refused(r"\d weights of the model .* are missing", folder, tokenizer=llama)
    (folder / "model.safetensors").unlink()
    refused("cannot be opened", folder, tokenizer=llama)
    (folder / "config.json").write_text(json.dumps({"model_type": "dpr"}))
    refused("cannot be opened", folder, tokenizer=llama)
    (folder / "config.json").unlink()
    refused(r"no config\.json", folder)
    refused("there is no model folder", folder / "missing")
    refused(r"nobody/nothing.*give a folder", "nobody/nothing", local_files_only=True)
    refused("no chat template", llama, chat=True)
    refused("leave no room", llama, max_new_tokens=1024)
    refused("key 'answers': what cites names other", llama, template="citation", answers="named")
    for key, value in {
        "max_new_tokens": 0,
        "batch_size": 0,
        "dtype": "float64",
        "quantization": "2bit",
        "device": "abacus",
        "template": "haiku",
        "answers": "best",
    }.items():
        refused(key, llama, **{key: value})


def test_a_tokenizer_that_does_not_fit_is_named(
    llama: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(llama, tmp_path, dirs_exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    tokenizer.add_tokens([f"<new {i}>" for i in range(20)])
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(GenerationError, match=r"up to number 4\d\d, .* knows 400"):
        HuggingFaceGenerator(tmp_path, device="cpu")
    model = transformers.AutoModelForCausalLM.from_pretrained(llama)
    HuggingFaceGenerator(model, tokenizer=llama)
    assert "is it the model's own" not in caplog.text
    model.resize_token_embeddings(500, mean_resizing=False)
    HuggingFaceGenerator(model, tokenizer=llama)
    assert "has 390 tokens" in caplog.text and "knows 500: is it the model's own?" in caplog.text
