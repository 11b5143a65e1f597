"""What every component of a family does, whoever wrote it: one contract a family.

``CONTRACTS[family](make)`` takes a function that builds the component from settings (those it
needs are there already), and a :class:`Ground` to try it on. A plug-in can run them on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from rulerag import (
    AmieMiner,
    Completion,
    Document,
    GenerationRequest,
    HeadRelationSelector,
    PromptTemplate,
    Query,
    Rule,
    RuleBank,
    ScoredDocument,
    TLogicMiner,
    Verbalizer,
    World,
    queries_from_facts,
)
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Names
from rulerag.errors import ConfigError
from rulerag.explanation.probing import ProbeEngine
from rulerag.protocols import ScoredCandidates

Make = Callable[[], Any]


@dataclass(frozen=True)
class Ground:
    """A small world of one kind: facts, their documents, rules and questions."""

    world: World

    @cached_property
    def corpus(self) -> list[Document]:
        """A document for each training fact."""
        return list(Verbalizer(self.world.graph).corpus(self.world.graph.train))

    @cached_property
    def facts(self) -> CorpusFacts:
        """What its documents state."""
        return CorpusFacts(self.corpus)

    @cached_property
    def bank(self) -> RuleBank:
        """Rules of one body atom."""
        facts = self.world.graph.train
        if self.world.graph.is_temporal:
            return TLogicMiner(lengths=(1,), min_support=3).mine(facts)
        return AmieMiner(max_atoms=2, min_head_size=1).mine(facts)

    @cached_property
    def queries(self) -> list[Query]:
        """Questions about test facts."""
        words = Verbalizer(self.world.graph)
        return queries_from_facts(self.world.graph.test, words, "q")[:6]

    @cached_property
    def requests(self) -> list[GenerationRequest]:
        """The questions with guiding rules, and documents that speak of their subjects."""
        rules = HeadRelationSelector(self.bank, max_rules=3).select(self.queries)
        return [
            GenerationRequest(query, tuple(self._about(query)), tuple(guides))
            for query, guides in zip(self.queries, rules, strict=True)
        ]

    def _about(self, query: Query) -> list[Document]:
        return [d for d in self.corpus if query.subject in (d.facts[0].subject, d.facts[0].object)][
            :5
        ]


def miner(make: Make, ground: Ground) -> None:
    """Rules of the graph's own relations, the same ones each time."""
    facts = ground.world.graph.train
    bank = make().mine(facts)
    assert isinstance(bank, RuleBank)
    assert {rule.head.relation for rule in bank} <= {fact.relation for fact in facts}
    assert make().mine(facts).fingerprint == bank.fingerprint


def selector(make: Make, ground: Ground) -> None:
    """One list a query, of rules of the bank; the same each time."""
    chosen: list[list[Rule]] = make().select(ground.queries)
    assert len(chosen) == len(ground.queries) and any(chosen)
    assert {rule.id for rules in chosen for rule in rules} <= {rule.id for rule in ground.bank}
    assert make().select(ground.queries) == chosen and make().select([]) == []


def evidence(make: Make, ground: Ground) -> None:
    """Rules weigh something, no more than all there is, and age never adds to it."""
    model = make()
    for rule in ground.bank:
        assert 0 <= model.confidence(rule) <= 1
        assert (
            0
            <= model.weight(rule, 50, 10)
            <= model.weight(rule, 50, 49)
            <= model.weight(rule, 50, 50)
        )
    assert model.settings() == make().settings()


def retriever(make: Make, ground: Ground) -> None:
    """One ranked list a query, of documents of the corpus, at most k, the same each time."""
    made = make()
    found: list[list[ScoredDocument]] = made.retrieve(ground.queries, 4)
    assert len(found) == len(ground.queries)
    known = {document.id: document for document in ground.corpus}
    for listed in found:
        assert len(listed) <= 4
        assert [scored.rank for scored in listed] == list(range(1, len(listed) + 1))
        assert all(known[scored.document.id] == scored.document for scored in listed)
        assert len({scored.document.id for scored in listed}) == len(listed)
    again = make()
    assert again.fingerprint == made.fingerprint and made.fingerprint
    assert ids(again.retrieve(ground.queries, 4)) == ids(found)
    assert ids(made.retrieve(ground.queries[::-1], 4)) == ids(found)[::-1]
    assert made.retrieve([], 4) == []
    with pytest.raises(ConfigError, match="top_k"):
        made.retrieve(ground.queries, 0)


