"""An explained answer as the page shows it: five lines, pictures, documents, rules in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.explanation.records import (
    SUBSETS,
    NamedRule,
    capital,
    factored,
    percent,
    shortened,
)
from rulerag.explanation.report import AnswerExplanation, parts_played, plain_rule
from rulerag.types import Document

_MANY = 10
"""More sets than this are shown by what they share; those beyond are folded away."""

_QUOTE, _WHOLE = 240, 4_000
"""Letters of a document where it is quoted, and where an answer that rests on it is in full."""

_ROOM, _FRAME = 900, 5
"""Of a page, and of what stands around an answer, in documents; one takes above a kilobyte."""

_MINIMALITY = {
    "proven": "minimal",
    "shown": "minimal, shown",
    "not shown": "not shown to be minimal",
    "untested": "no smaller one looked for",
}
_PARTS = {
    "supporting": "the answer rests on it",
    "removable": "without it and its partners the answer goes",
    "idle": "makes no difference",
}


def answer_view(told: AnswerExplanation) -> dict[str, Any]:
    """What the page says of one explained answer."""
    flow, *others = told.pictures() or (None,)
    documents = _documents(told)
    return {
        "told": told,
        "chip": chip(told),
        "accepted": _accepted(told),
        "sure": how_sure(told),
        "cost": f"{_many(told.num_probes, 'subset')} asked of the generator, {told.seconds:.2f} s",
        "flow": flow,
        "pictures": others,
        "contributors": [one for one in documents if one["part"] != "idle"],
        "idle": [one for one in documents if one["part"] == "idle"],
        "families": [_family(told, kind) for kind in ("retention", "omission")],
        "rules": [(rule, plain_rule(rule.text)) for rule in told.rules],
    }


def chip(told: AnswerExplanation) -> str:
    """Whether the answer is right, in a word; empty where no accepted one is known."""
    return {True: "right", False: "wrong", None: ""}[told.right]


def that_fit(explained: Sequence[AnswerExplanation]) -> list[AnswerExplanation]:
    """The first of the answers, as many as a page of two megabytes holds; one at least."""
    room = _ROOM
    kept: list[AnswerExplanation] = []
    for told in explained:
        room -= _FRAME + len(told.documents)
        if kept and room < 0:
            break
        kept.append(told)
    return kept


def how_sure(told: AnswerExplanation) -> str:
    """What stands behind the statement: every subset, a bound, or a search that ended early."""
    if not told.complete:
        words = "The search ended early."
    elif told.settings.get("validity") is None:
        sources = _many(len(told.sources), "source")
        words = f"Certain: it holds for all {1 << len(told.sources):,} subsets of the {sources}."
        words += " A subset is some of them kept and the others removed."
    else:
        words = "Shown on random subsets of the documents: a bound is a share of subsets that is "
        words += f"reached at least. {told.evidence_sentence}".rstrip()
    scope = told.scope
    if told.duality is not None and told.duality.dual:  # said above, in plainer words
        scope = scope.replace(str(told.duality), "")
    return " ".join(f"{words} {scope}".split())


def _accepted(told: AnswerExplanation) -> str:
    """For a wrong answer: the accepted ones, and where they stand."""
    if told.right is not False:
        return ""
    matcher = AnswerMatcher()
    holding = [
        one.alias
        for one in told.documents
        if matcher.first_rank([Document(one.id, one.text)], told.answers)
    ]
    where = f"stands in {', '.join(holding)}" if holding else "stands in no document that was read"
    more = f" or {len(told.answers) - 3} others" if len(told.answers) > 3 else ""
    return f"{', '.join(told.answers[:3])}{more}; it {where}."


def _documents(told: AnswerExplanation) -> list[dict[str, Any]]:
    played = parts_played(told)
    return [
        {
            "document": one,
            "text": _text(one.text, _WHOLE if played[one.alias] != "idle" else _QUOTE),
            "quote": _text(one.text, _QUOTE),
            "part": played[one.alias],
            "role": _PARTS[played[one.alias]],
            "searches": [
                *(f"the scorer {reason}" for reason in one.support[:1]),
                *(
                    f"{hit.rule or 'the question'}, rank {hit.rank}, score {hit.score:.4g}"
                    for hit in one.found_by
                ),
            ],
        }
        for one in told.documents
    ]


def _text(text: str, most: int) -> str:
    return text if len(text) <= most else shortened(text, most)


def _family(told: AnswerExplanation, kind: str) -> dict[str, Any]:
    """The sets of one kind: what they share once, smallest first, the rest counted.

    Only many sets are taken apart; few are shown as they are.
    """
    kept = kind == "retention"
    done, claim = ("kept", told.claim) if kept else ("removed", told.counterclaim)
    rules = sorted(told.retained if kept else told.omitted, key=lambda rule: len(rule.names))
    always = all(rule.certificate.always for rule in rules)
    when = " whenever" if always else ", as far as shown, when"
    joint = [rule.names for rule in rules if len(rule.names) > 1]
    common = factored(joint)[0] if len(rules) > _MANY else []
    headings = [done, "shown on", "holds, at least", "smaller sets"]
    fails = any(rule.certificate.failures and rule.counterexample for rule in rules)
    headings += ["fails, for example"] if fails else []
    headings += [] if kept else ["answer then"]
    rows = [_set_row(rule, common, fails=fails, kept=kept) for rule in rules]
    subsets = [rule.certificate.subsets for rule in rules]
    return {
        "kind": done,
        "heading": f"{capital(claim)}{when} these are {done}",
        "meaning": _MEANING[kind],
        "common": common,
        "headings": headings,
        "rows": rows[:_MANY],
        "more": rows[_MANY:],
        "subsets": next((SUBSETS[one] for one in subsets if one in SUBSETS), ""),
    }


_MEANING = {
    "retention": "Sets that are enough: kept, the answer stays, whichever others are removed.",
    "omission": "Sets that it cannot lose: removed together, the answer goes, whichever others "
    "are kept.",
}


def _set_row(rule: NamedRule, common: Sequence[str], *, fails: bool, kept: bool) -> list[str]:
    names = [name for name in rule.names if name not in common or len(rule.names) == 1]
    shared = "… + " if len(rule.names) > 1 and common else ""
    one = rule.certificate
    row = [
        shared + (" + ".join(names) or "no source"),
        str(one),
        "–" if not one.samples else percent(one.bound),
        _MINIMALITY[one.minimality],
    ]
    row += [rule.counterexample if one.failures else ""] if fails else []
    said = "–" if rule.output is None else rule.output or "(nothing)"
    return row if kept else [*row, said]


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
