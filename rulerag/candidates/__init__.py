"""Candidate scorers: the likely answers of queries, each with the facts that speak for it.

``facts`` is what they see of a corpus and ``base`` what they share. ``counts``, ``analogy``,
``walks``, ``rules`` and ``embeddings`` score, ``learned`` joins them and ``trees`` order what it
finds likeliest, by the numbers of ``features``; ``scored`` gives the places of a list to
candidates, and answers with the best one that the documents show.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.candidates.analogy import Analogy as Analogy
    from rulerag.candidates.facts import CorpusFacts as CorpusFacts
    from rulerag.candidates.learned import LearnedScorer as LearnedScorer
else:
    __getattr__ = lazy_names(__name__)
