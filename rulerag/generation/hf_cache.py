"""Keys and values of a batch in memory that is taken once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

__all__ = ["roomy_cache"]


def roomy_cache(prefix: Sequence[tuple[Any, Any]], rows: int, capacity: int) -> Any:
    """A cache of transformers that writes in place where its own copies all of it at each step.

    Args:
        prefix: keys and values of the shared beginning by layer, of one row; may be empty.
        rows: of the batch.
        capacity: the most tokens that a row will have.
    """
    from transformers.cache_utils import Cache

    layer = _layer_class()
    if prefix:
        return Cache(layers=[layer(rows, capacity, keys, values) for keys, values in prefix])
    make: Any = Cache  # asks for a class and only ever calls it
    return make(layer_class_to_replicate=partial(layer, rows, capacity))


@cache
def _layer_class() -> Any:
    from transformers.cache_utils import DynamicLayer

    class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
        """One layer; ``keys`` and ``values`` are the used part of the memory."""

        def __init__(self, rows: int, capacity: int, keys: Any = None, values: Any = None) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.rows, self.capacity, self.used = rows, capacity, 0
            if keys is not None:
                self.take(keys, values)
                self.write(keys, values)

        def take(self, keys: Any, values: Any) -> None:
            """Take memory for states of this kind."""
            self.dtype, self.device = keys.dtype, keys.device
            self.all_keys, self.all_values = (
                states.new_empty((self.rows, states.shape[1], self.capacity, states.shape[3]))
                for states in (keys, values)
            )
            self.is_initialized = True

        def write(self, keys: Any, values: Any) -> None:
            """Append states; those of one row go to every row."""
            end = self.used + keys.shape[-2]
            self.all_keys[:, :, self.used : end] = keys
            self.all_values[:, :, self.used : end] = values
            self._show(end)

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
            if not self.is_initialized:
                self.take(key_states, value_states)
            self.write(key_states, value_states)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            self.rows = len(indices)
            self.all_keys, self.all_values = self.all_keys[indices], self.all_values[indices]
            self._show(self.used)

        def _show(self, end: int) -> None:
            self.used = end
            self.keys = self.all_keys[:, :, :end]
            self.values = self.all_values[:, :, :end]

    return RoomyLayer
