"""GGUF files: what they hold comes back, and what is wrong with one is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rulerag.errors import DataError, DataFormatError, OutputError
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import read_json
from rulerag.models import SOURCE, gguf_info, opened_gguf, save_gguf
from rulerag.types import GenerationRequest, Query
from tests.models.gguf import write_gguf


def test_the_head_says_what_it_is(gguf_file: Path, tiny: Path) -> None:
    about = gguf_info(gguf_file)
    assert (about["architecture"], about["name"], about["context"]) == ("llama", "tiny", 256)
    assert (about["quantization"], about["chat_template"]) == ("F32", False)
    model = AutoModelForCausalLM.from_pretrained(tiny)
    assert about["parameters"] == sum(weights.numel() for weights in model.parameters())


def test_the_folder_computes_what_the_model_did(
    gguf_file: Path, tiny: Path, tmp_path: Path
) -> None:
    folder = save_gguf(gguf_file, tmp_path / "out")
    stated = read_json(folder / SOURCE)
    assert (stated["file"], stated["dequantised"]) == ("tiny.gguf", "float32 from F32")
    one, other = (AutoModelForCausalLM.from_pretrained(place) for place in (tiny, folder))
    words, again = (AutoTokenizer.from_pretrained(place) for place in (tiny, folder))
    tokens = words("the cat sat, naïve", return_tensors="pt")["input_ids"]
    assert again("the cat sat, naïve")["input_ids"] == tokens[0].tolist()
    with torch.no_grad():
        assert torch.allclose(one(tokens).logits, other(tokens).logits, atol=1e-5)


def test_a_generator_opens_it_by_path_and_keeps_what_it_read(gguf_file: Path, tiny: Path) -> None:
    request = GenerationRequest(Query("q", "who ?", "the cat"), (), ())
    made = HuggingFaceGenerator(gguf_file, template="plain", max_new_tokens=5)
    plain = HuggingFaceGenerator(tiny, template="plain", max_new_tokens=5)
    assert made.write([request]) == plain.write([request])
    home = opened_gguf(gguf_file)
    state = (home / "model.safetensors").stat()
    assert HuggingFaceGenerator(str(gguf_file), template="plain").fingerprint
    assert (home / "model.safetensors").stat().st_mtime_ns == state.st_mtime_ns


def test_what_is_wrong_with_a_file(gguf_file: Path, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.gguf: cannot be read \(No such file"):
        opened_gguf(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("not weights")
    with pytest.raises(DataFormatError, match=r"text\.gguf: is no GGUF file"):
        gguf_info(tmp_path / "text.gguf")
    for part in (0.01, 0.3, 0.9):
        torn = tmp_path / "torn.gguf"
        data = gguf_file.read_bytes()
        torn.write_bytes(data[: int(len(data) * part)])
        with pytest.raises(DataFormatError, match=r"torn\.gguf: cannot be read .* fetch it again"):
            save_gguf(torn, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    strange = write_gguf(tiny, tmp_path / "strange.gguf", architecture="grok")
    with pytest.raises(DataFormatError, match="architecture 'grok' cannot be opened"):
        save_gguf(strange, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_a_full_disk(gguf_file: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot be written .*No space left"):
        save_gguf(gguf_file, tmp_path / "out")
