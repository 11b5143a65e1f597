"""Answers held to the evidence: the entities that the retrieved documents speak of.

A small model often knows which entity is meant and words its answer so that nothing matches. Its
answer can be read as the first entity that it names, decoding can be constrained to the entities
(a token trie: De Cao et al. 2021, GENRE, arXiv:2010.00904, section 3.2), or each entity can be
scored as a continuation of the prompt. A model that cites is held to the documents' facts, each as
a citation of the entity at one of its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rulerag.generation.huggingface.decoding import best_tokens
from rulerag.generation.prompts import PromptTemplate, citation_of
from rulerag.rules import readable
from rulerag.text import NameFinder, normalize_answer
from rulerag.types import Candidate, Completion

if TYPE_CHECKING:
    import numpy.typing as npt

    from rulerag.generation.huggingface.decoding import Tokens
    from rulerag.types import Document, GenerationRequest

AnswerMode = Literal["free", "named", "trie", "scored"]
"""How an answer is made:

- ``free``: what the model writes;
- ``named``: the first entity of the documents that it names in what it writes, if any;
- ``trie``: greedy decoding that can write nothing but an entity of the documents, or a citation;
- ``scored``: the entity of the documents that is the likeliest continuation, or whose citations
  are together.
"""


Endings = Sequence[tuple[str, str]]
"""Answers, and the words by which each is given."""


def entities_in(request: GenerationRequest, labels: Mapping[str, str]) -> list[str]:
    """The readable names of what the documents speak of, but for the question's subject.

    In the order of the documents; of facts, objects before subjects, then what else is mentioned.
    """
    names = dict.fromkeys(
        name
        for document in request.documents
        for name in (*_ends(document), *document.entities)
        if name != request.query.subject
    )
    return list(dict.fromkeys(labels.get(name) or readable(name) for name in names))


def _ends(document: Document) -> Iterator[str]:
    for fact in document.facts:
        yield from (fact.object, fact.subject)


def endings_of(
    request: GenerationRequest, template: PromptTemplate, labels: Mapping[str, str]
) -> Endings:
    """What may be written behind a prompt: answers, and the words by which each is given.

    For a citing template an answer has as many endings as facts of the documents state it.

    Args:
        request: documents with facts.
        template: the prompt.
        labels: readable names of entities and relations.
    """
    if template.target != "citation":
        return [(name, template.completion(name)) for name in entities_in(request, labels)]
    subject, endings = request.query.subject, dict[str, str]()
    facts = [fact for document in request.documents for fact in document.facts]
    words = {name: labels.get(name) or readable(name) for fact in facts for name in fact[:3]}
    shown = {"entities": words, "relations": words}
    for fact in facts:
        for name in (fact.object, fact.subject):
            cited = citation_of(fact, words[name], subject, shown)
            if name != subject and cited is not None:
                endings.setdefault(template.completion(words[name], cited), words[name])
    return [(answer, text) for text, answer in endings.items()]


def likeliest(endings: Endings, scores: npt.NDArray[np.float64]) -> Completion:
    """The answer whose endings together are the likeliest, the others as candidates.

    Empty without endings.

    Args:
        endings: as :func:`endings_of` gives them.
        scores: their log-probabilities, of shape (len(endings),).
    """
    sums = dict[str, float]()
    for (answer, _), score in zip(endings, scores.tolist(), strict=True):
        sums[answer] = float(np.logaddexp(sums.get(answer, -np.inf), score))
    ranked = sorted((Candidate(*one) for one in sums.items()), key=lambda one: -one.score)
    best = ranked[0] if ranked else Candidate("", 0.0)
    return Completion(best.text, best.score, tuple(ranked))


def first_named(text: str, entities: Sequence[str]) -> str | None:
    """The entity that a text names first; of those that begin together the longest."""
    names = {normalize_answer(name): name for name in reversed(entities)}
    found = NameFinder(names).first(text)
    return None if found is None else names[found]


def token_choice(
    endings: Sequence[Sequence[Tokens]], end: int
) -> Callable[[Any, Sequence[int]], tuple[Any, Any]]:
    """The best token among those that lead to an allowed ending, for each prompt.

    Args:
        endings: for each prompt the token sequences that may follow it, at least one.
        end: the token that ends an answer.

    Returns:
        A function as :meth:`Decoder.generate` takes it: scores are log-probabilities over the
        whole vocabulary.
    """
    import torch

    tries = [_trie(allowed) for allowed in endings]

    def choose(logits: Any, places: Sequence[int]) -> tuple[Any, Any]:
        best_tokens(logits)  # refuses scores that are not numbers
        scores = torch.log_softmax(logits.float(), dim=-1)
        chosen = []
        for row, place in enumerate(places):
            following = list(tries[place]) or [end]
            values = scores[row, following]
            token = following[int(values.argmax())]
            tries[place] = tries[place].get(token, {})
            chosen.append(token)
        tokens = torch.tensor(chosen, device=logits.device)
        return tokens, scores.gather(1, tokens[:, None])[:, 0]

    return choose


def _trie(sequences: Sequence[Tokens]) -> dict[int, Any]:
    root: dict[int, Any] = {}
    for tokens in sequences:
        node = root
        for token in tokens.tolist():
            node = node.setdefault(token, {})
    return root
