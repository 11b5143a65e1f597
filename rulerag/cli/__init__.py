"""The command line: thin commands, each a few library calls."""

from rulerag.cli.app import command_line, main

__all__ = ["command_line", "main"]
