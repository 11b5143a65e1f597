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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from tqdm import tqdm

from rulerag import RuleQADataset
from rulerag.arrays import Longs
from rulerag.candidates import CorpusFacts
from rulerag.candidates.embeddings import Vectors
from rulerag.console import guarded
from rulerag.errors import EmptyDataError
from rulerag.evaluation import versions
from training.common.checkpoint import RunFolder, TrainingError, saving
from training.common.runner import print_outcome, training_parser
from training.common.settings import TrainingSettings

# Of facts, this many are kept out to choose the epoch, and at most this fraction.
_KEPT, _FRACTION = 2000, 0.02
_TINY = 1e-10


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


class _Relation(NamedTuple):
    """The questions of a relation in one direction.

    Args:
        subject: what is asked about, shape (q,).
        answer: the place of the answer among the candidates, shape (q,).
        candidates: every entity that the relation has at the asked end, ascending.
    """

    subject: torch.Tensor
    answer: torch.Tensor
    candidates: torch.Tensor


@dataclass
class _Model:
    """Vectors, their sums of squared gradients, and how they are changed."""

    entities: torch.Tensor
    relations: torch.Tensor
    squares: tuple[torch.Tensor, torch.Tensor]

    @classmethod
    def fresh(cls, sizes: tuple[int, int], rank: int, seed: int) -> _Model:
        random = torch.Generator().manual_seed(seed)
        tables = [1e-2 * torch.randn(size, 2 * rank, generator=random) for size in sizes]
        return cls(tables[0], tables[1], (torch.zeros_like(tables[0]), torch.zeros_like(tables[1])))

    def learn(self, number: int, part: _Relation, settings: EmbeddingSettings) -> float:
        """One step on questions of one relation; their summed loss in nats."""
        ids, place = torch.unique(torch.cat([part.subject, part.candidates]), return_inverse=True)
        at_subject, at_candidate = place[: len(part.subject)], place[len(part.subject) :]
        rows = self.entities[ids].requires_grad_()
        relation = self.relations[number].clone().requires_grad_()
        subject, candidates = rows[at_subject], rows[at_candidate]
        scores = turned(subject, relation) @ candidates.T
        loss = torch.nn.functional.cross_entropy(scores, part.answer, reduction="sum")
        told = float(loss.detach())
        norms = sum(_cubes(one).sum() for one in (subject, candidates[part.answer]))
        norms = norms + len(part.subject) * _cubes(relation).sum()
        whole = (loss + settings.regularization * norms) / settings.batch_size
        slopes = torch.autograd.grad(whole, (rows, relation))
        places = (self.entities, self.squares[0], ids), (self.relations, self.squares[1], number)
        for (table, squares, where), slope in zip(places, slopes, strict=True):
            squares[where] += slope**2
            table[where] -= settings.learning_rate * slope / (squares[where].sqrt() + _TINY)
        return told


