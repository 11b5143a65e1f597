"""PyKEEN's ComplEx on the questions of a dataset, beside ``training.embeddings``.

Both learn from the same triples with as many numbers a vector and as many epochs, reciprocal
relations and a cross-entropy loss, PyKEEN over all entities, as its LCWA loop does it. Candidates
are the same: objects that the relation has, without what is stated of the subject. One process a
model, so that seconds and memory are its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.candidates.study import right_places
from benchmarks.common.process_cost import in_fresh_process
from rulerag import RuleQADataset
from rulerag.arrays import Doubles, Longs
from rulerag.candidates import CorpusFacts
from rulerag.candidates.base import FactScorer
from rulerag.candidates.embeddings import Embeddings
from rulerag.errors import MissingDependencyError
from rulerag.evaluation.runner import peak_memory_mb
from rulerag.types import Support

MODELS = ("own", "pykeen")


def measure(model: str, folder: Path, rank: int, epochs: int) -> dict[str, Any]:
    """Train one model on a dataset's corpus and answer its balanced questions.

    Args:
        model: one of :data:`MODELS`.
        folder: of the dataset.
        rank: complex numbers of a vector.
        epochs: passes over the facts.

    Raises:
        RuntimeError: the process failed.
    """
    module = "benchmarks.candidates.peer"
    return in_fresh_process(module, model, str(folder), str(rank), str(epochs))


class _Peer(FactScorer):
    """The probabilities of a PyKEEN model."""

    kind = "pykeen"

    def __init__(self, facts: CorpusFacts, model: Any) -> None:
        super().__init__(facts)
        self._model = model

    def scored(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        import torch

        answers, _ = self.facts.answers(relation, time)
        asked = torch.tensor([[max(one, 0), relation] for one in subject.tolist()])
        with torch.inference_mode():
            # The reciprocal of a relation stands behind it.
            score = self._model.predict_t(asked)[:, torch.from_numpy(answers)].double().numpy()
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return answers, np.maximum(odds / odds.sum(axis=1, keepdims=True), 1e-12)

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        return ()


def _pykeen(facts: CorpusFacts, rank: int, epochs: int) -> _Peer:
    try:
        from pykeen.pipeline import pipeline
        from pykeen.triples import CoreTriplesFactory
    except ImportError as error:
        raise MissingDependencyError("pykeen", "dev") from error
    import torch

    table = facts.table
    columns = [table.subject, table.relation, table.object]
    rows = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)
    factory = CoreTriplesFactory(
        torch.from_numpy(rows),
        num_entities=len(facts.names),
        num_relations=len(table.relations),
        create_inverse_triples=True,
    )
    found = pipeline(
        training=factory,
        testing=CoreTriplesFactory(
            torch.from_numpy(rows[:1]), len(facts.names), len(table.relations)
        ),
        model="ComplEx",
        model_kwargs={"embedding_dim": rank},
        loss="CrossEntropyLoss",
        training_loop="LCWA",
        optimizer="Adagrad",
        optimizer_kwargs={"lr": 0.1},
        training_kwargs={"num_epochs": epochs, "batch_size": 512, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    )
    return _Peer(facts, found.model)


def _own(facts: CorpusFacts, rank: int, epochs: int) -> Embeddings:
    from training.embeddings import EmbeddingSettings, train_embeddings

    with TemporaryDirectory() as folder:
        settings = EmbeddingSettings(dataset="", out=folder, rank=rank, epochs=epochs)
        train_embeddings(settings, facts=facts)
        return Embeddings(facts, folder=folder)


def _child(model: str, folder: str, rank: int, epochs: int) -> dict[str, Any]:
    dataset = RuleQADataset.load(folder)
    facts = CorpusFacts(dataset.corpus, dataset.labels)
    asked = dataset.query_set("balanced")
    started = time.process_time()
    scorer = (_own if model == "own" else _pykeen)(facts, rank, epochs)
    training = time.process_time() - started
    started = time.process_time()
    found = scorer.score(asked)
    scoring = time.process_time() - started
    first, top = right_places(found, asked, facts).mean(axis=0).tolist()
    return {
        "model": model,
        "dataset": dataset.name,
        "questions": len(asked),
        "rank": rank,
        "epochs": epochs,
        "first": first,
        "top10": top,
        "training_cpu": round(training, 1),
        "scoring_cpu": round(scoring, 1),
        "peak_mb": round(peak_memory_mb()),
    }


if __name__ == "__main__":
    name, dataset_folder, *numbers = sys.argv[1:]
    sys.stdout.write(json.dumps(_child(name, dataset_folder, int(numbers[0]), int(numbers[1]))))
