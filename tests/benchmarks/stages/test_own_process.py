"""Runs in a process of their own."""

from __future__ import annotations

import os
import signal

import pytest

from benchmarks.stages.own_process import in_own_process
from rulerag.errors import RetrievalError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_run_in_a_fork_tells_why_it_failed() -> None:
    def fails() -> None:
        raise RetrievalError("the index is gone")

    with pytest.raises(RetrievalError, match="the index is gone"):
        in_own_process(fails)
    with pytest.raises(RetrievalError, match="it was killed"):
        in_own_process(lambda: os.kill(os.getpid(), signal.SIGKILL))
    in_own_process(lambda: None)
