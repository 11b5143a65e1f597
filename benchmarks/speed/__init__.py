"""Speed benchmarks (``python -m benchmarks.speed NAME``), each a ratio against a baseline."""
