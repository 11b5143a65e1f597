"""What an explanation costs, said before it starts, and a bar while the model is asked."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from tqdm import tqdm

_TIMED = 4
"""After so many probes their time says what the others may take."""


class Progress:
    """Says on standard error how many probes may be asked and how long they may take.

    Before the first probe it says their number at most, after the first few the seconds at most;
    where standard error is a terminal a bar stands there from the beginning.

    Args:
        answers: how many answers are explained.
        most: how many probes each of them takes at most; None where no number is certain.
        quiet: say and show nothing.
    """

    def __init__(self, answers: int, most: int | None, *, quiet: bool = False) -> None:
        self._most = most
        self._quiet = quiet
        self._total = None if most is None else answers * most
        self._done = 0
        self._asked = 0
        self._seconds = 0.0
        self._timed = False
        count = f"{answers:,} answer{'' if answers == 1 else 's'}"
        if most is None:
            self._say(f"explaining {count}: no limit of probes is set (max_probes)")
        else:
            each = f"{answers:,} × {most:,} = " if answers > 1 else ""
            self._say(f"explaining {count}: at most {each}{answers * most:,} probes")
        self._bar = tqdm(
            total=self._total, desc="probing", unit="probe", disable=quiet or None, leave=False
        )

    def add(self, probes: int, seconds: float) -> None:
        """Count some probes, and the seconds that they took together."""
        self._asked += probes
        self._seconds += seconds
        self._bar.update(probes)
        if not self._timed and self._asked >= _TIMED:
            self._timed = True
            each = self._seconds / self._asked
            most = "" if self._total is None else f": at most {each * self._total:,.1f} s in all"
            self._say(f"a probe takes {1000 * each:,.1f} ms{most}")

    def next_answer(self) -> None:
        """An answer is explained: what it left of its probes is not asked."""
        self._done += 1
        if self._most is not None:
            self._bar.update(max(0, self._done * self._most - self._bar.n))

    def __enter__(self) -> Self:
        """The progress itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        self._bar.close()

    def _say(self, text: str) -> None:
        if not self._quiet:
            tqdm.write(text, file=sys.stderr)
