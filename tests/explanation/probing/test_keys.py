"""Keys of answers: 200 random pairs that differ in one thing read get two, all others get one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulerag.composition.registry import names
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.generators import VotingGenerator, reading_of, request_key
from rulerag.explanation.probing.predicates import judged
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.kg.grounding.evidence import EvidenceModel
from rulerag.protocols import Generator
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Document, Fact, GenerationRequest, Query
from tests.fakes import PlantedGenerator

PAIRS = 200
NAMES = ("Norland", "Ostra", "Sudavia", "Velmora", "Ivo Marek", "Ostra Police")
RELATIONS = ("visit", "host", "praise", "arrest", "consult")

Change = Callable[[random.Random, GenerationRequest], GenerationRequest]


def another(chance: random.Random, known: str, names: tuple[str, ...]) -> str:
    return chance.choice([name for name in names if name != known])


def random_rule(chance: random.Random, head: str) -> Rule:
    relations = chance.sample([r for r in RELATIONS if r != head], 2)
    body = tuple(Atom(relation, "?x", "?y") for relation in relations[: chance.randint(1, 2)])
    support = chance.randrange(1, 90)
    quality = RuleQuality(support=support, body_size=100, confidence=support / 100)
    return Rule(Atom(head, "?x", "?y"), body, quality=quality, miner="tlogic")


def random_request(chance: random.Random) -> GenerationRequest:
    subject, relation = chance.choice(NAMES), chance.choice(RELATIONS)
    facts = {
        Fact(*chance.sample(NAMES, 1), chance.choice(RELATIONS), name, chance.randrange(30))
        for name in chance.sample(NAMES, chance.randint(2, 5))
    }
    documents = tuple(
        Document(f"d{n}", f"{f.subject} {f.relation} {f.object} on day {f.timestamp}.", (f,))
        for n, f in enumerate(sorted(facts))
    )
    text = f"what does {subject} {relation} ?"
    query = Query(f"q{chance.random()}", text, subject, relation, 40, answers=("Ostra",))
    rules = dict.fromkeys(random_rule(chance, relation) for _ in range(chance.randint(1, 3)))
    return GenerationRequest(query, documents, tuple(rules))


# --- one thing changed ---------------------------------------------------------------------------


def query_with(**make: Callable[[random.Random, Query], Any]) -> Change:
    def change(chance: random.Random, request: GenerationRequest) -> GenerationRequest:
        values = {key: one(chance, request.query) for key, one in make.items()}
        return replace(request, query=replace(request.query, **values))

    return change


def one_rule(make: Callable[[random.Random, Rule], Rule]) -> Change:
    def change(chance: random.Random, request: GenerationRequest) -> GenerationRequest:
        rules = list(request.rules)
        place = chance.randrange(len(rules))
        rules[place] = make(chance, rules[place])
        return replace(request, rules=tuple(rules))

    return change


def one_document(make: Callable[[random.Random, Document], Document]) -> Change:
    def change(chance: random.Random, request: GenerationRequest) -> GenerationRequest:
        documents = list(request.documents)
        place = chance.randrange(len(documents))
        documents[place] = make(chance, documents[place])
        return replace(request, documents=tuple(documents))

    return change


def quality_with(**values: Any) -> Change:
    return one_rule(lambda chance, rule: replace(rule, quality=replace(rule.quality, **values)))


def fewer(chance: random.Random, request: GenerationRequest) -> GenerationRequest:
    gone = chance.randrange(len(request.documents))
    kept = tuple(d for place, d in enumerate(request.documents) if place != gone)
    return replace(request, documents=kept)


def turned(chance: random.Random, request: GenerationRequest) -> GenerationRequest:
    return replace(request, documents=request.documents[::-1])


UNREAD: dict[str, Change] = {
    "nothing": lambda chance, request: replace(request, query=replace(request.query)),
    "query id": query_with(id=lambda chance, query: f"judge-{chance.random()}"),
    "gold answers": query_with(answers=lambda chance, query: tuple(chance.sample(NAMES, 2))),
    "both": query_with(id=lambda c, q: "x", answers=lambda c, q: ()),
}
TEXTS: dict[str, Change] = {
    "question": query_with(
        text=lambda c, q: q.text.replace(
            f" {q.relation} ", f" {another(c, q.relation, RELATIONS)} "
        )
    ),
    "document's text": one_document(lambda c, d: replace(d, text=f"{d.text[:-1]} {c.random()}.")),
    "documents' order": turned,
    "one document less": fewer,
}
RULES: dict[str, Change] = {
    "rule's words": one_rule(lambda c, rule: replace(rule, text=f"{rule.text} {c.random()}")),
    "one rule less": lambda c, request: replace(request, rules=request.rules[1:]),
}
STRUCTURE: dict[str, Change] = {
    "subject": query_with(subject=lambda c, q: another(c, q.subject, NAMES)),
    "relation": query_with(relation=lambda c, q: another(c, q.relation, RELATIONS)),
    "time": query_with(timestamp=lambda c, q: 41 + c.randrange(30)),
    "fact": one_document(
        lambda c, d: replace(d, facts=(d.facts[0]._replace(object=f"New {c.random()}"),))
    ),
    "document's id": one_document(lambda c, d: replace(d, id=f"other {c.random()}")),
    "body": one_rule(
        lambda c, rule: replace(rule, body=(Atom("seen", "?x", "?y"), *rule.body[1:]))
    ),
    "head": one_rule(lambda c, rule: replace(rule, head=Atom("seen", "?x", "?y"))),
    "confidence": quality_with(confidence=0.955),
    "support": quality_with(support=95),
    "body size": quality_with(body_size=1000),
}


# --- generators, and one setting changed ---------------------------------------------------------


def endpoint(**options: Any) -> OpenAICompatibleGenerator:
    given = {"model": "tiny", "template": "rule-guided", **options}
    return OpenAICompatibleGenerator("http://127.0.0.1:9/v1", **given)


SETTINGS: dict[str, Callable[[], Generator]] = {
    "endpoint's model": lambda: endpoint(model="small"),
    "template": lambda: endpoint(template="few-shot"),
    "length": lambda: endpoint(max_new_tokens=33),
    "decoding": lambda: endpoint(options={"stop": ["."]}),
    "packing": lambda: endpoint(max_prompt_tokens=4000),
    "score": lambda: endpoint(log_probability=True),
    "votes": lambda: VotingGenerator(endpoint(), votes=3),
}
READERS: dict[str, Callable[[], Generator]] = {
    "prior": lambda: SymbolicReader(evidence=EvidenceModel(prior=6.0)),
    "labels": lambda: SymbolicReader(labels={"Ostra": "Republic of Ostra"}),
    "discount": lambda: SymbolicReader(rank_discount=0.5),
    "candidates": lambda: SymbolicReader(max_candidates=3),
}


def key(generator: Generator, request: GenerationRequest) -> str:
    """The key under which a cache holds the answer to the whole request."""
    return request_key(generator.fingerprint, reading_of(generator, request))


def pairs(changes: dict[str, Change]) -> list[tuple[str, GenerationRequest, GenerationRequest]]:
    chance = random.Random("keys")
    made = []
    for number in range(PAIRS):
        name = list(changes)[number % len(changes)]
        request = random_request(chance)
        made.append((name, request, changes[name](chance, request)))
    return made


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (SymbolicReader, {**TEXTS, **RULES, **STRUCTURE}),
        (endpoint, {**TEXTS, **RULES}),
        (lambda: endpoint(template="citation"), {**TEXTS, **RULES}),
        (lambda: endpoint(template="standard"), TEXTS),
        (lambda: VotingGenerator(endpoint(), 3), {**TEXTS, **RULES}),
    ],
)
def test_what_is_read_makes_two_keys(
    make: Callable[[], Generator], read: dict[str, Change]
) -> None:
    generator = make()
    same = {name for name, a, b in pairs(read) if key(generator, a) == key(generator, b)}
    assert same == set()


@pytest.mark.parametrize(
    ("make", "also"),
    [
        (SymbolicReader, {}),
        # A prompt shows no counts, ids and facts: a bank mined again costs no call more.
        (
            endpoint,
            {name: STRUCTURE[name] for name in ("confidence", "support", "fact", "document's id")},
        ),
        (lambda: endpoint(template="standard"), RULES),
    ],
)
def test_what_is_not_read_makes_one_key(
    make: Callable[[], Generator], also: dict[str, Change]
) -> None:
    first, second = make(), make()
    told = pairs({**UNREAD, **also})
    assert {name for name, a, b in told if key(first, a) != key(second, b)} == set()


def test_settings_that_change_answers_make_two_keys() -> None:
    chance = random.Random("settings")
    families = [(SymbolicReader(), READERS), (endpoint(), SETTINGS)]
    made = [(base, [make() for make in changed.values()]) for base, changed in families]
    for number in range(PAIRS):
        base, changed = made[number % 2]
        request = random_request(chance)
        assert key(changed[number // 2 % len(changed)], request) != key(base, request)


@pytest.mark.parametrize("template", names("prompt"))
def test_one_key_is_one_prompt_and_one_way_to_read_the_answer(template: str) -> None:
    """Whatever a template shows: equal keys mean equal prompts, and completions read alike."""
    if template == "plain":
        return
    generator = endpoint(template=template)
    chance = random.Random(template)
    equal = 0
    for _, first, second in pairs({**TEXTS, **RULES, **STRUCTURE, **UNREAD}):
        prompts = [prompt.text for prompt in generator.prompts([first, second])]
        one = key(generator, first) == key(generator, second)
        read_by = [generator.template.read_by(request) for request in (first, second)]
        assert one == (prompts[0] == prompts[1] and read_by[0] == read_by[1])
        if one:
            equal += 1
            subject, thing = chance.sample(NAMES, 2)
            for said in ("> @ visit | Ostra", f"> @ {chance.choice(RELATIONS)} {thing}", subject):
                read = [generator.template.parse(said, request) for request in (first, second)]
                assert read[0] == read[1]
    assert equal >= PAIRS // 5


def test_the_place_in_a_batch_is_not_read(tmp_path: Path) -> None:
    """A judge numbers its questions by their place; the same question has the same verdict."""
    judge = PlantedGenerator(lambda ids: "yes")
    cached = CachedGenerator(judge, AnswerCache(tmp_path / "verdicts.sqlite"))
    predicate = judged(cached, "Is {output} a city?")
    outputs = [f"Town {number}" for number in range(PAIRS)]
    assert all(predicate.many(outputs))
    random.Random("batch").shuffle(outputs)
    assert all(predicate.many(outputs[: PAIRS // 2])) and predicate(outputs[0])
    assert len(judge.requests) == len({request.query.text for request in judge.requests}) == PAIRS


def test_a_key_tells_more_values_apart_than_anybody_asks() -> None:
    assert len(request_key("generator", "reading")) == 40
