"""Kernels run where nothing can be cached."""

from __future__ import annotations

from rulerag.mining.runtime.jit import compiled


def test_a_function_without_a_place_for_a_cache_still_compiles() -> None:
    # numba refuses to cache what stands in no file, as it refuses an install it cannot write.
    scope: dict[str, object] = {}
    exec(compile("def double(x):\n    return 2 * x\n", "<nowhere>", "exec"), scope)
    assert compiled(scope["double"])(21) == 42  # type: ignore[arg-type]
