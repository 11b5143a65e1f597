"""Makes ``rulerag/extraction/definitions.txt.gz`` from the database files of WordNet 3.1.

Of every sense in the thesaurus it has the words that define it, in their base forms: "wife" has
"married" and "woman".

    python -m training.shipped.definitions WORDNET/dict --out rulerag/extraction/definitions.txt.gz
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded
from rulerag.io import write_text
from rulerag.linking import Thesaurus
from training.shipped.thesaurus import HEADER, read_definitions, read_order

# Words of definitions that tell nothing.
_EMPTY_LIST = """
a an the of or to in for and by with that is are as on at from be being been was who which someone
somebody something especially used having has have had his her its one one's it their they them into
you not an other usually any such than more most some make made do does etc e g i when where without
"""
_EMPTY = frozenset(_EMPTY_LIST.split())
_WORD = re.compile(r"[a-z]+")


def make(folder: Path, source: Thesaurus) -> str:
    """The text of the definitions.

    Args:
        folder: with WordNet's ``data`` files and ``index.sense``.
        source: the thesaurus; a sense goes by its first word there, and that word's number of it.
    """
    definitions, (order, _) = read_definitions(folder), read_order(folder)
    lines = []
    for sense in range(len(source)):
        first, *_ = source.words(sense) or [""]
        key = first[:-1].replace(" ", "_")
        if not first or int(first[-1]) > len(order.get(key, ())):
            continue
        said = _WORD.findall(definitions[order[key][int(first[-1]) - 1]])
        kept = dict.fromkeys(_base(one, source) for one in said if one not in _EMPTY)
        if words := [one for one in kept if one and one not in _EMPTY]:
            lines.append(f"{first}\t{' '.join(words)}")
    return HEADER.replace("thesaurus.py", "definitions.py") + "\n".join(sorted(lines)) + "\n"


def _base(word: str, source: Thesaurus) -> str:
    """What a word is a form of; nothing if the thesaurus does not have it."""
    known = [one for one in source.bases(word) if source.has(one)]
    return known[-1] if known else ""


def _run(folder: Path, out: Path) -> None:
    write_text(out, make(folder, Thesaurus.shipped()))
    sys.stdout.write(f"{out}: {out.stat().st_size:,} bytes\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.shipped.definitions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="dict of WordNet 3.1's database files")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments.folder, arguments.out))


if __name__ == "__main__":
    sys.exit(main())
