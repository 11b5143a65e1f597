"""Makes ``rulerag/kg/verbs.txt`` from the thesaurus: words that are verbs before anything else.

The thesaurus lists the senses of adjectives, nouns, adverbs and verbs in this order, and each word
with the number of the sense among its own, the most usual first. A word is kept if its most usual
sense is a verb's, so that "visit" is and "book" is not.

    python -m training.shipped.verbs THESAURUS --out rulerag/kg/verbs.txt
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.io import read_text, write_text

_FIRST = "breathe1"  # of WordNet's verbs
_WORD = re.compile(r"([a-z]+)1")


def make(lines: Sequence[str]) -> list[str]:
    """The verbs of a thesaurus, in order.

    Args:
        lines: its senses.

    Raises:
        DataError: they are not those of WordNet 3.1.
    """
    words = [line.partition("\t")[0].split() for line in lines]
    start = next((number for number, said in enumerate(words) if _FIRST in said), None)
    if start is None:
        raise DataError("no sense of «breathe» in the thesaurus", hint="make it anew")
    found = (_WORD.fullmatch(word) for said in words[start:] for word in said)
    return sorted({match[1] for match in found if match})


def _run(thesaurus: Path, out: Path) -> None:
    senses = [line for line in read_text(thesaurus).splitlines() if not line.startswith("#")]
    verbs = make(senses)
    write_text(out, "\n".join([*verbs, ""]))
    sys.stdout.write(f"{out}: {len(verbs):,} verbs\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.shipped.verbs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("thesaurus", type=Path, help="thesaurus.txt.gz")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments.thesaurus, arguments.out))


if __name__ == "__main__":
    sys.exit(main())
