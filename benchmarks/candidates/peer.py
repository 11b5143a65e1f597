"""PyKEEN's ComplEx on the questions of a dataset, beside ``training.embeddings``.

Both learn from the same triples with as many numbers a vector and as many epochs, reciprocal
relations, the nuclear 3-norm, Adagrad and a cross-entropy loss: PyKEEN's over all entities, as its
LCWA loop has it, ours over those that the relation has. Where PyKEEN starts from other vectors or
with another norm by default, it is given ours, which serve it better. Candidates are the same: what
the relation has at the asked end, without what is stated of the subject. The prior of the relation
stands beside them, which learns nothing. One process a model, so that seconds and memory are its
own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.candidates.links import known_facts, ranked
from benchmarks.candidates.study import right_places
from benchmarks.common.process_cost import in_fresh_process
from rulerag import RuleQADataset
from rulerag.arrays import Doubles, Longs
from rulerag.candidates import CorpusFacts
from rulerag.candidates.base import FactScorer
from rulerag.candidates.counts import RelationPrior
from rulerag.candidates.embeddings import Embeddings
from rulerag.errors import DataError, MissingDependencyError
from rulerag.evaluation.link_prediction.ranks import queries_of
from rulerag.evaluation.runner import peak_memory_mb
from rulerag.kg import KnowledgeGraph
from rulerag.types import Support

MODELS = ("relation-prior", "ours", "pykeen")


def measure(model: str, dataset: Path, graph: Path, rank: int, epochs: int) -> dict[str, Any]:
    """Train one model on a dataset's corpus; answer its balanced questions, and predict links.

    Args:
        model: one of :data:`MODELS`.
        dataset: its folder.
        graph: the folder of the graph whose training facts the corpus states.
        rank: complex numbers of a vector.
        epochs: passes over the facts.

    Raises:
        RuntimeError: the process failed.
    """
    told = (str(dataset), str(graph), str(rank), str(epochs))
    return in_fresh_process("benchmarks.candidates.peer", model, *told)


class _Peer(FactScorer):
    """The probabilities of a PyKEEN model."""

    kind = "pykeen"

    def __init__(self, facts: CorpusFacts, model: Any) -> None:
        super().__init__(facts)
        self._model = model

    def scored(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        import torch

        answers, _ = self.facts.answers(relation, time)
        # PyKEEN gives a relation the number 2 r, and its reciprocal the next one.
        number = 2 * relation + (self.facts.forward is not None)
        asked = torch.tensor([[max(one, 0), number] for one in subject.tolist()])
        self._model.eval()
        with torch.inference_mode():
            score = self._model.score_t(asked)[:, torch.from_numpy(answers)].double().numpy()
        odds = np.exp(score - score.max(axis=1, initial=-np.inf, keepdims=True))
        return answers, np.maximum(odds / odds.sum(axis=1, keepdims=True), 1e-12)

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        return ()


def _pykeen(facts: CorpusFacts, rank: int, epochs: int) -> Any:
    try:
        from pykeen.pipeline import pipeline
        from pykeen.triples import CoreTriplesFactory
    except ImportError as error:
        raise MissingDependencyError("pykeen", "dev") from error
    import torch

    table = facts.table
    columns = [table.subject, table.relation, table.object]
    rows = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)
    sizes = len(facts.names), len(table.relations)

    def small(values: Any) -> Any:
        return torch.nn.init.normal_(values, std=1e-2)

    found = pipeline(
        training=CoreTriplesFactory(torch.from_numpy(rows), *sizes, create_inverse_triples=True),
        # It must have some; what it measures on them is not looked at.
        testing=CoreTriplesFactory(torch.from_numpy(rows[:1]), *sizes),
        model="ComplEx",
        model_kwargs={
            "embedding_dim": rank,
            "entity_initializer": small,
            "relation_initializer": small,
            "regularizer": "powersum",
            "regularizer_kwargs": {"p": 3.0, "weight": 0.05},
        },
        loss="CrossEntropyLoss",
        training_loop="LCWA",
        optimizer="Adagrad",
        optimizer_kwargs={"lr": 0.1},
        training_kwargs={"num_epochs": epochs, "batch_size": 512, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    )
    return found.model


def _made(model: str, facts: CorpusFacts, rank: int, epochs: int) -> list[FactScorer]:
    """Scorers of objects and of subjects."""
    both = facts, facts.reversed
    if model == "relation-prior":
        return [RelationPrior(one) for one in both]
    if model == "pykeen":
        trained = _pykeen(facts, rank, epochs)
        return [_Peer(one, trained) for one in both]
    from training.embeddings import EmbeddingSettings, train_embeddings

    with TemporaryDirectory() as folder:
        settings = EmbeddingSettings(dataset="", out=folder, rank=rank, epochs=epochs)
        train_embeddings(settings, facts=facts)
        return [Embeddings(one, folder=folder) for one in both]


def _child(model: str, folder: str, place: str, rank: int, epochs: int) -> dict[str, Any]:
    dataset, graph = RuleQADataset.load(folder), KnowledgeGraph.load(place)
    facts = known_facts(graph)
    facts.labels = dataset.labels
    stated = {fact[:3] for document in dataset.corpus for fact in document.facts}
    if stated != {fact[:3] for fact in graph.train}:
        raise DataError(
            f"the corpus states other facts than the training facts of {graph.name}",
            path=folder,
            hint="name the graph that the dataset was built from",
        )
    asked = dataset.query_set("balanced")
    loaded = peak_memory_mb()
    started = time.process_time()
    pair = _made(model, facts, rank, epochs)
    training, trained = time.process_time() - started, peak_memory_mb()
    first, top = right_places(pair[0].score(asked), asked, facts).mean(axis=0).tolist()
    queries = queries_of(graph.test, list(graph.splits.values()))
    links = ranked(pair, queries, graph)
    return {
        "questions": len(asked),
        "first": first,
        "top10": top,
        "queries": len(queries),
        "metrics": links["metrics"],
        "training_cpu": round(training, 1),
        "scoring_cpu": links["cpu_seconds"],
        "loaded_mb": round(loaded),
        "trained_mb": round(trained),
    }


if __name__ == "__main__":
    name, dataset_folder, graph_folder, *numbers = sys.argv[1:]
    told = _child(name, dataset_folder, graph_folder, int(numbers[0]), int(numbers[1]))
    sys.stdout.write(json.dumps(told))
