"""Retrievers, rule selection and the rule-guided union."""
