"""Which examples are read together: those of one step that are about as long.

The examples of a step are drawn at random, as they would be anyway. A step is cut into the batches
of its passes and processes only after its examples are put in order of length, so that little of a
batch is padding, and the mean over all tokens of the step is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch


class StepsByLength(torch.utils.data.Sampler[int]):
    """The numbers of all examples in random order, within each step by length, longest first.

    Args:
        lengths: tokens of each example.
        per_step: examples of one step, over all passes and processes.
        seed: of the order, together with the number of the epoch.
        multiple: an epoch is filled up to a multiple of it, with the number ``len(lengths)``.
    """

    def __init__(
        self, lengths: Sequence[int], per_step: int, seed: int, *, multiple: int = 1
    ) -> None:
        self.lengths, self.per_step, self.seed = lengths, per_step, seed
        self.filled = -len(lengths) % multiple
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch by the trainer."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths) + self.filled

    def __iter__(self) -> Iterator[int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.lengths), generator=random).tolist()
        for start in range(0, len(order), self.per_step):
            step = order[start : start + self.per_step]
            # The longest first: where memory is short, the run ends at its begin.
            yield from sorted(step, key=lambda number: -self.lengths[number])
        yield from [len(self.lengths)] * self.filled
