"""Answers held to the evidence: the entities that the retrieved documents speak of.

A small model often knows which entity is meant and words its answer so that nothing matches. Its
answer can be read as the first entity that it names, decoding can be constrained to the entities
(a token trie: De Cao et al. 2021, GENRE, arXiv:2010.00904, section 3.2), or each entity can be
scored as a continuation of the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rulerag.generation.huggingface.decoding import best_tokens
from rulerag.rules import readable
from rulerag.text import NameFinder, normalize_answer

if TYPE_CHECKING:
    from rulerag.generation.huggingface.decoding import Tokens
    from rulerag.types import GenerationRequest

Answers = Literal["free", "named", "trie", "scored"]
"""How an answer is made:

- ``free``: what the model writes;
- ``named``: the first entity of the documents that it names in what it writes, if any;
- ``trie``: greedy decoding that can write nothing but an entity of the documents;
- ``scored``: the entity of the documents that is the likeliest continuation.
"""


def entities_of(request: GenerationRequest, labels: Mapping[str, str]) -> list[str]:
    """The readable names of the entities in the documents' facts, but for the question's subject.

    In the order of the documents, objects before subjects.
    """
    names = dict.fromkeys(
        name
        for document in request.documents
        for fact in document.facts
        for name in (fact.object, fact.subject)
        if name != request.query.subject
    )
    return list(dict.fromkeys(labels.get(name) or readable(name) for name in names))


def first_named(text: str, entities: Sequence[str]) -> str | None:
    """The entity that a text names first; of those that begin together the longest."""
    names = {normalize_answer(name): name for name in reversed(entities)}
    found = NameFinder(names).first(text)
    return None if found is None else names[found]


def held_to(
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
