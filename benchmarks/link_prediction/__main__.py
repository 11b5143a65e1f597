"""``python -m benchmarks.link_prediction`` is ``rulerag link-prediction``.

Settings may be written as options too: ``--num-walks 200`` for ``num_walks=200``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rulerag.cli import main as rulerag
from rulerag.evaluation.link_prediction import LinkPredictionSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    try:
        rulerag(["link-prediction", *_with_settings(sys.argv[1:] if argv is None else argv)])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def _with_settings(words: Sequence[str]) -> Iterator[str]:
    """Options that are settings as ``KEY=VALUE``; the other words as they are."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        key = option.removeprefix("--").replace("-", "_")
        if word.startswith("--") and key in LinkPredictionSettings.model_fields and key != "limit":
            value = value if equals else next(rest, "")
            yield f"{key}=[{value}]" if key == "lengths" else f"{key}={value}"
        elif (option, value) == ("--miner", "rules"):
            continue
        elif option == "--miner" and not equals:
            miner = next(rest, "")
            if miner != "rules":  # whose --rules FILE says all
                yield from ("--miner", miner)
        else:
            yield word


if __name__ == "__main__":
    sys.exit(main())
