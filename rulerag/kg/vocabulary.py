"""Names by id, and the readable label of each name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean


class Vocabulary:
    """Names by id, ids by name, and one readable label for each name.

    Args:
        names: the raw names; position is the id.
        labels: readable labels in the same order, unique, or what makes them when they are first
            needed; the names themselves when None.
        aliases: what else names are called, by raw name; names that are not here are passed over.

    Raises:
        DataFormatError: a name or a label occurs twice.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Sequence[str] | Callable[[], Sequence[str]] | None = None,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.names = list(names)
        self._make_labels = labels if callable(labels) else None
        self._ids = dict(zip(self.names, range(len(self.names)), strict=True))
        self.aliases = {n: tuple(also) for n, also in (aliases or {}).items() if n in self._ids}
        if len(self._ids) != len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._ids[name] != i)
            raise DataFormatError(f"the name {twice!r} has two ids")
        if not callable(labels):
            self.labels = list(labels) if labels is not None else self.names
            if len(self.labels) != len(self.names):
                raise DataFormatError(f"{len(self.labels)} labels for {len(self.names)} names")
            if len(self._label_ids) != len(self.labels):
                twice = next(x for i, x in enumerate(self.labels) if self._label_ids[x] != i)
                raise DataFormatError(
                    f"two names share the label {twice!r}", hint="labels must be unique"
                )

    @cached_property
    def labels(self) -> list[str]:
        """The readable label of each name."""
        return list(self._make_labels()) if self._make_labels is not None else self.names

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def id(self, name: str) -> int:
        """The id of a raw name, or of a label.

        Raises:
            UnknownNameError: neither; suggests close names.
        """
        number = self._ids.get(name)
        if number is None:
            number = self._label_ids.get(name)
        if number is None:
            raise UnknownNameError(f"{name!r} is not in the graph", hint=self._hint(name))
        return number

    def label(self, name: str) -> str:
        """The readable label of a raw name; a name that is not here is returned as it is."""
        number = self._ids.get(name)
        return name if number is None else self.labels[number]

    def name_of_label(self, label: str) -> str:
        """The raw name behind a label (or behind a raw name, which no other label equals).

        Raises:
            UnknownNameError: no name has it; suggests close labels.
        """
        number = self._label_ids.get(label)
        return self.names[self.id(label) if number is None else number]

    def _hint(self, name: str) -> str:
        # Close matches are costly to find among many; those that share a beginning come first.
        start = name[:2].casefold()
        near = [label for label in self.labels if label[:2].casefold() == start]
        return did_you_mean(name, near if len(self) > 2000 and near else self.labels)

    @cached_property
    def _label_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}
