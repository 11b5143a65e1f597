"""``python -m rulerag.cli``, for a checkout that is not installed."""

from rulerag.cli import main

main()
