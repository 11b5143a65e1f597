"""Readers: generators that answer from documents and rules."""

from rulerag.generation.prompts.template import (
    compact as prompts_compact,  # makes itself known by name
)
