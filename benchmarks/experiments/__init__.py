"""RuleRAG's tables and figures (``python -m benchmarks.experiments run`` and ``report``)."""
