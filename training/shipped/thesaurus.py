r"""Makes ``rulerag/linking/thesaurus.txt.gz`` from the database files of WordNet 3.1.

It holds words and phrases without capitals that occur in WordNet's tagged texts, their five most
usual senses, and the words that share one of these. ``rulerag/kg/verbs.txt`` is made of it: words
whose most usual sense is a verb's, so that "visit" is one and "book" is not.

    python -m training.shipped.thesaurus WORDNET/dict --out rulerag/linking/thesaurus.txt.gz \
        --verbs rulerag/kg/verbs.txt
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.io import write_text

_FILES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_PARTS = "nvara"  # of speech, as index.sense numbers them from 1; 5 are satellite adjectives
_SENSES = 5
_FIRST_VERB = "breathe1"
_FIRST_SENSE = re.compile(r"([a-z]+)1")
_WORD = re.compile(r"[a-z]+(?:[_'-][a-z]+){0,3}")
_MARKER = re.compile(r"\([a-z]+\)$")  # of the syntax of an adjective
_GENERAL = "@"
# Derived from, attribute of, like, pertaining to, see also, of one group of verbs.
_ALIKE = ("+", "=", "&", "\\", "^", "$")
HEADER = """\
# Senses of English words, taken from WordNet 3.1 by training/shipped/thesaurus.py.
# WordNet 3.1 Copyright 2011 by Princeton University. All rights reserved. Permission to use,
# copy, modify and distribute this software and database and its documentation for any purpose
# and without fee or royalty is hereby granted, provided that you agree to comply with the
# following copyright notice and statements, including the disclaimer, and that the same appear
# on ALL copies of the software, database and documentation, including modifications that you
# make for internal use or for distribution. THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND
# PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED. BY WAY OF
# EXAMPLE, BUT NOT LIMITATION, PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES OF
# MERCHANTABILITY OR FITNESS FOR ANY PARTICULAR PURPOSE OR THAT THE USE OF THE LICENSED
# SOFTWARE, DATABASE OR DOCUMENTATION WILL NOT INFRINGE ANY THIRD PARTY PATENTS, COPYRIGHTS,
# TRADEMARKS OR OTHER RIGHTS. The name of Princeton University or Princeton may not be used in
# advertising or publicity pertaining to distribution of the software and/or database. Title to
# copyright in this software, database and any associated documentation shall at all times
# remain with Princeton University and LICENSEE agrees to preserve same.
"""
Key = tuple[str, str]  # a part of speech and an offset in its file


@dataclass
class _Sense:
    words: list[str]
    general: list[Key]
    alike: list[Key]


def read_senses(folder: Path) -> dict[Key, _Sense]:
    """Every sense of the ``data`` files."""
    found = {}
    for name, part in _FILES.items():
        for line in (folder / f"data.{name}").read_text("latin-1").splitlines():
            if line.startswith("  "):  # the licence
                continue
            cells = line.partition(" | ")[0].split()
            size = int(cells[3], 16)
            words = [_MARKER.sub("", cells[4 + 2 * n]) for n in range(size)]
            start = 5 + 2 * size
            links = [cells[start + 4 * n : start + 4 * n + 3] for n in range(int(cells[start - 1]))]
            keys = [(kind, (_part(target), offset)) for kind, offset, target in links]
            found[part, cells[0]] = _Sense(
                words,
                [key for kind, key in keys if kind.startswith(_GENERAL)],
                [key for kind, key in keys if kind in _ALIKE],
            )
    return found


def _part(letter: str) -> str:
    return "a" if letter == "s" else letter


def read_order(folder: Path) -> tuple[dict[str, list[Key]], set[str]]:
    """The senses of each word, the most usual first, and the words that occur in tagged texts."""
    rows: dict[str, list[tuple[int, int, Key]]] = defaultdict(list)
    seen = set()
    for line in (folder / "index.sense").read_text("latin-1").splitlines():
        key, offset, number, count = line.split()
        word, _, rest = key.partition("%")
        rows[word].append((-int(count), int(number), (_PARTS[int(rest[0]) - 1], offset)))
        if count != "0":
            seen.add(word)
    return {word: [key for *_, key in sorted(one)[:_SENSES]] for word, one in rows.items()}, seen


def make(folder: Path) -> str:
    """The text of the thesaurus.

    Args:
        folder: with WordNet's ``data`` files and ``index.sense``.
    """
    senses, (order, seen) = read_senses(folder), read_order(folder)
    plain = {word for one in senses.values() for word in one.words if _WORD.fullmatch(word)}
    core = {key for word in plain & seen for key in order[word]}
    words = [
        word for word in sorted(plain) if word in seen or not core.isdisjoint(order.get(word, ()))
    ]
    members: dict[Key, list[str]] = defaultdict(list)
    for word in words:
        for rank, key in enumerate(order.get(word, ()), start=1):
            members[key].append(f"{word}{rank}")
    # A more general sense joins what is below it, whether or not a word of its own is kept.
    kept = {key for one in members for key in (one, *senses[one].general)}
    places = {key: number for number, key in enumerate(sorted(kept))}

    def numbers(keys: Sequence[Key]) -> str:
        return " ".join(map(str, sorted({places[key] for key in keys if key in places})))

    lines = [
        "\t".join(
            (" ".join(members.get(k, ())), numbers(senses[k].general), numbers(senses[k].alike))
        )
        for k in places
    ]
    return HEADER + "\n".join(lines) + "\n"


def verbs(lines: Sequence[str]) -> list[str]:
    """The words of a thesaurus that are verbs before anything else, in order.

    Args:
        lines: its senses; those of adjectives, nouns and adverbs come before those of verbs, and
            each word has the number of the sense among its own, the most usual first.

    Raises:
        DataError: they are not those of WordNet 3.1.
    """
    words = [line.partition("\t")[0].split() for line in lines if not line.startswith("#")]
    start = next((number for number, sense in enumerate(words) if _FIRST_VERB in sense), None)
    if start is None:
        raise DataError("no sense of «breathe» in the thesaurus", hint="make it anew")
    first = (_FIRST_SENSE.fullmatch(word) for sense in words[start:] for word in sense)
    return sorted({match[1] for match in first if match})


def _run(folder: Path, out: Path, verb_file: Path | None) -> None:
    if not (folder / "index.sense").is_file():
        raise DataError(
            f"{folder} holds no index.sense", hint="name the folder dict of WordNet 3.1's database"
        )
    text = make(folder)
    write_text(out, text)
    sys.stdout.write(f"{out}: {out.stat().st_size:,} bytes\n")
    if verb_file is not None:
        write_text(verb_file, "\n".join([*verbs(text.splitlines()), ""]))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.shipped.thesaurus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="dict of WordNet 3.1's database files")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--verbs", type=Path, help="the file of verbs to write too")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments.folder, arguments.out, arguments.verbs))


if __name__ == "__main__":
    sys.exit(main())
