"""RuleQA benchmarks (``python -m benchmarks.ruleqa``), and how many rules their graphs have."""
