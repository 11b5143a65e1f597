"""English for sets of sources and for where they came from: "D2 or D5 is kept; both were found …"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["condition", "finding", "listing", "quoted", "shortened"]

MOST_SETS = 6
"""More sets than this are counted, not spelt out."""

MOST_RULES = 3
"""More rules behind one document than this are counted."""


def listing(words: Sequence[str], last: str = "and") -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def shortened(text: str, width: int = 100) -> str:
    """The text on one line, cut with an ellipsis where it is longer than ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def condition(sets: Iterable[Sequence[str]], done: str, *, most: int = MOST_SETS) -> str:
    """When one of some sets of sources is wholly kept, or wholly removed, in words.

    Args:
        sets: at least one set of names, none empty, in the order to say them.
        done: ``kept`` or ``removed``.
        most: how many sets are spelt out.
    """
    every = [list(names) for names in sets]
    told, untold = every[:most], len(every) - most
    single = [names[0] for names in told if len(names) == 1]
    joint = [names for names in told if len(names) > 1]
    parts = [f"{listing(single, 'or')} is {done}"] if single else []
    if len(joint) > 2:
        parts.append(f"all of one of these sets is {done}: {'; '.join(map(' + '.join, joint))}")
    else:
        parts += [_joint(names, done) for names in joint]
    if untold > 0:
        parts.append(f"one of {untold} further set{'s' if untold > 1 else ''} is {done}")
    return ", or ".join(parts)


def _joint(names: Sequence[str], done: str) -> str:
    if done == "kept":
        return f"{listing(names)} are kept together"
    return f"{listing(names)} are {'both' if len(names) == 2 else 'all'} {done}"


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
    clauses = []
    for rules, documents in stories.items():
        who, verb = listing(documents), "was" if len(documents) == 1 else "were"
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
    parts = []
    if words:
        parts.append(f"rule{'s' if len(words) > 1 else ''} {listing(words)}")
    if len(named) > len(told):
        parts.append(f"{len(named) - len(told)} other rules")
    if None in rules:
        parts.append("the plain query")
    return f"by {listing(parts)}" if parts else ""