def turned(subject: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
    """The complex product of subjects and a relation, halves real and imaginary."""
    (a, b), (c, d) = subject.chunk(2, -1), relation.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def _cubes(vectors: torch.Tensor) -> torch.Tensor:
    real, imaginary = vectors.chunk(2, -1)
    return (real**2 + imaginary**2 + 1e-12) ** 1.5


def _directions(rows: Longs, relations: int) -> list[_Relation]:
    """The questions of every relation, and behind them those of its reciprocal.

    Args:
        rows: subject, relation and object, shape (n, 3).
        relations: how many there are.
    """
    found = []
    for near, far in ((0, 2), (2, 0)):
        for relation in range(relations):
            mine = rows[rows[:, 1] == relation]
            candidates, answer = np.unique(mine[:, far], return_inverse=True)
            parts = (mine[:, near], answer, candidates)
            found.append(_Relation(*(torch.from_numpy(part.astype(np.int64)) for part in parts)))
    return found


def _batches(
    asked: Sequence[_Relation], size: int, random: np.random.Generator
) -> Iterator[tuple[int, _Relation]]:
    """Every question once, by relation, in random order."""
    cuts = []
    for number, one in enumerate(asked):
        order = torch.from_numpy(random.permutation(len(one.subject)))
        cuts += [(number, order[start : start + size]) for start in range(0, len(order), size)]
    for place in random.permutation(len(cuts)).tolist():
        number, order = cuts[place]
        one = asked[number]
        yield number, _Relation(one.subject[order], one.answer[order], one.candidates)


def _mean_reciprocal_rank(model: _Model, known: Sequence[_Relation], kept: Longs) -> float:
    """Of facts that were kept out, among the relation's objects that are not known for the subject.

    Ties share their mean rank; 0 for an object that the relation does not have.
    """
    found = []
    for relation in np.unique(kept[:, 1]).tolist():
        one = known[relation]
        rows = torch.from_numpy(kept[kept[:, 1] == relation])
        scores = turned(model.entities[rows[:, 0]], model.relations[relation])
        scores = scores @ model.entities[one.candidates].T
        for line, (subject, _, answer) in zip(scores, rows.tolist(), strict=True):
            place = torch.searchsorted(one.candidates, answer)
            if place == len(one.candidates) or one.candidates[place] != answer:
                found.append(0.0)
                continue
            own = line[place].item()
            line[one.answer[one.subject == subject]] = -torch.inf
            line[place] = own
            above, equal = int((line > own).sum()), int((line == own).sum())
            found.append(1 / (above + (equal + 1) / 2))
    return float(np.mean(found)) if found else 0.0


def train_embeddings(
    settings: EmbeddingSettings,
    *,
    facts: CorpusFacts | None = None,
    progress: bool = False,
    after_epoch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Train vectors and write ``vectors.npz`` and ``metrics.json`` into the folder ``out``.

    A finished run is not repeated, an interrupted one goes on after its last epoch.

    Args:
        settings: what to do.
        facts: those of the dataset, where they are loaded already.
        progress: show a progress bar.
        after_epoch: called with the number of every finished epoch.

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
    kept, rows = rows[order[:cut]], rows[order[cut:]]
    asked = _directions(rows, len(table.relations))
    sizes = len(facts.names), len(asked)
    model = _Model.fresh(sizes, settings.rank, settings.seed)
    before = _mean_reciprocal_rank(model, asked, kept)
    state = folder.load() or {"epoch": 0, "best_step": 0, "history": [], "best": {}}
    chosen = state["best"]
    if state["epoch"]:
        model = _Model(state["entities"], state["relations"], tuple(state["squares"]))
    bar = tqdm(total=settings.epochs, initial=state["epoch"], desc="epochs", disable=not progress)
    for epoch in range(state["epoch"] + 1, settings.epochs + 1):
        random = np.random.default_rng([settings.seed, epoch])
        batches = _batches(asked, settings.batch_size, random)
        loss = sum(model.learn(number, part, settings) for number, part in batches)
        loss /= sum(len(one.subject) for one in asked)
        if not np.isfinite(loss):
            raise TrainingError(
                f"the loss is no number after epoch {epoch}; the last good state is kept",
                hint="a smaller learning_rate",
            )
        found = _mean_reciprocal_rank(model, asked, kept)
        history = [*state["history"], {"epoch": epoch, "loss": loss, "mrr": found}]
        best = max(history, key=lambda row: row["mrr"] if cut else row["epoch"])["epoch"]
        vectors = {"entities": model.entities, "relations": model.relations}
        if best == epoch:
            chosen = {name: table.clone() for name, table in vectors.items()}
        state = {"epoch": epoch, "best_step": best, "history": history, "best": chosen, **vectors}
        folder.save({**state, "squares": list(model.squares)})
        bar.update()
        bar.set_postfix(loss=f"{loss:.3f}", mrr=f"{found:.3f}")
        if after_epoch is not None:
            after_epoch(epoch)
    bar.close()
    with saving(folder.home):
        Vectors(
            tuple(facts.names),
            tuple(table.relations.names),
            chosen["entities"].numpy(),
            chosen["relations"].numpy(),
            facts.fingerprint,
        ).save(folder.home)
    reached = state["history"][state["best_step"] - 1]["mrr"]
    metrics = {
        "before": {"mrr": before},
        "best": {"mrr": reached},
        "best_step": state["best_step"],
        "steps": settings.epochs,
        "history": state["history"],
        "facts": len(rows),
        "facts_kept_out": cut,
        "entities": sizes[0],
        "relations": sizes[1] // 2,
        "settings": settings.to_json(),
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
