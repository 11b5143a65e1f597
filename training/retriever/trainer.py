"""The training loop of the retriever: batches by seed and step, validation, what is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from rulerag.errors import RetrievalError
from rulerag.evaluation import AnswerMatcher
from rulerag.retrieval.dense.encoders import SentenceEncoder
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import RunFolder, TrainingError
from training.common.losses import contrastive_loss, negatives_mask
from training.common.processes import Processes
from training.common.trackers import Trackers
from training.common.validation import CorpusMatrix, answer_recall
from training.retriever.data import Example, TrainingData
from training.retriever.settings import RetrieverSettings

Rows = npt.NDArray[np.int64]


class RetrieverTrainer:
    """One run; see :func:`training.retriever.run.train_retriever`.

    Args:
        settings: what to do.
        dataset: the benchmark.
        query: the query encoder, trained in place.
        matrix: the corpus by the frozen document encoder.
        data: the examples.
        processes: where it runs.
        folder: what it keeps; the first process alone writes there.
        progress: show a progress bar.
    """

    def __init__(
        self,
        settings: RetrieverSettings,
        dataset: RuleQADataset,
        query: SentenceEncoder,
        matrix: CorpusMatrix,
        data: TrainingData,
        processes: Processes,
        folder: RunFolder,
        *,
        progress: bool = False,
    ) -> None:
        self.settings = settings
        self.dataset = dataset
        self.query = query
        self.matrix = matrix
        self.data = data
        self.processes = processes
        self.folder = folder
        self.progress = progress
        self.per_epoch = math.ceil(len(data.examples) / settings.training.batch_size)
        total = self.per_epoch * settings.training.epochs
        self.steps = (
            min(total, settings.training.max_steps) if settings.training.max_steps else total
        )
        self.every = settings.validation.every or self.per_epoch
        self.step = 0
        self.best_step = 0
        self.history: list[dict[str, float]] = []
        self.matcher = AnswerMatcher()
        self.model = processes.prepare(query.model)
        self.optimizer = torch.optim.AdamW(
            query.model.parameters(),
            lr=settings.training.learning_rate,
            weight_decay=settings.training.weight_decay,
        )

    def run(self, after_step: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Train to the end, from where the folder stands; return the metrics.

        Args:
            after_step: called with the number of every finished step.

        Raises:
            TrainingError: the loss or the gradient is no number; the last good state is kept.
        """
        self._resume()
        started, begun = time.perf_counter(), self.step
        stated = self.settings.to_json()
        self.trackers = Trackers(
            self.settings.report_to, self.folder.home, stated, self.processes, begun
        )
        if not self.history:
            self._validate(None)
        bar = tqdm(total=self.steps, initial=self.step, desc="steps", disable=not self.progress)
        losses: list[float] = []
        with bar:
            while self.step < self.steps:
                losses.append(self.train_step())
                rate = self.rate(self.step)
                self.step += 1
                self.trackers.log(self.step, train_loss=losses[-1], train_learning_rate=rate)
                bar.update()
                bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
                if self.step % self.every == 0 or self.step == self.steps:
                    self._validate(sum(losses) / len(losses))
                    losses = []
                if after_step is not None:
                    after_step(self.step)
        self.trackers.close()
        return self._metrics(time.perf_counter() - started, self.step - begun)

    def batch(self, step: int) -> tuple[list[Example], Rows]:
        """The examples of a step and its documents, the positives first; by seed and step alone."""
        settings = self.settings
        epoch, place = divmod(step, self.per_epoch)
        order = np.random.default_rng([settings.seed, 1, epoch]).permutation(
            len(self.data.examples)
        )
        chosen = order[
            place * settings.training.batch_size : (place + 1) * settings.training.batch_size
        ]
        examples = [self.data.examples[n] for n in chosen.tolist()]
        random = np.random.default_rng([settings.seed, 2, step])
        positives = np.array([random.choice(example.positives) for example in examples])
        hard = [example.hard for example in examples]
        extra = random.integers(0, len(self.matrix), settings.training.extra_negatives)
        return examples, np.concatenate([positives, *hard, extra]).astype(np.int64)

    def train_step(self) -> float:
        """Take the step that stands next; return its loss. The number of the step stays.

        Raises:
            TrainingError: the loss or the gradient is no number.
        """
        settings, processes = self.settings, self.processes
        examples, documents = self.batch(self.step)
        mine = np.arange(len(examples))[processes.rank :: processes.world]
        weight = 1.0
        if not len(mine):  # the last batch may be smaller than the number of processes
            mine, weight = np.arange(1), 0.0
        excluded = negatives_mask(
            documents, mine, [self.data.oracle[examples[n].query] for n in mine]
        )
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.step)
        self.model.train()
        vectors = self.matrix.take(documents, processes.device)
        parts = np.array_split(np.arange(len(mine)), min(len(mine), settings.training.accumulation))
        loss = torch.zeros((), device=processes.device)
        self.optimizer.zero_grad(set_to_none=True)
        with self._seeded():
            for part in parts:
                with processes.apart(self.model, alone=part is not parts[-1]):
                    with processes.autocast():
                        total = contrastive_loss(
                            self._embed([examples[n].text for n in mine[part]]),
                            vectors,
                            torch.from_numpy(mine[part]).to(processes.device),
                            torch.from_numpy(excluded[part]).to(processes.device),
                            temperature=settings.training.temperature,
                            reduction="sum",
                        )
                    # Gradients are averaged over the processes: so they are of the batch's mean.
                    share = weight * total / len(examples)
                    torch.autograd.backward(share * processes.world)
                loss += share.detach()
        value = processes.total(loss)
        norm = torch.nn.utils.clip_grad_norm_(
            self.query.model.parameters(), settings.training.max_grad_norm
        )
        if not (math.isfinite(value) and math.isfinite(float(norm))):
            raise self._diverged(f"the loss is {value} and the gradient's norm {float(norm)}")
        self.optimizer.step()
        return value

    def _diverged(self, what: str) -> TrainingError:
        kept = f"the state of step {self.history[-1]['step']:.0f} is kept" if self.history else ""
        return TrainingError(
            f"step {self.step + 1}: {what}",
            path=self.folder.work,
            hint=f"{kept or 'nothing is kept'}; with a lower learning_rate, a higher temperature "
            "or precision=fp32, start a new folder (out=…)",
        )

    def rate(self, step: int) -> float:
        """The learning rate of a step: it rises, then falls to zero."""
        warm = self.settings.training.warmup_share * self.steps
        if step < warm:
            return self.settings.training.learning_rate * (step + 1) / (warm + 1)
        return (
            self.settings.training.learning_rate * (self.steps - step) / max(1.0, self.steps - warm)
        )

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Random numbers, those of dropout, that depend on seed, step and process alone."""
        cuda = [self.processes.device] if self.processes.device.type == "cuda" else []
        number = self.step * self.processes.world + self.processes.rank
        with torch.random.fork_rng(cuda):
            seed = np.random.default_rng([self.settings.seed, 3, number]).integers(2**62)
            torch.manual_seed(int(seed))
            yield

    def _embed(self, texts: Sequence[str]) -> torch.Tensor:
        prefixed = [self.query.query_prefix + text for text in texts]
        features = self.query.model.preprocess(prefixed)
        device = self.processes.device
        moved = {k: v.to(device) for k, v in features.items() if isinstance(v, torch.Tensor)}
        vectors: torch.Tensor = self.model(moved)["sentence_embedding"]
        return vectors

    def _validate(self, loss: float | None) -> None:
        """Measure on the tuning queries, keep the best weights and the state."""
        row: dict[str, float] = {"step": self.step}
        if loss is not None:
            row["loss"] = loss
        if self.processes.is_main:
            figures = self._figures()
            self.history.append({**row, **figures})
            self.trackers.log(
                self.step, **{f"eval_{name}": value for name, value in figures.items()}
            )
            best = max(self.history, key=self._merit)
            improved = best is self.history[-1]
            self.best_step = int(best["step"])
            weights = self.query.model.state_dict() if improved else None
            self.folder.save(self._state(), weights)
            if self.progress:
                tqdm.write(_line(self.history[-1]))
        else:
            self.history.append(row)
        self.processes.wait()

    def _merit(self, row: dict[str, float]) -> tuple[float, ...]:
        """The chosen metric, then the other one, then the later step: it has learned more."""
        chosen = self.settings.validation.metric
        other = next(name for name in self.settings.validation.metrics if name != chosen)
        return row[chosen], row[other], row["step"]

    def _figures(self) -> dict[str, float]:
        try:
            return answer_recall(
                self.query,
                self.matrix,
                self.dataset.corpus,
                self.data.tuning[: self.settings.validation.max_queries or None],
                self.data.selector,
                top_k=self.settings.validation.top_k,
                device=self.processes.device,
                matcher=self.matcher,
                entity_label=lambda name: self.dataset.labels["entities"].get(name, name),
            )
        except RetrievalError as error:
            raise self._diverged(error.message) from error

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "best_step": self.best_step,
            "history": self.history,
            "model": self.query.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def _resume(self) -> None:
        state = self.folder.load()
        self.processes.wait()  # before the first process writes another one
        if state is None:
            return
        self.step, self.best_step = state["step"], state["best_step"]
        self.history = state["history"]
        self.query.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _metrics(self, seconds: float, steps: int) -> dict[str, Any]:
        names = (*self.settings.validation.metrics, "documents_per_query_union")
        first = self.history[0]
        best = next((row for row in self.history if row["step"] == self.best_step), first)
        return {
            "method": self.settings.data.method,
            "dataset": self.dataset.name,
            "dataset_fingerprint": self.dataset.fingerprint,
            "examples": len(self.data.examples),
            "training_queries": len(self.data.queries),
            "tuning_queries": len(self.data.tuning),
            "truncated_documents": self.matrix.truncated,
            "before": {name: first.get(name, math.nan) for name in names},
            "best": {name: best.get(name, math.nan) for name in names},
            "best_step": self.best_step,
            "steps": self.step,
            "history": self.history,
            "seconds": {"training": round(seconds, 2), "per_step": seconds / max(1, steps)},
            "seed": self.settings.seed,
        }


def _line(row: dict[str, float]) -> str:
    shown = ", ".join(f"{k} {v:.4f}" for k, v in row.items() if k != "step")
    return f"step {row['step']:.0f}: {shown}"
