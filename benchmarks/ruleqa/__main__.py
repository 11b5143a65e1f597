"""RuleQA benchmarks: ``python -m benchmarks.ruleqa build`` is ``rulerag ruleqa build``, and so on.

Settings may be written as options here (``--num-queries 20`` for ``num_queries=20``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from benchmarks.common.forwarding import forward
from rulerag.ruleqa import RuleQASettings

_OPTIONS = {f"--{name.replace('_', '-')}": name for name in RuleQASettings.model_fields}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["build"]:
        words = [*_with_settings(words), "--program", "python -m benchmarks.ruleqa"]
    return forward("ruleqa", words)


def _with_settings(words: Sequence[str]) -> Iterator[str]:
    """Options that are settings as ``KEY=VALUE``; the other words as they are."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            yield f"{_OPTIONS[option]}={value if equals else next(rest, '')}"
        else:
            yield word


if __name__ == "__main__":
    sys.exit(main())
