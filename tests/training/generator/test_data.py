"""What generators are trained on: pairs of F_G, labels on the answer alone, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.speed.generation import small_llama
from rulerag.composition.config import load_config
from rulerag.errors import ConfigError, EmptyDataError, GenerationError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.compact_template import CompactTemplate
from rulerag.generation.prompts.template import Citation, PromptTemplate
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, GenerationRequest, Query
from tests.training.conftest import changed
from training.generator.data import make_instructions, supporting_fact, tuning_queries
from training.generator.model import IGNORED, adapter_config, tokenized
from training.generator.settings import GeneratorSettings
from training.retriever.settings import RetrieverSettings

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "training"


@pytest.fixture
def settings(make: Callable[..., GeneratorSettings]) -> GeneratorSettings:
    return make(base="none", top_k=3, samples=20, tuning_share=0.2, max_queries=0)


def test_pairs_are_drawn_by_seed_and_tuning_queries_are_never_trained_on(
    settings: GeneratorSettings, world_dataset: RuleQADataset
) -> None:
    made = make_instructions(settings, world_dataset)
    asked = {query.id: query for query in world_dataset.query_set("f_g")}
    trained = {example.request.query.id for example in made.examples}
    tuned = {request.query.id for request in made.tuning}
    assert len(made.examples) == 20 and len(tuned) == round(0.2 * len(asked))
    assert not trained & tuned and trained | tuned <= set(asked)
    for example in made.examples:
        assert example.answer in asked[example.request.query.id].answers
        assert len(example.request.documents) == 3
    assert make_instructions(settings, world_dataset) == made
    other = make_instructions(changed(settings, seed=1), world_dataset)
    assert [e.request.query.id for e in other.examples] != [
        e.request.query.id for e in made.examples
    ]
    whole = make_instructions(changed(settings, samples=0), world_dataset)
    assert len(whole.examples) == sum(len(q.answers) for i, q in asked.items() if i not in tuned)
    assert {query.id for query in tuning_queries(settings, world_dataset)} == tuned
    few = [query.id for query in tuning_queries(changed(settings, max_queries=3), world_dataset)]
    assert len(few) == 3 and set(few) <= tuned


def test_ssft_sees_no_rule_in_retrieval_and_prompt(
    settings: GeneratorSettings, world_dataset: RuleQADataset
) -> None:
    guided = make_instructions(settings, world_dataset)
    plain = make_instructions(changed(settings, method="ssft"), world_dataset)
    assert all(example.request.rules for example in guided.examples)
    assert not any(example.request.rules for example in plain.examples)
    pairs = list(zip(guided.examples, plain.examples, strict=True))
    assert all(a.request.query == b.request.query and a.answer == b.answer for a, b in pairs)
    assert any(a.request.documents != b.request.documents for a, b in pairs)
    assert not changed(settings, method="ssft").prompts.rules


def test_only_the_answer_carries_loss(
    settings: GeneratorSettings, world_dataset: RuleQADataset
) -> None:
    made = make_instructions(settings, world_dataset)
    model, tokenizer = small_llama([document.text for document in world_dataset.corpus])
    reader = HuggingFaceGenerator(model, tokenizer=tokenizer, max_input_tokens=368, device="cpu")
    rows = tokenized(reader, made.examples, 400)
    for example, row in zip(made.examples, rows, strict=True):
        (prompt,) = reader.prompts([example.request])
        begin = tokenizer(prompt.text)["input_ids"]
        answer = tokenizer(f" {example.answer}.")["input_ids"] + [tokenizer.eos_token_id]
        assert row["input_ids"] == begin + answer
        assert row["labels"] == [IGNORED] * len(begin) + answer
    with pytest.raises(GenerationError, match=r"raise training\.max_length"):
        tokenized(reader, made.examples, len(rows[0]["input_ids"]) - 1)


def test_a_citation_names_the_fact_that_a_rule_leads_from() -> None:
    rule = Rule(Atom("visit", "?x", "?y"), (Atom("host", "?y", "?x"),))
    facts = (Fact("B", "consult", "A", 1), Fact("C", "host", "A", 2))
    documents = tuple(Document(f"d{i}", "text", (fact,)) for i, fact in enumerate(facts))
    request = GenerationRequest(Query("q", "?", "A", "visit", 5), documents, (rule,))
    labels = {"entities": {"A": "Ada", "C": "Cy"}, "relations": {"host": "be host of"}}
    assert supporting_fact(request, "Cy", labels) == Citation("Ada", "be host of", inverse=True)
    stated = Citation("Ada", "consult", inverse=True)
    assert supporting_fact(request, "B", labels) == stated, "no rule leads there"
    assert supporting_fact(replace(request, rules=()), "B", labels) == stated
    assert supporting_fact(request, "nobody", labels) is None


def test_a_citation_of_a_chain_names_the_bridge() -> None:
    rule = Rule(
        Atom("live in", "?x", "?y"), (Atom("born in", "?x", "?z"), Atom("lies in", "?z", "?y"))
    )
    direct = Rule(Atom("live in", "?x", "?y"), (Atom("vote in", "?x", "?y"),))
    facts = (Fact("Ulm", "lies in", "DE"), Fact("A", "born in", "Ulm"), Fact("A", "vote in", "DE"))
    documents = tuple(Document(f"d{i}", "text", (fact,)) for i, fact in enumerate(facts))
    request = GenerationRequest(Query("q", "?", "A", "live in"), documents, (direct, rule))
    cited = supporting_fact(request, "DE", {})
    assert cited == Citation("A", "vote in"), "the subject's own first"
    assert CompactTemplate().completion("DE", cited) == " > @ vote in | DE"
    cited = supporting_fact(replace(request, rules=(rule,)), "DE", {})
    assert cited == Citation("Ulm", "lies in", bridge=True), "the rule leads there"
    assert CompactTemplate().completion("DE", cited) == " > Ulm lies in | DE"


def test_citing_keeps_supported_answers_only(
    settings: GeneratorSettings, world_dataset: RuleQADataset
) -> None:
    whole = make_instructions(settings, world_dataset)
    cited = make_instructions(settings, world_dataset, cited=True)
    assert len(cited.examples) + cited.uncited == len(whole.examples)
    assert cited.examples and all(example.fact for example in cited.examples)
    plain = make_instructions(changed(settings, method="ssft"), world_dataset, cited=True)
    for example in plain.examples:
        words = " ".join(document.text for document in example.request.documents)
        assert example.answer in words and isinstance(example.fact, Citation)
    with pytest.raises(EmptyDataError, match="nothing to train on"):
        make_instructions(changed(settings, top_k=1, samples=1, seed=3), world_dataset, cited=True)


def test_a_folder_is_the_same_however_it_is_spelled(
    settings: GeneratorSettings, world_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = {"path": str(world_folder)}
    near = RetrieverSettings(dataset=dataset, model={"query": "q"}, out="a")
    monkeypatch.chdir(world_folder.parent)
    spelled = [f"./{world_folder.name}/", world_folder.name]
    assert {changed(settings, path=path).fingerprint for path in spelled} == {settings.fingerprint}
    assert {changed(near, path=path).fingerprint for path in spelled} == {near.fingerprint}
    assert changed(near, out="b", device="cpu").fingerprint == near.fingerprint
    assert changed(near, path="elsewhere").fingerprint != near.fingerprint
    assert changed(near, seed=1).fingerprint != near.fingerprint
    found = {"type": "dense", "encoder": "a"}
    assert changed(settings, retriever=found).fingerprint != settings.fingerprint


def test_cases_are_drawn_from_the_split_and_stand_in_neither_part(
    settings: GeneratorSettings, world_dataset: RuleQADataset
) -> None:
    made = make_instructions(changed(settings, shots=3), world_dataset)
    asked = {query.text: query for query in world_dataset.query_set("f_g")}
    shown = [asked[case.query] for case in made.cases]
    assert len({query.id for query in shown}) == 3
    for case, query in zip(made.cases, shown, strict=True):
        assert case.answer in query.answers and len(case.documents) == 3 and case.rules
    read = {example.request.query.id for example in made.examples}
    read |= {request.query.id for request in made.tuning}
    assert not read & {query.id for query in shown}, "no prompt shows its own answer"
    assert make_instructions(changed(settings, shots=3), world_dataset) == made
    other = make_instructions(changed(settings, shots=3, seed=1), world_dataset)
    assert [case.query for case in other.cases] != [case.query for case in made.cases]
    plain = make_instructions(settings, world_dataset)
    assert not plain.cases and plain.tuning == made.tuning
    ssft = make_instructions(changed(settings, shots=3, method="ssft"), world_dataset)
    assert len(ssft.cases) == 3 and not any(case.rules for case in ssft.cases)
    cited = make_instructions(changed(settings, shots=2), world_dataset, cited=True)
    assert len(cited.cases) == 2 and all(case.fact for case in cited.cases)
    with pytest.raises(ConfigError, match=r"data\.shots"):
        changed(settings, shots=3, template="compact")
    with pytest.raises(EmptyDataError, match="leaves nothing"):
        make_instructions(changed(settings, shots=10_000), world_dataset)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("llama2-7b", (3e-4, 8, 32, 5, 8)),
        ("llama2-13b", (3e-4, 16, 32, 10, 4)),
        ("mistral-7b", (3e-5, 4, 16, 5, 8)),
        ("chatglm2-6b", (3e-5, 4, 16, 5, 8)),
    ],
)
def test_the_papers_settings_are_those_of_table_7(name: str, table: tuple[float, ...]) -> None:
    made = GeneratorSettings.load(CONFIGS / f"generator-{name}.yaml")
    training, adapter = made.training, made.lora
    rates = (training.learning_rate, adapter.rank, adapter.alpha)
    assert (*rates, training.warmup_steps, training.batch_size) == table
    fixed = (adapter.dropout, training.epochs, made.validation.every * training.epochs)
    assert (*fixed, training.max_length, made.data.samples) == (0.05, 50, 3, 5120, 2048)
    lora = adapter_config(made)
    assert lora.target_modules == {"q_proj", "v_proj"} and lora.r == made.lora.rank
    assert (made.model.quantization, made.data.shots) == ("4bit", 3)
    assert isinstance(made.prompts, PromptTemplate) and made.prompts.order == "paper"
    guided = made.finding.to_dict()["retriever"]
    trained = load_config(CONFIGS / "rgft-ruleqa-i.yaml")
    assert guided["retriever"] == {"type": "dense", "encoder": trained["out"]}, "RGFT's"
    assert (guided["type"], guided["compose"]) == ("guided", "append")
    assert not guided["include_plain"] and (guided["per_rule_k"], made.top_k) == (10, 10)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("method=rgtf", "data.method"),
        ("lora.targets=[lm_head]", "lora.targets"),
        ("lora.rank=0", "model.quantization"),
        ("lora.merged=true", "lora.merged"),
        ("batch_size=0", "training.batch_size"),
        ("training.learnin_rate=1", "learnin_rate"),
        ("tuning_share=1", "data.tuning_share"),
        ("shots=-1", "data.shots"),
        ("device=cuda:1", "device"),
        ("model.template=guided", "template"),
    ],
)
def test_bad_settings_are_named(override: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        _ = GeneratorSettings.load(CONFIGS / "generator-llama2-7b.yaml", [override]).prompts
