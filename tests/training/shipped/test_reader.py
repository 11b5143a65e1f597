"""The nano reader: episodes right by construction, tokens of any text, training that resumes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import rulerag
from rulerag.errors import ConfigError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.huggingface.load import NANO_LLAMA, stated_template
from rulerag.generation.prompts.compact_template import CompactTemplate
from rulerag.generation.prompts.template import Citation
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.rules import Atom, Rule
from rulerag.types import Document, GenerationRequest, Query
from training.shipped.reader.batches import IGNORED, encode
from training.shipped.reader.episodes import Stage, make_episode
from training.shipped.reader.make import export
from training.shipped.reader.model import make_reader, tokenizer_texts, train_reader_tokenizer
from training.shipped.reader.names import NameSource, Random
from training.shipped.reader.training import STAGES, ReaderSettings, ReaderTraining

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHIPPED = Path(rulerag.__file__).parent / "models" / "nano-llama"


@pytest.mark.parametrize("stage", STAGES)
def test_the_symbolic_reader_answers_every_episode(stage: Stage) -> None:
    # So steep a discount that the first document that fires decides.
    reader, rng, names = SymbolicReader(rank_discount=40.0), Random(1), NameSource()
    episodes = [make_episode(rng, names, stage) for _ in range(40)]
    said = reader.generate([episode.request for episode in episodes])
    assert [c.text for c in said] == [episode.answer for episode in episodes]
    for episode in episodes:
        alone = [
            GenerationRequest(episode.request.query, (d,), episode.request.rules)
            for d in episode.request.documents
        ]
        assert [bool(c.text) for c in reader.generate(alone)] == list(episode.fires)
        first = episode.request.documents[episode.fires.index(True)]
        said_so = CompactTemplate().completion(
            episode.answer, Citation(*episode.fact, episode.inverse)
        )
        shown = CompactTemplate().line(first, episode.request)
        assert " ".join(CompactTemplate().cited(said_so)) == shown


def test_episodes_are_new_and_depend_on_the_seed_alone() -> None:
    rng = Random(5)
    made = [make_episode(rng, NameSource(), STAGES[-1]) for _ in range(100)]
    assert len({episode.request.query.subject for episode in made}) > 90
    assert make_episode(Random(5), NameSource(), STAGES[-1]) == made[0]


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return train_reader_tokenizer(tokenizer_texts(NameSource(), worlds=20), vocabulary=600)


def small(**changes: Any) -> ReaderTraining:
    settings = ReaderSettings(**{"steps": 20, "rows": 4, **changes})
    model = make_reader(tokenizer(), layers=3)
    return ReaderTraining(model, tokenizer(), NameSource(), settings)


def test_batches_ask_for_completions_and_tell_of_documents() -> None:
    training = small()
    rng = Random(2)
    episodes = [make_episode(rng, training.names, STAGES[3]) for _ in range(5)]
    batch = encode(episodes, training.template, training.tokenizer)
    for row, episode in enumerate(episodes):
        asked = batch.labels[row] != IGNORED
        text = str(training.tokenizer.decode(batch.labels[row][asked], skip_special_tokens=True))
        assert training.template.parse(text) == episode.answer
        ends = batch.places[batch.rows == row].tolist()
        told = batch.signs[batch.rows == row][:, 4].bool().tolist()
        assert len(ends) == len(episode.fires) and told == list(episode.fires)
        before = str(training.tokenizer.decode(batch.ids[row, : ends[0]]))
        shown = training.template.line(episode.request.documents[0], episode.request)
        assert before.endswith(shown)


def test_training_learns_all_but_the_token_vectors() -> None:
    training = small(rows=6)
    before = {k: v.clone() for k, v in training.model.state_dict().items()}
    losses = [training.advance(step)["citing"] for step in range(20)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    after = training.model.state_dict()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same <= {"model.embed_tokens.weight", "lm_head.weight"} and same


def test_a_run_that_stopped_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """A gate that every step opens: the stage that was reached comes back, too."""
    easy = {"steps": 4, "gate": 0.0, "window": 1}
    whole, parts, again = (small(**easy) for _ in range(3))
    whole.run()
    parts.run(tmp_path / "parts.pt", until=2)
    again.run(tmp_path / "parts.pt")
    assert again.curriculum.entered == whole.curriculum.entered == [0, 1, 2, 3]
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    with pytest.raises(ConfigError, match="other settings"):
        small(steps=5).run(tmp_path / "parts.pt")


def test_written_folders_open_and_name_their_prompt(tmp_path: Path) -> None:
    training = small()
    export(training, tmp_path, ["toy"])
    assert stated_template(tmp_path) == {"type": "compact"}
    reader = HuggingFaceGenerator(tmp_path, max_new_tokens=4, local_files_only=True)
    assert isinstance(reader.template, CompactTemplate)
    rng = Random(3)
    episode = make_episode(rng, training.names, STAGES[1])
    [(_, tokens)] = reader.encode([episode.request])
    batch = encode([episode], training.template, training.tokenizer)
    assert tokens.tolist() == batch.ids[0, : int(batch.starts[0]) + 1].tolist()
    assert "invented episodes" in (tmp_path / "README.md").read_text()


def test_every_real_name_and_odd_text_comes_back_whole(
    graph_folder: Callable[[str], Path],
) -> None:
    from transformers import AutoTokenizer

    folder = graph_folder("nell995")
    shipped = AutoTokenizer.from_pretrained(SHIPPED, local_files_only=True)
    texts = []
    for file in ("entity2id.txt", "relation2id.txt"):
        lines = (folder / file).read_text(encoding="utf-8").splitlines()[:5000]
        names = [line.split("\t")[0] for line in lines]
        texts += [f" {form}" for n in names for form in (n, n.replace("_", " "))]
    ids = shipped(texts, add_special_tokens=False)["input_ids"]
    assert shipped.batch_decode(ids) == texts
    for text in (" 北京\u00a0\u200b", " naïve — ½\t€", " <s>", " a  b"):
        ids = tokenizer()(text, add_special_tokens=False)["input_ids"]
        assert tokenizer().decode(ids) == text


def test_the_shipped_reader_reads_a_small_case_offline() -> None:
    head = Atom("Consult", "?x", "?y")
    rules = (
        Rule(head, (Atom("Make_a_visit", "?x", "?y"),)),
        Rule(head, (Atom("Host_a_visit", "?y", "?x"),)),
    )
    documents = (
        Document("a", "Time 2014-03-03 Norland Make a visit Sudavia."),
        Document("b", "Time 2014-03-02 Velmora Criticize Norland."),
        Document("c", "Time 2014-03-01 Sudavia Make a visit Velmora."),
    )
    query = Query("q", "Time 2014-12-01 what does Norland Consult ?", "Norland", "Consult", 8016)
    reader = HuggingFaceGenerator(NANO_LLAMA, local_files_only=True)
    [said] = reader.generate([GenerationRequest(query, documents, rules)])
    assert said.text == "Sudavia"
    size = sum(path.stat().st_size for path in SHIPPED.iterdir())
    assert size < 12_000_000
