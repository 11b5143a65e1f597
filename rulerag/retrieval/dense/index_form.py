"""The forms in which FAISS keeps vectors and searches them, checked before anything is encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulerag.composition import check_choice, check_range
from rulerag.errors import ConfigError, MissingDependencyError

EXACT = "Flat"
"""The index that compares every vector."""

VECTORS = ("float32", "int8", "binary")
"""What a search compares:

- ``float32``: the vectors;
- ``int8``: each number as one of 256 steps between the least and the largest of its place, FAISS's
  ``SQ8``: a quarter of the memory;
- ``binary``: each number as one bit, is it above the mean of its place, and eight bytes more a
  vector, by which the bits estimate inner products (RaBitQ, Gao & Long 2024, arXiv:2405.12497): of
  384 numbers a 27th of the memory. The nearest are compared again by the float32 vectors, which
  stay on disk: eight candidates for each wanted row, or ``k_factor_rf`` of the search parameters.
"""

# Kinds that had names of their own once.
_GONE = {
    "flat": EXACT,
    "ivf": "IVF1024,Flat",
    "hnsw": "HNSW32",
    "sq8": "SQ8",
    "ivf-sq8": "IVF1024,SQ8",
}
_ANY = 3072  # a dimension that every product quantizer can divide
_FLOATS = VECTORS[0]
_CODES = {"int8": "SQ8", "binary": "RaBitQ"}
_REFINED = "RaBitQ,RFlat"  # the index of FAISS that reads k_factor_rf
_AGAIN = 8  # candidates that binary vectors give for each wanted row


@dataclass(frozen=True)
class IndexForm:
    """How vectors are kept and searched.

    Args:
        index: a string of FAISS's ``index_factory``: ``Flat``, ``HNSW32``, ``IVF1024,Flat``,
            ``SQ8``, ...
        search_parameters: how it is searched, as FAISS writes it: ``nprobe=16``, ``efSearch=64``;
            also ``efConstruction`` of HNSW. FAISS's own where they are empty.
        vectors: one of :data:`VECTORS`.
    """

    index: str = EXACT
    search_parameters: str = ""
    vectors: str = _FLOATS

    @property
    def exact(self) -> bool:
        """Whether every vector is compared as it is."""
        return self.index == EXACT and self.vectors == _FLOATS

    def check(self) -> None:
        """Make sure that there is such an index.

        Raises:
            ConfigError: FAISS does not know the index, or a parameter of it, or the vectors do not
                go with it.
            MissingDependencyError: faiss is not installed.
        """
        check_choice("vectors", self.vectors, VECTORS)
        if self.vectors != _FLOATS and self.index != EXACT:
            raise ConfigError(
                f"{self.vectors} vectors are compared one by one, without an index {self.index!r}",
                key="vectors",
                hint="leave index out, or name both in it as FAISS does: IVF1024,SQ8",
            )
        self.empty(_ANY)
        check_range("search_parameters", self.candidates(), 1, hint="k_factor_rf=8")

    def empty(self, dimension: int) -> Any:
        """An empty FAISS index for inner products."""
        return self._made(dimension, self._name)

    def candidates(self) -> int:
        """Rows that FAISS finds for each wanted one."""
        return int(self._made(_ANY, _REFINED).k_factor) if self.vectors == "binary" else 1

    def tune(self, index: Any) -> None:
        """Have an index searched as the form says."""
        how = self.search_parameters
        if self.vectors == "binary":
            known = f"k_factor_rf={_AGAIN}"
            how = (f"{known},{how}" if how else known) if hasattr(index, "k_factor") else ""
        try:
            import_faiss().ParameterSpace().set_index_parameters(index, how)
        except RuntimeError as error:
            what = f"an index {self.index!r}" if self.vectors == _FLOATS else self.vectors
            raise ConfigError(
                f"{self.search_parameters!r} means nothing to {what}",
                key="search_parameters",
                hint="nprobe=16 for IVF, efSearch=64 for HNSW, k_factor_rf=8 for binary vectors, "
                "nothing for Flat",
            ) from error

    @property
    def _name(self) -> str:
        return _CODES.get(self.vectors, self.index)

    def _made(self, dimension: int, name: str) -> Any:
        faiss = import_faiss()
        try:
            empty = faiss.index_factory(dimension, name, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise ConfigError(
                f"FAISS cannot make an index {self.index!r}",
                key="index",
                hint=f"say {_GONE.get(self.index, 'Flat (exact), HNSW32, SQ8 or IVF1024,Flat')}, "
                "a string of its index_factory",
            ) from error
        self.tune(empty)
        return empty


def import_faiss() -> Any:
    """The module, or a MissingDependencyError that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss-cpu", "dense") from error
    return faiss
