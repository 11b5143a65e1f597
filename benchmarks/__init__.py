"""Builders, experiments and speed benchmarks: they produce data and numbers for rulerag."""

from rulerag.lazy import say_where_modules_went

say_where_modules_went()
