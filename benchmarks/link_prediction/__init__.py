"""Link prediction with rules (``python -m benchmarks.link_prediction``) and its tables."""
