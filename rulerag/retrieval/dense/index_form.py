"""The FAISS indexes that vectors can be kept in, checked before anything is encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError, MissingDependencyError

EXACT = "Flat"
"""The index that compares every vector."""

_ANY = 3072  # a dimension that every product quantizer can divide


@dataclass(frozen=True)
class IndexForm:
    """How vectors are kept and searched.

    Args:
        index: a string of FAISS's ``index_factory``: ``Flat``, ``HNSW32``, ``IVF1024,SQ8``,
            ``PQ48``, ...
        search_parameters: how it is searched, as FAISS writes it: ``nprobe=16``, ``efSearch=64``;
            also ``efConstruction`` of HNSW. FAISS's own where they are empty.
    """

    index: str = EXACT
    search_parameters: str = ""

    @property
    def exact(self) -> bool:
        """Whether every vector is compared as it is."""
        return self.index == EXACT

    def empty(self, dimension: int | None) -> Any:
        """An empty FAISS index for inner products.

        Args:
            dimension: the length of the vectors; None where it is not known yet.

        Raises:
            ConfigError: FAISS does not know the index, or a parameter of it, or cannot make it for
                vectors of this length.
            MissingDependencyError: faiss is not installed.
        """
        faiss = import_faiss()
        try:
            made = faiss.index_factory(dimension or _ANY, self.index, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise ConfigError(
                f"FAISS cannot make an index {self.index!r}"
                + (f" of vectors of {dimension} numbers" if dimension else ""),
                key="index",
                hint="say Flat (exact), HNSW32, SQ8 or IVF1024,Flat, a string of its index_factory",
            ) from error
        self.tune(made)
        return made

    def tune(self, index: Any) -> None:
        """Have an index searched as the form says.

        Raises:
            ConfigError: the index has no such parameters.
        """
        try:
            import_faiss().ParameterSpace().set_index_parameters(index, self.search_parameters)
        except RuntimeError as error:
            raise ConfigError(
                f"{self.search_parameters!r} means nothing to an index {self.index!r}",
                key="search_parameters",
                hint="nprobe=16 for IVF, efSearch=64 for HNSW, nothing for Flat",
            ) from error


def import_faiss() -> Any:
    """The module, or a MissingDependencyError that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss-cpu", "dense") from error
    return faiss
