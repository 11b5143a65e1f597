"""Embeddings of the entities and relations of a corpus, for the scorer ``embeddings``.

``python -m training.embeddings configs/training/embeddings.yaml dataset=runs/ruleqa-f`` trains
ComplEx with reciprocal relations and the nuclear 3-norm, minutes on two cores. Each fact is a
question for its object and, by the reciprocal relation, one for its subject; the loss is the
cross-entropy of the answer among all entities that the relation has at that end (1-N over its
range, which is what candidates are taken from). A few facts are kept out to choose the epoch. A
killed run goes on to the same result.

References:
    Trouillon et al. 2016 (ComplEx); Lacroix, Usunier and Obozinski 2018 (reciprocal relations, the
    nuclear 3-norm, cross-entropy over all entities); Krompaß, Baier and Tresp 2015 (candidates of
    the relation's range alone).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field

from rulerag import RuleQADataset
from rulerag.arrays import Longs
from rulerag.candidates import CorpusFacts
from rulerag.candidates.embeddings import Vectors
from rulerag.console import guarded
from rulerag.errors import EmptyDataError
from rulerag.evaluation import versions
from rulerag.models import saving
from training.common.checkpoint import ROOM, RunFolder, TrainingError
from training.common.loop import run_steps
from training.common.runner import print_outcome, training_parser
from training.common.settings import TrainingSettings

# Of facts, this many are kept out to choose the epoch, and at most this fraction.
_KEPT, _FRACTION = 2000, 0.02


class EmbeddingSettings(TrainingSettings):
    """How vectors are trained.

    Args:
        dataset: the folder whose corpus states the facts.
        rank: complex numbers of a vector.
        epochs: passes over the facts.
        batch_size: questions of one relation that are answered at once.
        learning_rate: of Adagrad.
        regularization: the weight of the nuclear 3-norm.
    """

    dataset: str
    rank: int = Field(default=64, ge=1)
    epochs: int = Field(default=20, ge=1)
    batch_size: int = Field(default=512, ge=1)
    learning_rate: float = Field(default=0.1, gt=0)
    regularization: float = Field(default=0.05, ge=0)


class Questions(NamedTuple):
    """The questions of a relation in one direction.

    Args:
        subject: what is asked about, shape (q,).
        answer: the place of the answer among the candidates, shape (q,).
        candidates: every entity that the relation has at the asked end, ascending.
    """

    subject: torch.Tensor
    answer: torch.Tensor
    candidates: torch.Tensor


class ComplEx(torch.nn.Module):
    """Vectors of entities and relations as they are now, and those of the best epoch.

    Args:
        sizes: how many entities and relations there are, reciprocal ones counted for themselves.
        rank: complex numbers of a vector.
        seed: of the vectors at the start.
    """

    entities: torch.nn.Embedding
    relations: torch.nn.Embedding

    def __init__(self, sizes: Mapping[str, int], rank: int, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        for name, size in sizes.items():
            start = 1e-2 * torch.randn(size, 2 * rank, generator=random)
            table = torch.nn.Embedding(size, 2 * rank, _weight=start.clone(), sparse=True)
            self.add_module(name, table)
            self.register_buffer(f"best_{name}", start)
        self.register_buffer("best_mrr", torch.tensor(-1.0, dtype=torch.float64))

    def losses(self, number: int, part: Questions) -> tuple[torch.Tensor, torch.Tensor]:
        """Of questions of one relation, the summed loss in nats and the summed nuclear 3-norms.

        Args:
            number: of the relation.
            part: the questions.
        """
        subject, candidates = self.entities(part.subject), self.entities(part.candidates)
        relation = self.relations(torch.tensor(number))
        scores = turned(subject, relation) @ candidates.T
        loss = torch.nn.functional.cross_entropy(scores, part.answer, reduction="sum")
        norms = _cubes(subject).sum() + _cubes(candidates[part.answer]).sum()
        return loss, norms + len(part.subject) * _cubes(relation).sum()

    def keep(self, mrr: float) -> None:
        """Remember the vectors as they are now, and what they reach, as the best."""
        self.get_buffer("best_mrr").fill_(mrr)
        for name in ("entities", "relations"):
            self.get_buffer(f"best_{name}").copy_(self.get_parameter(f"{name}.weight").detach())


def turned(subject: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
    """The complex product of subjects and a relation, halves real and imaginary."""
    (a, b), (c, d) = subject.chunk(2, -1), relation.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def _cubes(vectors: torch.Tensor) -> torch.Tensor:
    real, imaginary = vectors.chunk(2, -1)
    return (real**2 + imaginary**2 + 1e-12) ** 1.5


def directions(rows: Longs, relations: int) -> list[Questions]:
    """The questions of every relation, and behind them those of its reciprocal.

    Args:
        rows: subject, relation and object, shape (n, 3).
        relations: how many there are.
    """
    questions = []
    for near, far in ((0, 2), (2, 0)):
        for relation in range(relations):
            facts = rows[rows[:, 1] == relation]
            candidates, answer = np.unique(facts[:, far], return_inverse=True)
            parts = (facts[:, near], answer, candidates)
            questions.append(
                Questions(*(torch.from_numpy(part.astype(np.int64)) for part in parts))
            )
    return questions


def _batches(
    questions: Sequence[Questions], size: int, random: np.random.Generator
) -> Iterator[tuple[int, Questions]]:
    """Every question once, by relation, in random order."""
    cuts = []
    for number, one in enumerate(questions):
        order = torch.from_numpy(random.permutation(len(one.subject)))
        cuts += [(number, order[start : start + size]) for start in range(0, len(order), size)]
    for place in random.permutation(len(cuts)).tolist():
        number, order = cuts[place]
        one = questions[number]
        yield number, Questions(one.subject[order], one.answer[order], one.candidates)


@torch.no_grad()
def mean_reciprocal_rank(model: ComplEx, known: Sequence[Questions], held_out: Longs) -> float:
    """Of facts held out, among the relation's objects that are not known for the subject.

    Ties share their mean rank; 0 for an object that the relation does not have.
    """
    reciprocals = []
    for relation in np.unique(held_out[:, 1]).tolist():
        one = known[relation]
        rows = torch.from_numpy(held_out[held_out[:, 1] == relation])
        subjects, vectors = model.entities.weight[rows[:, 0]], model.relations.weight[relation]
        scores = turned(subjects, vectors) @ model.entities.weight[one.candidates].T
        for line, (subject, _, answer) in zip(scores, rows.tolist(), strict=True):
            place = torch.searchsorted(one.candidates, answer)
            if place == len(one.candidates) or one.candidates[place] != answer:
                reciprocals.append(0.0)
                continue
            own = line[place].item()
            line[one.answer[one.subject == subject]] = -torch.inf
            line[place] = own
            above, equal = int((line > own).sum()), int((line == own).sum())
            reciprocals.append(1 / (above + (equal + 1) / 2))
    return float(np.mean(reciprocals)) if reciprocals else 0.0


def train_embeddings(
    settings: EmbeddingSettings, *, facts: CorpusFacts | None = None, progress: bool = False
) -> dict[str, Any]:
    """Train vectors and write ``vectors.npz`` and ``metrics.json`` into the folder ``out``.

    A finished run is not repeated, an interrupted one goes on after its last epoch.

    Args:
        settings: what to do.
        facts: those of the dataset, where they are loaded already.
        progress: show a progress bar.

    Returns:
        What ``metrics.json`` holds: mean reciprocal rank of the facts kept out before training and
        of the best epoch, the loss of every epoch in nats a question, sizes, versions.

    Raises:
        ConfigError: the folder belongs to other settings.
        DataError: the dataset cannot be read.
        EmptyDataError: fewer facts than two.
        OutputError: the folder cannot be written.
        TrainingError: the loss is no number.
    """
    if facts is None:
        facts = CorpusFacts(RuleQADataset.load(settings.dataset).corpus)
    folder = RunFolder.begun(settings)
    if folder.finished is not None:
        return folder.finished
    table = facts.table
    columns = [table.subject, table.relation, table.object]
    rows = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)
    if len(rows) < 2:
        raise EmptyDataError("one fact is not enough to train on", hint="name a larger corpus")
    order = np.random.default_rng(settings.seed).permutation(len(rows))
    cut = min(_KEPT, int(_FRACTION * len(rows)))
    held_out, rows = rows[order[:cut]], rows[order[cut:]]
    questions = directions(rows, len(table.relations))
    total = sum(len(one.subject) for one in questions)
    sizes = {"entities": len(facts.names), "relations": len(questions)}
    model = ComplEx(sizes, settings.rank, settings.seed)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=settings.learning_rate)
    before = mean_reciprocal_rank(model, questions, held_out)

    def epoch_of(number: int) -> dict[str, float]:
        random = np.random.default_rng([settings.seed, number + 1])
        summed = 0.0
        for relation, part in _batches(questions, settings.batch_size, random):
            loss, norms = model.losses(relation, part)
            optimizer.zero_grad()
            whole = (loss + settings.regularization * norms) / settings.batch_size
            torch.autograd.backward(whole)
            optimizer.step()
            summed += float(loss.detach())
        if not np.isfinite(summed):
            raise TrainingError(
                f"the loss is no number after epoch {number + 1}; the last good state is kept",
                hint="a smaller learning_rate",
            )
        mrr = mean_reciprocal_rank(model, questions, held_out)
        if not cut or mrr > float(model.get_buffer("best_mrr")):
            model.keep(mrr)
        return {"epoch": number + 1, "loss": summed / total, "mrr": mrr}

    sparse: Any = torch.sparse
    with sparse.check_sparse_tensor_invariants(enable=False):  # or torch warns
        history = run_steps(
            epoch_of,
            {"model": model, "optimizer": optimizer},
            settings.epochs,
            state=folder.work / "state.pt",
            settings=settings.fingerprint,
            every=1,
            name="epochs",
            progress=progress,
        )
    with saving(folder.home, ROOM):
        Vectors(
            tuple(facts.names),
            tuple(table.relations.names),
            model.get_buffer("best_entities").numpy(),
            model.get_buffer("best_relations").numpy(),
            facts.fingerprint,
        ).save(folder.home)
    best = max(history, key=lambda row: row["mrr"] if cut else row["epoch"])
    metrics = {
        "before": {"mrr": before},
        "best": {"mrr": best["mrr"]},
        "best_step": best["epoch"],
        "steps": settings.epochs,
        "history": history,
        "facts": len(rows),
        "facts_kept_out": cut,
        "entities": sizes["entities"],
        "relations": sizes["relations"] // 2,
        "settings": settings.model_dump(mode="json"),
        "versions": versions(),
    }
    folder.finish(_CARD.format(metrics=metrics, settings=settings), metrics)
    return metrics


_CARD = """# Embeddings of a corpus

ComplEx with reciprocal relations, {settings.rank} complex numbers a vector, trained on
{metrics[facts]:,} facts of {metrics[entities]:,} entities and {metrics[relations]:,} relations.
Of {metrics[facts_kept_out]:,} facts kept out, the mean reciprocal rank among the relation's other
objects is {metrics[best][mrr]:.3f} after epoch {metrics[best_step]} of {metrics[steps]}.

```yaml
scorer: {{type: embeddings, folder: {settings.out}}}
```
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = training_parser(
        "training.embeddings",
        "Train vectors of a corpus's entities and relations (ComplEx), for the scorer "
        "'embeddings'; resumes.",
        "python -m training.embeddings configs/training/embeddings.yaml "
        "dataset=runs/ruleqa-f out=runs/embeddings-f",
    )
    return guarded(partial(_command, parser.parse_intermixed_args(argv)))


def _command(arguments: Namespace) -> None:
    settings = EmbeddingSettings.load(arguments.config, arguments.overrides)
    metrics = train_embeddings(settings, progress=not arguments.quiet)
    print_outcome(metrics, "mrr", settings.out)


if __name__ == "__main__":
    sys.exit(main())
