"""Readers: generators that answer from documents and rules."""

from rulerag.generation import prompts_compact as prompts_compact  # makes itself known by name
