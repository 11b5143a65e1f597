"""One RuleQA benchmark, loaded once, and the folder of its runs.

A folder of runs holds::

checkpoints/<base>/<benchmark>/<method>-<seed>   fine-tuned query encoders
readers/<base>/<benchmark>/<method>-<seed>       LoRA adapters of fine-tuned readers
rows/<benchmark>/<query set>/<row>-<seed>.*      what retrieval found, and its measures
reading/<benchmark>/<query set>/<row>-<seed>.*   answers, and their measures
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

import rulerag
from rulerag.io import fingerprint_file, fingerprint_object
from rulerag.retrieval.base import latest_of
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

SHIPPED = Path(rulerag.__file__).parent / "models" / "nano-encoder"


@dataclass
class Bench:
    """One benchmark, loaded once, and the folder of its runs.

    Args:
        name: ``ruleqa-i`` for example.
        folder: its dataset folder.
        out: the folder of the runs.
        encoder: the encoder to use instead of the one that the experiment files name.
        overrides: further changes of every training run, ``key=value``.
        isolate: run every row in a process of its own, which tells its peak memory.
        sample: so many of the queries at most, drawn by seed 0; all when 0.
        variant: of the dataset, ``degenerate`` for example; its rows are kept apart.
    """

    name: str
    folder: Path
    out: Path
    encoder: str = ""
    overrides: tuple[str, ...] = ()
    isolate: bool = True
    sample: int = 0
    variant: str = ""
    _queries: dict[str, list[Query]] = field(default_factory=dict)

    @cached_property
    def dataset(self) -> RuleQADataset:
        """The dataset, read when it is first needed."""
        return RuleQADataset.load(self.folder)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The corpus row of a document id."""
        return {document.id: row for row, document in enumerate(self.dataset.corpus)}

    @cached_property
    def statements(self) -> list[int]:
        """For each corpus row the row that states the same facts last."""
        return latest_of(self.dataset.corpus)

    def queries(self, query_set: str) -> list[Query]:
        """The queries of a set."""
        if query_set not in self._queries:
            queries = self.dataset.query_set(query_set)
            if self.sample and len(queries) > self.sample:
                chosen = np.random.default_rng(0).permutation(len(queries))[: self.sample]
                queries = [queries[n] for n in np.sort(chosen)]
            self._queries[query_set] = queries
        return self._queries[query_set]

    @property
    def encoder_folder(self) -> Path:
        """The folder of the encoder that every dense row starts from."""
        return Path(self.encoder) if self.encoder else SHIPPED

    @cached_property
    def base(self) -> str:
        """A fingerprint of the weights that every dense row starts from."""
        weights = sorted(self.encoder_folder.rglob("*.safetensors"))
        return fingerprint_object([fingerprint_file(place) for place in weights] or self.encoder)

    def checkpoint(self, method: str, seed: int) -> Path:
        """The folder of a fine-tuned query encoder; another base, another folder."""
        return self.out / "checkpoints" / self.base[:8] / self.name / f"{method}-{seed}"

    def place(self, row: str, query_set: str, seed: int = 0, tag: str = "") -> Path:
        """The path of a row's record, without its suffix."""
        asked = self.variant or query_set
        return self.out / "rows" / self.name / asked / f"{row}{tag}-{seed}"

    def reading(self, row: str, query_set: str, seed: int = 0) -> Path:
        """The path of the record of a reading, without its suffix; ``row`` with its tags."""
        return self.out / "reading" / self.name / (self.variant or query_set) / f"{row}-{seed}"


def tell(line: str) -> None:
    """A line about the work, beside its results."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
