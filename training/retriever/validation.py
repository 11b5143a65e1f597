"""The answer recall of a query encoder over a corpus, as rule-guided retrieval measures it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentence_transformers import SentenceTransformer

from rulerag.evaluation import AnswerMatcher
from rulerag.protocols import RuleSelector
from rulerag.retrieval.base import known_answers_first
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.retrieval.symbolic import complete_chains
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query, ScoredDocument
from training.common.processes import Processes
from training.common.trainer import Measures, as_opened
from training.retriever.data import TrainingData
from training.retriever.settings import RetrieverSettings


class Validation:
    """The share of the tuning queries whose answer stands in a retrieved document.

    With rules, each query∘rule is one search, a chain one search a hop; ``answer_recall@k`` looks
    at the k best of all searches by score, ``answer_recall@k_union`` at the whole union (RuleRAG,
    arXiv:2410.22353, section 4.3). A query without a guiding rule is searched alone.

    Args:
        settings: of the run.
        dataset: the benchmark.
        data: with the tuning queries and what selects their rules.
        retriever: searches with the encoder, which the trainer changes.
        processes: of which the first alone searches.
    """

    def __init__(
        self,
        settings: RetrieverSettings,
        dataset: RuleQADataset,
        data: TrainingData,
        retriever: DenseRetriever,
        processes: Processes,
    ) -> None:
        self.settings = settings.validation
        self.queries = data.tuning[: self.settings.max_queries or None]
        self.labels = dataset.labels["entities"]
        self.selector, self.retriever, self.processes = data.selector, retriever, processes
        self.matcher = AnswerMatcher()

    def __call__(self, model: SentenceTransformer) -> Measures:
        """The measures, and ``merit``: the chosen one, ties by the other."""
        with as_opened(model):
            measures = self.processes.first(self._recall)
        chosen = self.settings.metric
        (other,) = set(self.settings.metrics) - {chosen}
        return {**measures, "merit": measures[chosen] + 1e-3 * measures[other]}

    def _recall(self) -> Measures:
        top_k = self.settings.top_k
        if self.selector is None:
            lists: Sequence[list[ScoredDocument]] = self.retriever.retrieve(self.queries, top_k)
        else:
            lists = self._by_score(self.selector, top_k)
        ranks = [
            self.matcher.first_rank((scored.document for scored in listed), query.answers)
            for query, listed in zip(self.queries, lists, strict=True)
        ]
        best, union = self.settings.metrics
        total = max(1, len(self.queries))
        return {
            best: sum(rank is not None and rank <= top_k for rank in ranks) / total,
            union: sum(rank is not None for rank in ranks) / total,
            "documents_per_query_union": sum(map(len, lists)) / total,
        }

    def _by_score(self, selector: RuleSelector, top_k: int) -> Sequence[list[ScoredDocument]]:
        """The union of every rule's search, best score first; what is stated comes before all."""
        guided = RuleGuidedRetriever(self.retriever, selector, entity_label=self._label)
        rules = selector.select(self.queries)
        predictions = [replace(query, prediction=True) for query in self.queries]
        unions = guided.retrieve_union(predictions, top_k, rules=rules)

        def ordered(query: Query, place: int) -> list[ScoredDocument]:
            ranked = sorted(unions[place], key=lambda one: -max(h.score for h in one.found_by))
            whole = complete_chains(query, rules[place], ranked, guided.settings.whole_chains)
            return known_answers_first(query, whole, guided.statements)

        return [ordered(query, place) for place, query in enumerate(self.queries)]

    def _label(self, name: str) -> str:
        return self.labels.get(name, name)
