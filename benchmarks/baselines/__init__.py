"""Answers by counts of the corpus's facts (``python -m benchmarks.baselines``)."""
