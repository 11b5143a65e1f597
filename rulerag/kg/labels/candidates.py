"""Readable labels for raw names: what texts show, unique and reversible.

A name offers *label candidates*, ranked from short to exact: ``concept_city_ottawa`` offers
``ottawa`` and ``ottawa (city)``. Every name starts with its first one, and names that share a label
go on to the next together until they differ, so a label is as short as the graph allows. Labels are
kept apart as answers are compared (:func:`rulerag.text.normalize_answer`), not only letter by
letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from rulerag.kg.labels.nell_words import split_words
from rulerag.text import normalize_answer

LabelCandidates = tuple[str, ...]

_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_NELL = re.compile(r"^concept[:_]([a-z]+)[:_](.*[^_].*)$")
_NELL_NUMBER = re.compile(r"^n(?=\d)")  # NELL puts an n before names that start with a digit
_COORDINATES = re.compile(r"^(-?\d+\.\d+),(-?\d+\.\d+)$")
_URI = re.compile(r"^https?://.*[/#]([^/#]+)$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HUMP = re.compile(r"[a-z][A-Z]")


def entity_candidates(name: str) -> LabelCandidates:
    r"""The labels that an entity's raw name offers, short to exact.

    Knows underscores, ``<…>`` and ``\u0022`` escapes (YAGO), ``concept_category_name`` and
    coordinates (NELL), and URIs.
    """
    if match := _NELL.match(name):
        category, rest = match.groups()
        label = _clean(_NELL_NUMBER.sub("", rest))
        return label, f"{label} ({split_words(category)})"
    if match := _COORDINATES.match(name):
        return (", ".join(part.rstrip("0").rstrip(".") for part in match.groups()), name)
    if match := _URI.match(name):
        return _clean(unquote(match[1])), name
    return (_clean(name),)


def relation_candidates(name: str) -> LabelCandidates:
    """The labels that a relation's raw name offers, short to exact.

    Knows what :func:`entity_candidates` knows, words written together (``wasBornIn``,
    ``concept:agentbelongstoorganization``) and Freebase paths, of which the properties are read
    first (``place of birth``), then the type in front of them, then the whole path.
    """
    if name.startswith("/"):
        return _freebase_candidates(name)
    if name.startswith("concept:"):
        return (split_words(_clean(name.removeprefix("concept:"))), name)
    if match := _URI.match(name):
        return _camel_words(_clean(unquote(match[1]))), name
    return (_camel_words(_clean(name)),)


def make_labels(
    names: Sequence[str],
    own_candidates: Callable[[str], LabelCandidates] = entity_candidates,
    given: Mapping[str, LabelCandidates] | None = None,
) -> list[str]:
    """One label for each name, unique and reversible; position is the id.

    Args:
        names: the raw names, each once.
        own_candidates: what a name offers by itself.
        given: labels from a file, which go before the name's own.
    """
    candidates = []
    for name in names:
        own = (given or {}).get(name) or own_candidates(name)
        candidates.append(tuple(label for label in own if label) or (name,))
    return unique_labels(names, candidates)


def unique_labels(names: Sequence[str], candidates: Sequence[LabelCandidates]) -> list[str]:
    """Go through the candidates until no two labels are equal after answer normalisation.

    No label is the raw name of another. Names whose candidates end before they differ are numbered
    in the order of their ids: ``Kiss``, ``Kiss (2)``.

    Args:
        names: the raw names, each once.
        candidates: the labels that each name offers, at least one.
    """
    own = {name: i for i, name in enumerate(names)}
    rank = [0] * len(names)
    labels = [offered[0] for offered in candidates]
    keys = [_key(label) for label in labels]
    pending: Sequence[int] = range(len(names))
    while pending:
        groups: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            groups.setdefault(key, []).append(i)
        clashes = {i for i in pending if own.get(labels[i], i) != i}
        clashes.update(i for group in groups.values() if len(group) > 1 for i in group)
        pending = sorted(i for i in clashes if rank[i] + 1 < len(candidates[i]))
        for i in pending:
            rank[i] += 1
            labels[i] = candidates[i][rank[i]]
            keys[i] = _key(labels[i])
    _number(labels, keys, own)
    return labels


def _number(labels: list[str], keys: list[str], own: Mapping[str, int]) -> None:
    """Number the labels that no candidate makes different, in place."""
    taken = set(keys)
    seen: set[str] = set()
    numbers: dict[str, int] = {}
    for i, label in enumerate(labels):
        if keys[i] not in seen and own.get(label, i) == i:
            seen.add(keys[i])
            continue
        number = numbers.get(keys[i], 1) + 1
        while _key(f"{label} ({number})") in taken or f"{label} ({number})" in own:
            number += 1
        numbers[keys[i]] = number
        labels[i] = f"{label} ({number})"
        taken.add(_key(labels[i]))


def _key(label: str) -> str:
    # Not through the cache of normalize_answer: a large vocabulary would push all answers out.
    return normalize_answer.__wrapped__(label) or label


def _clean(name: str) -> str:
    """The name without brackets, escapes and underscores; single spaces, no U+00A0."""
    if name.startswith("<") and name.endswith(">"):
        name = name[1:-1]
    if "\\u" in name:
        name = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    return " ".join(name.replace("_", " ").split())


def _camel_words(text: str) -> str:
    """``wasBornIn`` as ``was born in``; words in capitals stay."""
    if not _HUMP.search(text):
        return text
    words = _CAMEL.sub(" ", text).split(" ")
    return " ".join(word if len(word) > 1 and word.isupper() else word.lower() for word in words)


def _freebase_candidates(name: str) -> LabelCandidates:
    """``/film/film/country``: ``country``, ``country (film)``, …, at last the whole path.

    A compound path has two hops; the second one's type tells apart what the first does not.
    """
    hops = [hop.strip("/").split("/") for hop in name.split("./")]
    short = _without_repeats(" ".join(_clean(hop[-1]) for hop in hops))
    types = [_clean(hop[-2]) for hop in hops if len(hop) > 1]
    domain = _clean(hops[0][0])
    forms = [short]
    if types:
        forms += [f"{short} ({types[0]})", f"{short} ({', '.join(types)})"]
        forms.append(f"{short} ({domain}, {', '.join(types)})")
    return (*dict.fromkeys(forms), name)


def _without_repeats(text: str) -> str:
    """``religions religion`` as ``religion``, ``award award`` as ``award``."""
    words = text.split(" ")
    pairs = zip(words, [*words[1:], ""], strict=True)
    return " ".join(word for word, after in pairs if word not in (after, f"{after}s"))
