"""Sentences about rules of sources that say what was shown, and no more.

"Whenever" stands before rules alone that hold for every subset. Rules shown on random subsets are
told with their share, with how many subsets were tried, how those were drawn, and the confidence;
rules without a test are told as untested.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.explanation.shown import (
    CERTIFIED,
    EXACT,
    NOT_SHOWN,
    SHOWN,
    TESTED,
    UNTESTED,
    ShownRule,
    percent,
    same_test,
    tried,
)
from rulerag.explanation.wording import condition, in_words, listing, quoted, runs, shortened
from rulerag.text import exact_match

__all__ = ["among", "becomes", "capital", "evidence", "holding", "strongest", "verdict"]

_MOST = 3

Names = tuple[str, ...]


def among(count: int, rest: str) -> str:
    """The scope of a sentence: the documents that were kept or removed."""
    if count == 1:
        return f"With this document as the only evidence, {rest}"
    return f"Among these {in_words(count)} documents {rest}"


def holding(rules: Sequence[ShownRule], claim: str, done: str) -> str:
    """When a claim holds, each kind of certificate in its own words.

    Args:
        rules: the rules of one kind, at least one.
        claim: what holds, as a clause.
        done: ``kept`` or ``removed``.

    Returns:
        A clause; without a rule that was shown to hold it says so.
    """
    parts = []
    always = same_test(rules, "always")
    if always:
        parts.append(f"whenever {condition([rule.names for rule in always], done)}")
    certified = same_test(rules, CERTIFIED)
    if certified:
        shown = [rule.certificate for rule in certified]
        share = percent(min(one.bound for one in shown))
        parts.append(f"in at least {share} of {_random(certified, done)} ({tried(shown)})")
    whole = same_test(rules, EXACT)
    if whole:
        share = percent(min(rule.certificate.bound for rule in whole))
        least = "" if len(whole) == 1 else "at least "
        parts.append(f"in {least}{share} of {_subsets(whole, done)} (all of them tried)")
    if not parts:
        return f"no rule is shown under which {claim}"
    return f"{claim} {', and '.join(parts)}"


def strongest(rules: Sequence[ShownRule]) -> list[ShownRule]:
    """The rules that :func:`holding` tells: those that were shown to hold."""
    return [
        rule
        for kind in ("always", CERTIFIED, EXACT)
        for rule in same_test(rules, kind)
        if rule.names or rule.certificate.always
    ]


def becomes(rules: Sequence[ShownRule], answers: Sequence[str]) -> str:
    """What the generator says when exactly the sources of an omission rule are removed.

    Args:
        rules: the omission rules.
        answers: the accepted answers, none where they are not known.
    """
    said: dict[str, list[Names]] = {}
    for rule in rules:
        if rule.output is not None and rule.names:
            said.setdefault(rule.output, []).append(rule.names)
    if not said:
        return ""
    parts: list[str] = []
    for output, sets in list(said.items())[:_MOST]:
        who = "the generator" if not parts else "it"
        right = verdict(output, answers)
        told = f"with {_removed(sets)} alone removed {who} {quoted(output)}"
        parts.append(f"{told}, which is {right}" if right and output.strip() else told)
    text = f"{capital('; '.join(parts))}."
    more = len(said) - len(parts)
    return f"{text[:-1]}; {more} further answers come with the others." if more > 0 else text


def evidence(kept: Sequence[ShownRule], removed: Sequence[ShownRule]) -> list[str]:
    """What the sentences about rules leave open: failures, tests missed, and minimality.

    Args:
        kept: the retention rules.
        removed: the omission rules.

    Returns:
        Sentences, none where every rule is exact and holds for all subsets.
    """
    return [*_failures(kept, "kept"), *_failures(removed, "removed"), *_minimality(kept, removed)]


def verdict(text: str, answers: Sequence[str]) -> str:
    """``right`` or ``wrong`` by exact match; empty where no accepted answer is known."""
    if not answers:
        return ""
    return "right" if exact_match(text, answers) else "wrong"


def capital(text: str) -> str:
    """The text with a capital in front."""
    return text[:1].upper() + text[1:]


def _random(rules: Sequence[ShownRule], done: str) -> str:
    return f"random {_subsets(rules, done)}"


def _subsets(rules: Sequence[ShownRule], done: str) -> str:
    sets = [rule.names for rule in rules if rule.names]
    return f"subsets in which {condition(sets, done)}" if sets else "subsets"


def _removed(sets: Sequence[Names]) -> str:
    told = [listing(runs(names)) for names in sets[:_MOST]]
    return listing([*told, f"{len(sets) - _MOST} more"] if len(sets) > _MOST else told, "or")


def _failures(rules: Sequence[ShownRule], done: str) -> list[str]:
    """Counterexamples, rules below the validity, and rules that were not tested."""
    sentences = []
    failing = [rule for rule in rules if rule.certificate.failures]
    for rule in failing[:_MOST]:
        told = rule.certificate
        text = f"{_given(rule, done)} it failed in {told.failures:,} of {told.samples:,} subsets"
        if rule.counterexample:
            text += f", for example {rule.counterexample}"
        if told.kind == TESTED:
            text += f": {percent(told.validity)} is not shown"
        sentences.append(f"{text}.")
    if len(failing) > _MOST:
        sentences.append(f"{len(failing) - _MOST} further rules failed in some subsets.")
    untested = same_test(rules, UNTESTED)
    if untested:
        sentences.append(f"Found by the search and not tested: {_sets(untested)} ({done}).")
    return sentences


def _given(rule: ShownRule, done: str) -> str:
    return f"With {listing(runs(rule.names))} {done}" if rule.names else "Whatever is kept,"


def _minimality(kept: Sequence[ShownRule], removed: Sequence[ShownRule]) -> list[str]:
    rules = [
        (rule, done)
        for family, done in ((kept, "kept"), (removed, "removed"))
        for rule in family
        if rule.names and rule.certificate.kind in (CERTIFIED, EXACT)
    ]

    def those(status: str) -> list[ShownRule]:
        return [rule for rule, _ in rules if rule.certificate.minimality == status]

    def told(status: str) -> str:
        parts = []
        for done in ("kept", "removed"):
            found = [r for r, how in rules if how == done and r.certificate.minimality == status]
            if found:
                parts.append(f"{_sets(found)} ({done})")
        return "; ".join(parts)

    sentences = []
    shown = those(SHOWN)
    if shown:
        share = percent(max(rule.certificate.validity for rule in shown))
        if len(shown) == sum(bool(rule.names) for rule in (*kept, *removed)):
            sentences.append(
                "Each set is minimal: with one source fewer it was shown to hold for less than "
                f"{share}."
            )
        else:
            sentences.append(
                f"Minimal, since shown to hold for less than {share} with one source fewer: "
                f"{told(SHOWN)}."
            )
    if those(NOT_SHOWN):
        sentences.insert(0, f"Not shown to be minimal: {told(NOT_SHOWN)}.")
    if those(UNTESTED):
        sentences.insert(0, f"No smaller one was looked for: {told(UNTESTED)}.")
    return sentences


def _sets(rules: Sequence[ShownRule]) -> str:
    """Sets one by one up to a few, and how many there are besides."""
    told: list[str] = [" + ".join(rule.names) or "no source" for rule in rules[:_MOST]]
    if len(rules) > _MOST:
        told.append(f"{len(rules) - _MOST} more")
    return shortened("; ".join(told), 200)
