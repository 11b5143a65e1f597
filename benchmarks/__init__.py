"""Builders, experiments and speed benchmarks: they produce data and numbers for rulerag."""

from rulerag.moved import say_where_modules_went

say_where_modules_went()
