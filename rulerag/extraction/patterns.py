"""Which relation words mean: learned from known facts whose ends the words join in a text.

Distant supervision (Mintz et al. 2009, section 1): where words join the two ends of a known fact,
at its time where both have one, they may say that fact's relation. What they say most often, they
mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rulerag.composition import read_values
from rulerag.errors import DataFormatError
from rulerag.extraction.words import stems_of
from rulerag.io import to_json, write_text
from rulerag.kg import derived_phrase
from rulerag.rules import readable
from rulerag.types import Fact

INVERSE = "^"
"""Before a relation: the words name its object first."""
_PRIOR = 0.5
# How often counts are shared out, and the least of them that is kept.
_SHARINGS, _LEAST_SHARE, _TWICE = 10, 0.05, 1.5
# What words count that would name the object of a fact first: most name its subject first, and the
# sentence that does may have a pronoun.
_TURNED = 0.25

Stems = tuple[str, ...]
"""The stems of the words between two names."""
Evidence = tuple[Stems, str, str]
"""Stems, the words as they are written, and the relation that they may mean."""


class Meaning(NamedTuple):
    """What words may mean.

    Args:
        relation: the relation, with :data:`INVERSE` where the words name its object first.
        confidence: a fraction.
        pattern: the pattern that says so, in words.
    """

    relation: str
    confidence: float
    pattern: str


class PatternBook:
    """Patterns of words, and how often each meant which relation.

    Args:
        counts: for each pattern, a tuple of stems, how often it meant each relation.
        words: each pattern as it was first written.
    """

    def __init__(
        self,
        counts: Mapping[Stems, Mapping[str, float]] | None = None,
        words: Mapping[Stems, str] | None = None,
    ) -> None:
        self.counts: dict[Stems, dict[str, float]] = {
            stems: dict(one) for stems, one in (counts or {}).items()
        }
        self.words = dict(words or {})

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def relations(self) -> list[str]:
        """The relations that patterns mean."""
        found = (one.removeprefix(INVERSE) for counts in self.counts.values() for one in counts)
        return list(dict.fromkeys(found))

    def add(self, stems: Stems, words: str, relation: str, weight: float) -> None:
        """Take up what words meant.

        Args:
            stems: those of the words.
            words: as they are written.
            relation: that of a known fact whose ends they join.
            weight: how much that counts.
        """
        counts = self.counts.setdefault(stems, {})
        counts[relation] = counts.get(relation, 0.0) + weight
        self.words.setdefault(stems, words)

    def add_labels(self, labels: Mapping[str, str]) -> None:
        """Take up the words of relations' own labels, derived and inflected, where none are known.

        Args:
            labels: the words of each raw relation.
        """
        for relation, name in labels.items():
            label = readable(name)
            start, _, rest = derived_phrase(label).partition("{x}")
            # A noun ("the capital of {x} is {y}") may be a verb that nobody knows: its own words.
            middle = label if start else rest.partition("{y}")[0].strip(" :")
            stems = stems_of(middle.split())
            if stems and relation not in self.counts.get(stems, ()):
                self.add(stems, middle, relation, 1.0)

    def wording(self, relation: str) -> str | None:
        """The words that say a relation most often, subject first; None where none do.

        Args:
            relation: a raw name.
        """
        said = (
            (counts.get(relation, 0.0), self.words[stems]) for stems, counts in self.counts.items()
        )
        best = max(said, default=(0.0, ""))
        return best[1] if best[0] else None

    def meanings(self, stems: Stems) -> list[Meaning]:
        """What words may mean by the longest pattern that they end with, the surest first.

        Args:
            stems: those of the words between two names.
        """
        for start in range(len(stems)):
            if stems[start:] in self.counts:
                return self._of(stems[start:])
        return []

    def _of(self, stems: Stems) -> list[Meaning]:
        counts = self.counts[stems]
        total = sum(counts.values()) + _PRIOR
        return [
            Meaning(relation, count / total, self.words[stems])
            for relation, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        ]

    def save(self, path: str | Path) -> None:
        """Write the patterns as YAML, to be read and edited: by relation, words and counts.

        Raises:
            OutputError: the file cannot be written.
        """
        rows: dict[str, dict[str, float]] = {}
        for stems, counts in self.counts.items():
            for relation, count in counts.items():
                rows.setdefault(relation, {})[self.words[stems]] = count
        lines = [
            "# For each relation the words between subject and object, and how often they said it.",
            "# ^relation: the words stand between its object and its subject.",
        ]
        for relation in sorted(rows):
            lines.append(f"{to_json(relation)}:")
            lines += [
                f"  {to_json(said)}: {count:g}" for said, count in sorted(rows[relation].items())
            ]
        write_text(path, "\n".join([*lines, ""]))

    @classmethod
    def load(cls, path: str | Path) -> PatternBook:
        """Read what :meth:`save` wrote.

        Raises:
            ConfigError: the file is no YAML.
            DataFormatError: it holds no patterns.
        """
        book = cls()
        for relation, rows in read_values(Path(path)).items():
            if not isinstance(rows, Mapping):
                raise DataFormatError(
                    "expected words and how often they said it",
                    path=path,
                    key=str(relation),
                    hint='for example "joined: 3"',
                )
            for said, count in rows.items():
                book.add(stems_of(str(said).split()), str(said), str(relation), float(count))
        return book


def shared_out(
    stated: Mapping[Fact, Collection[Evidence]], known: Mapping[Stems, Mapping[str, float]]
) -> Iterator[tuple[Stems, str, str, float]]:
    """What words say of undated facts, each of which is shared out among what joins its ends.

    Where rules hold, two who have one relation have others too, and no date tells which of several
    clauses says which. One of them says the fact (Riedel et al. 2010, section 3): the likelier the
    more often its words say that relation elsewhere, and the less often others (expectation
    maximisation).

    Args:
        stated: for each fact all that joins its ends.
        known: how often words are known to say relations already.

    Yields:
        What :meth:`PatternBook.add` takes up.
    """
    written: dict[Stems, str] = {}
    choices: list[list[tuple[Stems, str]]] = []
    for own in stated.values():
        written |= {words: text for words, text, _ in sorted(own, reverse=True)}
        choices.append(sorted({(words, relation) for words, _, relation in own}))
    base = {(w, r): count for w, row in known.items() for r, count in row.items()}
    every = Counter(base) + Counter(one for own in choices for one in own)
    totals: dict[Stems, float] = {}
    for (words, _), count in every.items():
        totals[words] = totals.get(words, 0.0) + count
    # Words that stand with facts of many relations say none of these for that alone.
    alone = {one: (count / totals[one[0]]) ** 2 for one, count in every.items()}
    shares = [[1 / len(own)] * len(own) for own in choices]
    counts = dict(base)
    for _ in range(_SHARINGS):
        counts = dict(base)
        for own_choices, own_shares in zip(choices, shares, strict=True):
            for one, share in zip(own_choices, own_shares, strict=True):
                counts[one] = counts.get(one, 0.0) + share
        for number, own_choices in enumerate(choices):
            likely = [counts[one] * alone[one] for one in own_choices]
            shares[number] = [one / sum(likely) for one in likely]
    # Once, and beside others that may say it, is no evidence.
    sure = {own[0] for own in choices if len(own) == 1} | base.keys()
    for own_choices, own_shares in zip(choices, shares, strict=True):
        for one, share in zip(own_choices, own_shares, strict=True):
            weight = share * (_TURNED if one[1].startswith(INVERSE) else 1.0)
            if weight >= _LEAST_SHARE and (one in sure or counts[one] >= _TWICE):
                yield one[0], written[one[0]], one[1], weight
