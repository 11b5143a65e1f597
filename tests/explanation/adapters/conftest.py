"""No framework reports to its makers from a test."""

from __future__ import annotations

import os

for name in ("HAYSTACK_TELEMETRY_ENABLED", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING"):
    os.environ[name] = "false"
