"""How fast the hot paths are (``python -m benchmarks.speed NAME``), each as a ratio."""
