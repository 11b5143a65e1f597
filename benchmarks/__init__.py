"""Builders, experiments and speed benchmarks: they produce data and numbers for rulerag."""
