"""English for sets of sources, "D2 or D5 is kept", and for what found them, "by rule R3"."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

_MOST_SETS = 4
"""More joint sets than this are counted, not spelt out."""

_MOST_RULES = 3
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

    def neighbourhood(item: tuple[int, str]) -> tuple[str, int]:
        place, name = item
        found = _NUMBERED.fullmatch(name)
        return (found[1], int(found[2]) - place) if found else (name, place)

    drawn: list[str] = []
    for _, group in itertools.groupby(enumerate(names), neighbourhood):
        near = [name for _, name in group]
        drawn += [f"{near[0]} to {near[-1]}"] if len(near) > 2 else near
    return drawn


def in_words(number: int) -> str:
    """The number as a word up to ten, in digits beyond."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def capital(text: str) -> str:
    """The text with a capital in front."""
    return text[:1].upper() + text[1:]


def shortened(text: str, width: int = 100) -> str:
    """The text on one line, cut with an ellipsis where it is longer than ``width`` characters.

    It is cut between words, but for a word so long that most of the line would be lost.
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    whole = cut if line[width - 1] == " " else cut.rpartition(" ")[0]
    return (whole if 2 * len(whole) > width else cut).rstrip(" ,;:") + "…"


def spelt_sets(sets: Sequence[Names]) -> list[Names]:
    """The sets that :func:`condition` spells out: all single ones, and joint ones up to a limit."""
    single, joint = _split(sets)
    common, rest = factored(joint)
    larger = [names for names in rest if len(names) > 1]
    spelt = larger if _any_so_many(larger) else larger[:_MOST_SETS]
    return single + [
        names
        for names, part in zip(joint, rest, strict=True)
        if part in spelt or (common and len(part) == 1)
    ]


def factored(sets: Sequence[Names]) -> tuple[list[str], list[Names]]:
    """What three sets or more have in common, and what each of them holds besides.

    Args:
        sets: sets of names, none inside another.

    Returns:
        The common names, none for fewer than three sets; and the sets without them, in order.
    """
    if len(sets) > 2:
        common = [name for name in sets[0] if all(name in names for names in sets)]
        rest = [tuple(name for name in names if name not in common) for names in sets]
        if common and all(rest):
            return common, list(rest)
    return [], list(sets)


def condition(sets: Sequence[Names], done: str) -> str:
    """When one of some sets of sources is wholly kept, or wholly removed, in words.

    Single sources come first, then larger sets, smallest first; what many of them have in common
    is said once, and beyond a few they are counted.

    Args:
        sets: at least one set of names, none empty.
        done: ``kept`` or ``removed``.
    """
    single, joint = _split(sets)
    parts = [f"{_one_of(single)} is {done}"] if single else []
    common, rest = factored(joint)
    if threshold := _any_so_many(joint):
        parts.append(f"{threshold} are {done}")
    elif common:
        verb = "is" if len(common) == 1 else "are"
        parts.append(f"{listing(runs(common))} {verb} {done} together with {_partners(rest)}")
    elif len(joint) > 2:
        parts.append(f"all of one of these sets is {done}: {_spelt(joint)}")
    elif done == "kept":
        parts += [f"{listing(runs(names))} are kept together" for names in joint]
    else:
        both = {2: "both"}
        parts += [f"{listing(runs(n))} are {both.get(len(n), 'all')} {done}" for n in joint]
    return ", or ".join(parts)


def _partners(sets: Sequence[Names]) -> str:
    """What stands beside a common part, without a verb."""
    single, joint = _split(sets)
    parts = [_one_of(single)] if single else []
    if threshold := _any_so_many(joint):
        parts.append(threshold)
    elif len(joint) == 1:
        parts.append(f"all of {listing(runs(joint[0]))}")
    elif joint:
        parts.append(f"all of one of these sets: {_spelt(joint)}")
    return ", or ".join(parts)


def _split(sets: Sequence[Names]) -> tuple[list[Names], list[Names]]:
    """Sets of one name, and larger ones, smallest first."""
    joint = sorted((names for names in sets if len(names) > 1), key=len)
    return [names for names in sets if len(names) == 1], joint


def _one_of(single: Sequence[Names]) -> str:
    names = [name for (name,) in single]
    return f"any one of {listing(runs(names))}" if len(names) > 3 else listing(names, "or")


def _spelt(joint: Sequence[Names]) -> str:
    """Sets one by one up to a limit, and how many there are besides."""
    sets = "; ".join(" + ".join(names) for names in joint[:_MOST_SETS])
    more = len(joint) - _MOST_SETS
    return f"{sets}, or of {more} further {'one' if more == 1 else 'ones'}" if more > 0 else sets


def _any_so_many(sets: Sequence[Names]) -> str:
    """``any two of D1 to D4`` when the sets are all the sets of one size over some names."""
    if len(sets) < 2 or len({len(names) for names in sets}) > 1:
        return ""
    size, names = len(sets[0]), list(dict.fromkeys(name for names in sets for name in names))
    every = len(sets) == math.comb(len(names), size)
    return f"any {in_words(size)} of {listing(runs(names))}" if every else ""


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


def choosing(reasons: Mapping[str, str], *, pronoun: bool) -> str:
    """Which candidate scorers chose some documents, and why, as a clause.

    Args:
        reasons: document names to the strongest reason of each, ``analogy: …``.
        pronoun: say "it" of a single document.
    """
    clauses: list[str] = []
    for document, reason in reasons.items():
        who = "it" if pronoun and len(reasons) == 1 else document
        scorer, _, why = reason.partition(": ")
        was = "was chosen " if not clauses else ""
        clauses.append(f"{who} {was}by the scorer {scorer} ({why})")
    return listing(clauses)


def _searches(rules: tuple[str | None, ...], texts: Mapping[str, str], mentioned: set[str]) -> str:
    named = [rule for rule in rules if rule is not None]
    mentioned_now = named if len(named) <= _MOST_RULES else named[: _MOST_RULES - 1]
    words = [
        f"{rule} ({texts[rule]})" if rule in texts and rule not in mentioned else rule
        for rule in mentioned_now
    ]
    mentioned.update(mentioned_now)
    if len(named) > len(mentioned_now):
        words.append(f"{len(named) - len(mentioned_now)} others")
    ways = [f"by rule{'s' if len(words) > 1 else ''} {listing(words)}"] if words else []
    return " and ".join([*ways, *(["by the plain query"] if None in rules else [])])
