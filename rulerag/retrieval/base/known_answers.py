"""Documents that state an answer as it is are put first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rulerag.kg.grounding import Statements
from rulerag.types import Query, RuleHit, ScoredDocument


def known_answers_first(
    query: Query, ranked: Sequence[ScoredDocument], corpus: Statements
) -> list[ScoredDocument]:
    """A list that begins with what the corpus states of the question, one document an answer.

    Of several documents that state the same answer, the one that stands first in the list is taken
    (of those that are not in it, the first of the corpus); the others keep their order. Known
    answers keep the order that the list gives their documents. A document that is put first scores
    one above the document behind it, and has a hit of the plain query whose rank is that among the
    known answers: the question itself led to it, whatever rule found it too.

    Args:
        query: the question; a prediction's list is returned as it is.
        ranked: what was found, best first, not yet cut.
        corpus: what the corpus states; one of no documents stands for what was found.
    """
    if query.prediction:
        return list(ranked)
    if not corpus.documents:
        corpus = Statements([scored.document for scored in ranked])
    index = {scored.document.id: number for number, scored in enumerate(ranked)}
    chosen: dict[str, tuple[int, int]] = {}
    for name, _, row in corpus.of(query):
        found = index.get(corpus.documents[row].id, len(ranked)), row
        chosen[name] = min(chosen.get(name, found), found)
    # A document may state several answers.
    first = sorted(dict.fromkeys(chosen.values()))
    if not first:
        return list(ranked)
    top = max((scored.score for scored in ranked), default=0.0) + len(first)
    listed = []
    for number, (found_at, row) in enumerate(first):
        hit, score = RuleHit(None, number + 1, top - number), top - number
        known = ranked[found_at].found_by if found_at < len(ranked) else ()
        plain = any(h.rule_id is None for h in known)
        found_by = known if plain else (hit, *known)
        support = ranked[found_at].support if found_at < len(ranked) else ()
        listed.append(ScoredDocument(corpus.documents[row], score, number + 1, found_by, support))
    taken = {found_at for found_at, _ in first}
    rest = [scored for number, scored in enumerate(ranked) if number not in taken]
    return listed + [replace(s, rank=rank) for rank, s in enumerate(rest, start=len(listed) + 1)]
