"""RuleQA benchmarks (``python -m benchmarks.ruleqa``)."""
