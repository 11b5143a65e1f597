"""Kernels run where nothing can be cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rulerag.mining.runtime.jit import compiled, inlined


@pytest.mark.parametrize("compiler", [compiled, inlined])
def test_a_function_without_a_place_for_a_cache_still_compiles(
    compiler: Callable[..., Callable[..., Any]],
) -> None:
    # numba refuses to cache what stands in no file, as it refuses an install it cannot write.
    scope: dict[str, object] = {}
    exec(compile("def double(x):\n    return 2 * x\n", "<nowhere>", "exec"), scope)
    assert compiler(scope["double"])(21) == 42
