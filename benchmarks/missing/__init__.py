"""Systems side by side on questions whose fact is missing (``python -m benchmarks.missing``)."""
