"""Trains the nano reader: episodes that grow as it gets them right.

Two losses: the next token of the expected citation; and, from a middle layer at the end of every
document, whether the question's subject stands in it, whether a rule follows its relation, and
whether a rule fires on it. The second is a teacher for every document rather than one answer for
ten; its small head is thrown away at the end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from rulerag.generation.prompts import CompactTemplate
from rulerag.io import fingerprint_object
from training.common.loop import descend, run_steps
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


class Curriculum:
    """The stage that is read, entered when a window of steps of the one before was cited right.

    Args:
        settings: with the gate and the window.

    Attributes:
        stage: its place in :data:`STAGES`.
        recent: the shares of right completions of the last steps of this stage.
        entered: the steps after which a stage was entered.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self._gate, self._window = settings.gate, settings.window
        self.stage = 0
        self.recent: list[float] = []
        self.entered: list[int] = []

    def note(self, step: int, right: float) -> None:
        """Take the share of right completions of a step into account."""
        self.recent = [*self.recent, right][-self._window :]
        if len(self.recent) == self._window and sum(self.recent) / self._window >= self._gate:
            if self.stage + 1 < len(STAGES):
                self.stage += 1
                self.entered.append(step)
            self.recent = []

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes."""
        return {"stage": self.stage, "recent": self.recent, "entered": self.entered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.stage, self.recent, self.entered = state["stage"], state["recent"], state["entered"]


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
        weights = [p for p in model.parameters() if p.requires_grad]
        weights += self.signs.parameters()
        self.optimizer = torch.optim.AdamW(
            weights, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.curriculum = Curriculum(settings)

    def batch(self, step: int) -> Batch:
        """What a step reads in the stage that is reached."""
        settings, stage = self.settings, self.curriculum.stage
        # Episodes of about one length stand together: little is padding.
        pool, place = divmod(step, _POOL)
        rng = Random(f"{settings.seed}-{pool}-{stage}")
        # Some easier episodes stay in, and so does what was learned on them.
        shapes = [
            STAGES[stage if rng.random() < 0.8 else rng.randrange(stage + 1)]
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
        marks = self.signs(functional.rms_norm(middle, middle.shape[-1:]))
        signs = functional.binary_cross_entropy_with_logits(marks, batch.signs)
        return citing, signs, right

    def advance(self, step: int) -> dict[str, float]:
        """Take a step by its number; returns its losses and its share of right completions.

        Raises:
            TrainingError: the loss is no number.
        """
        settings = self.settings
        citing, signs, right = self.losses(self.batch(step))
        falling = 1 - 0.9 * max(0.0, 2 * step / max(1, settings.steps) - 1)
        rate = settings.learning_rate * min(1.0, (step + 1) / 20) * falling
        descend(self.optimizer, citing + settings.sign_weight * signs, rate)
        self.curriculum.note(step, right)
        return {"citing": float(citing.detach()), "signs": float(signs.detach()), "right": right}

    def run(
        self, state: Path | None = None, *, until: int | None = None, progress: bool = False
    ) -> None:
        """Train to the end, or to a step; go on from a file of state where there is one.

        Args:
            state: the file.
            until: the step to stop before; all steps when None.
            progress: show a progress bar.

        Raises:
            ConfigError: the file is of other settings.
        """
        parts = {
            "model": self.model,
            "signs": self.signs,
            "optimizer": self.optimizer,
            "curriculum": self.curriculum,
        }
        stages = [asdict(stage) for stage in STAGES]
        run_steps(
            self.advance,
            parts,
            until or self.settings.steps,
            state=state,
            settings=fingerprint_object([asdict(self.settings), stages]),
            every=50,
            progress=progress,
        )
