"""Trains the nano reader: episodes that grow as it gets them right.

Two losses: the next token of the expected citation; and, from a middle layer at the end of every
document, whether the question's subject stands in it, whether a rule follows its relation, and
whether a rule fires on it. The second is a teacher for every document rather than one answer for
ten; its small head is thrown away at the end.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from tqdm import tqdm

from rulerag.errors import ConfigError, DataFormatError
from rulerag.generation.prompts import CompactTemplate
from rulerag.io import fingerprint_object
from training.common.checkpoint import load_state, save_state
from training.shipped.reader.batches import IGNORED, Batch, encode
from training.shipped.reader.episodes import Stage, make_episode
from training.shipped.reader.names import NameSource, Random

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


STAGES = (
    Stage((1, 1), (0, 1), 0.0),
    Stage((1, 2), (0, 2), 0.1),
    Stage((2, 4), (0, 3), 0.2),
    Stage((3, 6), (0, 5), 0.3),
    Stage((5, 10), (0, 8), 0.4),
    Stage((10, 10), (0, 8), 0.5),
    Stage((10, 10), (0, 8), 0.5, near=0.8),
)
"""What is read; each stage is entered when the one before is read well."""

_POOL = 4


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """How the reader is trained.

    Args:
        steps: how many.
        rows: episodes of one step.
        learning_rate: at its peak; it falls to a tenth over the second half.
        gate: how large a share of a window of steps must be cited right to enter the next stage.
        window: steps of that window.
        sign_weight: of the second loss.
        sign_layer: the layer whose output the second loss looks at.
        seed: of weights and episodes.
    """

    steps: int = 900
    rows: int = 48
    learning_rate: float = 2e-3
    gate: float = 0.6
    window: int = 10
    sign_weight: float = 1.0
    sign_layer: int = 3
    seed: int = 0


class ReaderTraining:
    """One run; the same settings give the same weights, interrupted or not.

    Args:
        model: trained in place.
        tokenizer: its tokenizer.
        names: what episodes are about.
        settings: how.
        template: of prompts.
    """

    def __init__(
        self,
        model: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        names: NameSource,
        settings: ReaderSettings,
        template: CompactTemplate | None = None,
    ) -> None:
        self.model, self.tokenizer, self.names = model, tokenizer, names
        self.settings = settings
        self.template = template or CompactTemplate()
        width = model.config.hidden_size
        self.signs = torch.nn.Linear(width, 5)
        with torch.no_grad():
            self.signs.weight.zero_()
            self.signs.bias.zero_()
        # Tokens keep their random vectors: so what is learned holds for every token alike, the
        # rarest too, where an adaptive optimizer would push the rare ones about.
        model.model.embed_tokens.weight.requires_grad_(False)
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.weights += self.signs.parameters()
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.step, self.stage = 0, 0
        self.recent: list[float] = []
        self.entered: list[int] = []

    @property
    def fingerprint(self) -> str:
        """Names the settings and the stages."""
        return fingerprint_object([asdict(self.settings), [asdict(s) for s in STAGES]])

    def batch(self) -> Batch:
        """What the next step reads."""
        settings = self.settings
        # Episodes of about one length stand together: little is padding.
        pool, place = divmod(self.step, _POOL)
        rng = Random(f"{settings.seed}-{pool}-{self.stage}")
        # Some easier episodes stay in, and so does what was learned on them.
        shapes = [
            STAGES[self.stage if rng.random() < 0.8 else rng.randrange(self.stage + 1)]
            for _ in range(_POOL * settings.rows)
        ]
        episodes = [make_episode(rng, self.names, shape) for shape in shapes]
        episodes.sort(key=lambda e: sum(len(d.text) for d in e.request.documents))
        order = rng.sample(range(_POOL), _POOL)
        first = order[place] * settings.rows
        return encode(episodes[first : first + settings.rows], self.template, self.tokenizer)

    def losses(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, float]:
        """The two losses, and the share of rows whose whole completion is foreseen."""
        base: Any = self.model.model
        output = base(input_ids=batch.ids, use_cache=False, output_hidden_states=True)
        asked = batch.labels != IGNORED
        logits = output.last_hidden_state[asked] @ base.embed_tokens.weight.T
        labels = batch.labels[asked]
        citing = functional.cross_entropy(logits, labels)
        wrong = torch.zeros(len(batch.ids))
        wrong.index_add_(0, asked.nonzero()[:, 0], (logits.argmax(-1) != labels).float())
        right = float((wrong == 0).float().mean())
        middle = output.hidden_states[self.settings.sign_layer][batch.rows, batch.places]
        told = self.signs(functional.rms_norm(middle, middle.shape[-1:]))
        signs = functional.binary_cross_entropy_with_logits(told, batch.signs)
        return citing, signs, right

    def advance(self) -> dict[str, float]:
        """One step; returns its losses and its share of right completions."""
        settings = self.settings
        rate = self._rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        citing, signs, right = self.losses(self.batch())
        loss = citing + settings.sign_weight * signs
        if not bool(torch.isfinite(loss)):
            raise DataFormatError(
                f"the loss of step {self.step} is no number", hint="a lower learning rate"
            )
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self._gate(right)
        self.step += 1
        return {"citing": float(citing.detach()), "signs": float(signs.detach()), "right": right}

    def _rate(self) -> float:
        settings = self.settings
        falling = 1 - 0.9 * max(0.0, 2 * self.step / max(1, settings.steps) - 1)
        return settings.learning_rate * min(1.0, (self.step + 1) / 20) * falling

    def _gate(self, right: float) -> None:
        self.recent = [*self.recent, right][-self.settings.window :]
        full = len(self.recent) == self.settings.window
        if full and sum(self.recent) / len(self.recent) >= self.settings.gate:
            if self.stage + 1 < len(STAGES):
                self.stage += 1
                self.entered.append(self.step)
            self.recent = []

    def run(
        self,
        checkpoint: Path | None = None,
        *,
        every: float = 120.0,
        until: int | None = None,
        progress: bool = False,
    ) -> None:
        """Train to the end, or to a step; go on from a checkpoint where there is one.

        Args:
            checkpoint: the file that is written every while and at the end.
            every: seconds between two.
            until: the step to stop before; all steps when None.
            progress: show a progress bar.

        Raises:
            ConfigError: the checkpoint is of other settings.
        """
        if checkpoint is not None and checkpoint.exists():
            self.load(checkpoint)
        last = min(self.settings.steps, until or self.settings.steps)
        saved = time.monotonic()
        bar = tqdm(total=last, initial=self.step, disable=not progress, mininterval=10)
        with bar:
            while self.step < last:
                told = self.advance()
                shown = {k: f"{v:.3f}" for k, v in told.items()}
                bar.set_postfix(stage=self.stage, **shown, refresh=False)
                bar.update()
                if checkpoint is not None and time.monotonic() - saved > every:
                    self.save(checkpoint)
                    saved = time.monotonic()
        if checkpoint is not None:
            self.save(checkpoint)

    def save(self, path: Path) -> None:
        """Write everything that a run goes on from, atomically."""
        state = {
            "fingerprint": self.fingerprint,
            "model": self.model.state_dict(),
            "signs": self.signs.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "progress": [self.step, self.stage, self.recent, self.entered],
        }
        save_state(path, state)

    def load(self, path: Path) -> None:
        """Go on from a file of :meth:`save`.

        Raises:
            ConfigError: it is of other settings.
        """
        state = load_state(path)
        if state["fingerprint"] != self.fingerprint:
            raise ConfigError(
                f"{path} was trained with other settings", key="out", hint="another folder"
            )
        self.model.load_state_dict(state["model"])
        self.signs.load_state_dict(state["signs"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.stage, self.recent, self.entered = state["progress"]