def scorer(make: Make, ground: Ground) -> None:
    """One list a query, of entities of the graph, descending; each is explained by its facts."""
    made = make()
    scored: list[ScoredCandidates] = made.score(ground.queries)
    # Names of the generated world share no word, so like names cannot vote there.
    assert len(scored) == len(ground.queries)
    assert any(len(one) for one in scored) or isinstance(made, Names)
    documents = {document.id: document for document in ground.corpus}
    for one in scored:
        assert set(one.entities) <= set(made.names) and len(set(one.entities)) == len(one)
        assert (one.score > 0).all() and (np.diff(one.score) <= 0).all()
        for reason in one.support(0) if len(one) else ():
            assert reason.scorer and reason.why
            told = [fact for name in reason.document_ids for fact in documents[name].facts]
            assert reason.facts and set(reason.facts) <= set(told)
            assert any(one.entities[0] in (fact.subject, fact.object) for fact in reason.facts)
    again = make()
    assert again.fingerprint == made.fingerprint and made.fingerprint
    assert [one.entities for one in again.score(ground.queries)] == [o.entities for o in scored]
    backwards = made.score(ground.queries[::-1])
    assert [one.entities for one in backwards][::-1] == [one.entities for one in scored]
    assert made.score([]) == []
    assert made.over(ground.facts).score([]) == []


def ids(found: Sequence[Sequence[ScoredDocument]]) -> list[list[str]]:
    """What was found, by name."""
    return [[scored.document.id for scored in listed] for listed in found]


def generator(make: Make, ground: Ground) -> None:
    """One completion a request, in order, the same each time; ids and gold answers do not count."""
    made = make()
    told: list[Completion] = made.generate(ground.requests)
    assert len(told) == len(ground.requests)
    assert all(isinstance(completion, Completion) for completion in told)
    assert made.fingerprint and make().fingerprint == made.fingerprint
    texts = [completion.text for completion in told]
    assert [one.text for one in made.generate(ground.requests[::-1])] == texts[::-1]
    assert made.generate([]) == []


def prompt(make: Make, ground: Ground) -> None:
    """The relation that is asked for stands in the text, and every document adds to it."""
    template = PromptTemplate.of(make())
    for request in ground.requests:
        text = template.render(request).text
        assert request.query.relation_words in text
        shorter = replace(request, documents=request.documents[1:])
        assert not request.documents or len(template.render(shorter).text) < len(text)


def explainer(make: Make, ground: Ground) -> None:
    """One value a source, the same each time; what decides the answer counts most."""
    del ground
    explain = make()

    def values() -> list[float]:
        engine = ProbeEngine.from_function(
            lambda kept: ["yes" if 1 in sources else "no" for sources in kept],
            num_sources=3,
            texts=["no", "yes", "perhaps"],
        )
        return list(explain(engine, lambda text: text == "yes", seed=0).values)

    first = values()
    assert len(first) == 3 and max(first) == first[1] > 0
    assert values() == first


def dataset(make: Make, ground: Ground) -> None:
    """Documents, questions and rules that fit each other, the same each time."""
    del ground
    made = make()
    assert made.fingerprint and make().fingerprint == made.fingerprint
    documents = {document.id for document in made.corpus}
    queries = {query.id: query for rows in made.queries.values() for query in rows}
    assert len(documents) == len(made.corpus) > 0 and queries
    assert {query.id for query in made.query_set("full")} <= set(queries)
    assert isinstance(made.rules, RuleBank)
    for query, grades in made.qrels_for(queries.values()).items():
        assert query in queries and set(grades) <= documents


CONTRACTS: Mapping[str, Callable[[Make, Ground], None]] = {
    "miner": miner,
    "selector": selector,
    "evidence": evidence,
    "retriever": retriever,
    "scorer": scorer,
    "merge": retriever,  # of a guided retriever that merges so
    "generator": generator,
    "prompt": prompt,
    "explainer": explainer,
    "dataset": dataset,
}
