"""English for sets of sources, "D2 or D5 is kept", and for what found them, "by rule R3"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "condition",
    "factored",
    "finding",
    "in_words",
    "listing",
    "quoted",
    "runs",
    "shortened",
    "told_sets",
]

MOST_SETS = 4
"""More joint sets than this are counted, not spelt out."""

MOST_RULES = 3
"""More rules behind one document than this are counted."""

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERED = re.compile(r"(\D*)(\d+)")

Names = Sequence[str]


def listing(words: Sequence[str], last: str = "and") -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def runs(names: Iterable[str]) -> list[str]:
    """The names with three or more neighbours drawn together: ``D1``, ``D4 to D7``."""
    groups: list[list[str]] = []
    for name in names:
        if groups and _follows(groups[-1][-1], name):
            groups[-1].append(name)
        else:
            groups.append([name])
    drawn: list[str] = []
    for group in groups:
        drawn += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else group
    return drawn


def _follows(before: str, after: str) -> bool:
    first, second = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    return (
        first is not None
        and second is not None
        and first[1] == second[1]
        and int(first[2]) + 1 == int(second[2])
    )


def in_words(number: int) -> str:
    """The number as a word up to ten, in digits beyond."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def shortened(text: str, width: int = 100) -> str:
    """The text on one line, cut with an ellipsis where it is longer than ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def told_sets(sets: Sequence[Names]) -> list[Names]:
    """The sets that :func:`condition` spells out: all single ones, and joint ones up to a limit."""
    joint = _smallest_first([names for names in sets if len(names) > 1])
    common, rest = factored(joint)
    told = [
        names
        for names, part in zip(joint, rest, strict=True)
        if part in _spelt_out(rest) or (common and len(part) == 1)
    ]
    return [*(names for names in sets if len(names) == 1), *told]


def factored(sets: Sequence[Names]) -> tuple[list[str], list[Names]]:
    """What three sets or more have in common, and what each of them holds besides.

    Args:
        sets: sets of names, none inside another.

    Returns:
        The common names, none for fewer than three sets; and the sets without them, in order.
    """
    if len(sets) < 3:
        return [], list(sets)
    common = [name for name in sets[0] if all(name in names for names in sets)]
    rest = [tuple(name for name in names if name not in common) for names in sets]
    return (common, list(rest)) if common and all(rest) else ([], list(sets))


def condition(sets: Sequence[Names], done: str) -> str:
    """When one of some sets of sources is wholly kept, or wholly removed, in words.

    Single sources come first, then larger sets, smallest first; what many of them have in common
    is said once, and beyond a few they are counted.

    Args:
        sets: at least one set of names, none empty.
        done: ``kept`` or ``removed``.
    """
    single = [names[0] for names in sets if len(names) == 1]
    joint = _smallest_first([names for names in sets if len(names) > 1])
    parts = []
    if len(single) > 3:
        parts.append(f"any one of {listing(runs(single))} is {done}")
    elif single:
        parts.append(f"{listing(single, 'or')} is {done}")
    threshold = _any_so_many(joint)
    common, rest = factored(joint)
    if threshold is not None:
        size, names = threshold
        parts.append(f"any {in_words(size)} of {listing(runs(names))} are {done}")
    elif common:
        verb = "is" if len(common) == 1 else "are"
        parts.append(f"{listing(runs(common))} {verb} {done} together with {_partners(rest)}")
    elif len(joint) > 2:
        parts.append(f"all of one of these sets is {done}: {_spelt(joint)}")
    else:
        parts += [_joint(names, done) for names in joint]
    return ", or ".join(parts)


def _partners(sets: Sequence[Names]) -> str:
    """What stands beside a common part, without a verb."""
    single = [names[0] for names in sets if len(names) == 1]
    joint = [names for names in sets if len(names) > 1]
    threshold = _any_so_many(joint)
    parts = []
    if len(single) > 3:
        parts.append(f"any one of {listing(runs(single))}")
    elif single:
        parts.append(listing(single, "or"))
    if threshold is not None:
        size, names = threshold
        parts.append(f"any {in_words(size)} of {listing(runs(names))}")
    elif len(joint) == 1:
        parts.append(f"all of {listing(runs(joint[0]))}")
    elif joint:
        parts.append(f"all of one of these sets: {_spelt(joint)}")
    return ", or ".join(parts)


def _spelt(joint: Sequence[Names]) -> str:
    """Sets one by one up to a limit, and how many there are besides."""
    told = "; ".join(" + ".join(names) for names in joint[:MOST_SETS])
    more = len(joint) - MOST_SETS
    return f"{told}, or of {more} further {'one' if more == 1 else 'ones'}" if more > 0 else told


def _spelt_out(sets: Sequence[Names]) -> list[Names]:
    """Those of some sets that are said name by name."""
    joint = [names for names in sets if len(names) > 1]
    if len(joint) <= MOST_SETS or _any_so_many(joint):
        return joint
    return joint[:MOST_SETS]


def _smallest_first(sets: Sequence[Names]) -> list[Names]:
    return sorted(sets, key=len)


def _any_so_many(sets: Sequence[Names]) -> tuple[int, list[str]] | None:
    """The size and the names when the sets are all the sets of one size over some names."""
    sizes = {len(names) for names in sets}
    if len(sets) < 2 or len(sizes) > 1:
        return None
    size, names = sizes.pop(), list(dict.fromkeys(name for names in sets for name in names))
    return (size, names) if len(sets) == math.comb(len(names), size) else None


def _joint(names: Names, done: str) -> str:
    if done == "kept":
        return f"{listing(runs(names))} are kept together"
    return f"{listing(runs(names))} are {'both' if len(names) == 2 else 'all'} {done}"


def quoted(output: str | None) -> str:
    """What a generator said, for the middle of a sentence."""
    if output is None:
        return "was not asked"
    return f"says “{shortened(output, 80)}”" if output.strip() else "says nothing"


def finding(
    found: Mapping[str, tuple[str | None, ...]], texts: Mapping[str, str], *, pronoun: bool
) -> str:
    """Which rules found some documents, as a clause.

    Args:
        found: document names to the rules that found each, None standing for the query alone.
        texts: rules to their text; it follows a rule's first mention in parentheses.
        pronoun: say "it", "both" or "all" where one search story covers every document.
    """
    stories: dict[tuple[str | None, ...], list[str]] = {}
    for document, rules in found.items():
        stories.setdefault(rules, []).append(document)
    mentioned: set[str] = set()
    clauses: list[str] = []
    for rules, documents in stories.items():
        who, verb = listing(runs(documents)), "was" if len(documents) == 1 else "were"
        if pronoun and len(stories) == 1:
            who = {1: "it", 2: "both"}.get(len(documents), "all")
        by = _searches(rules, texts, mentioned)
        found_verb = f"{verb} found " if by and not clauses else ""
        clauses.append(f"{who} {found_verb}{by}" if by else f"no search is recorded for {who}")
    return listing(clauses)


def _searches(rules: tuple[str | None, ...], texts: Mapping[str, str], mentioned: set[str]) -> str:
    named = [rule for rule in rules if rule is not None]
    told = named if len(named) <= MOST_RULES else named[: MOST_RULES - 1]
    words = [
        f"{rule} ({texts[rule]})" if rule in texts and rule not in mentioned else rule
        for rule in told
    ]
    mentioned.update(told)
    if len(named) > len(told):
        words.append(f"{len(named) - len(told)} others")
    ways = [f"by rule{'s' if len(words) > 1 else ''} {listing(words)}"] if words else []
    if None in rules:
        ways.append("by the plain query")
    return " and ".join(ways)
