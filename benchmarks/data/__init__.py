"""Public data sets (``python -m benchmarks.data``): the command of the installed library."""
