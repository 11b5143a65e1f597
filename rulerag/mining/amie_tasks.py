"""Size questions as columns, and how they are shared out among the calls of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulerag.mining.amie_index import Longs
from rulerag.mining.amie_work import Arrays, join

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulerag.mining.amie_work import Work

__all__ = ["SizeTasks", "measure"]


@dataclass(frozen=True)
class SizeTasks:
    """Size questions read from the functional end: a body under a head, one a row.

    Args:
        unit: int64 array of shape (n,), what a kernel call is made for.
        body: int64 array of shape (n,), which body within its unit.
        head: int64 array of shape (n,), directed heads.
        support: int64 array of shape (n,).
    """

    unit: Longs
    body: Longs
    head: Longs
    support: Longs

    def rows(self, rows: Longs | slice) -> SizeTasks:
        """Some rows."""
        return SizeTasks(self.unit[rows], self.body[rows], self.head[rows], self.support[rows])

    def bodies(self) -> tuple[Longs, Longs]:
        """The distinct bodies of sorted tasks, and where the tasks of each start and end."""
        bodies, starts = np.unique(self.body, return_index=True)
        return bodies, np.append(starts, len(self.body))


def measure(
    work: Work,
    label: str,
    stage: str,
    kernel: Callable[[dict[int, SizeTasks]], Callable[[int], Arrays]],
    tasks: SizeTasks,
) -> Arrays:
    """PCA and standard body sizes of all tasks, in their order.

    Args:
        work: where kernels run.
        label: the bar's words.
        stage: names the results on disk.
        kernel: from the tasks of each unit to a picklable function of the unit, which returns PCA
            sizes by task and standard sizes by body.
        tasks: the questions.
    """
    order = np.lexsort((tasks.head, tasks.body, tasks.unit))
    ordered = tasks.rows(order)
    units, starts = np.unique(ordered.unit, return_index=True)
    bounds = np.append(starts, len(order)).tolist()
    slices = {
        unit: ordered.rows(slice(bounds[i], bounds[i + 1])) for i, unit in enumerate(units.tolist())
    }
    found = work.map(label, stage, kernel(slices), list(slices))
    spread = [
        (pca, np.repeat(body, np.diff(part.bodies()[1])))
        for (pca, body), part in zip(found, slices.values(), strict=True)
    ]
    pca, body = join(spread)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pca[back], body[back]
