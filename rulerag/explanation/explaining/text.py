"""An explained answer in plain English: what it rests on, becomes, and what speaks against it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rulerag.explanation.claims import split_claims
from rulerag.explanation.explaining.records import ExplainedClaim, Explanation
from rulerag.explanation.records import Certificate, DocumentSet, percent
from rulerag.explanation.units import LEVELS, NEUTRAL, Passage
from rulerag.explanation.wording import capital, in_words, listing, runs
from rulerag.text import exact_match, normalize_answer, shortened

_MOST_SETS, _MOST_NAMED, _MOST_CHANGES, _MOST_EXPLAINED, _MOST_RULES = 4, 6, 2, 12, 3
_CLAIM, _QUOTE, _TITLE, _BEGINNING = 200, 90, 60, 48
COUNTED = {
    "by-size": "small and large ones counted alike",
    "uniform": "nearly all of which keep about half",
}
"""Which combinations a guarantee counts, by how random ones were drawn."""

_MOST_SIZE, _MOST_EMPTY, _MOST_ANSWERS = 10, 12, 3
"""Sets of more documents are not looked for where there are many; empty documents named; accepted
answers named."""


def explanation_lines(explanation: Explanation) -> list[str]:
    """Everything in sentences: for a pipeline first the way from rules to documents, then why."""
    why = why_lines(explanation)
    if not (explanation.query_id or explanation.rules):
        return why
    supporting = {document.index for document in explanation.supporting}
    aliases = rule_aliases(explanation)
    lines = [f"Question  {explanation.question}", f"Answer    {explanation.text or '(none)'}"]
    if explanation.accepted:
        lines[1] += f"  ({correctness(explanation)})"
    documents = []
    for document in explanation.documents:
        mark = "*" if document.index in supporting else " "
        searches = "; ".join(
            f"{aliases.get(hit.rule, hit.rule) if hit.rule else 'query'} rank {hit.rank}, score "
            f"{hit.score:.4g}"
            for hit in document.found_by
        )
        text = shortened(document.text)
        documents.append(f" {mark}{document.label:<4} {text}{searches and f'  [{searches}]'}")
        documents += [f"       {reason}" for reason in document.reasons[:1]]
    sections = {
        "Guiding rules": _rule_lines(explanation),
        "Documents": documents,
        "Stated": [f"  {line}" for line in explanation.statements],
        "Why": [f"  {line}" for line in why],
    }
    for heading, section in sections.items():
        if section:
            lines += ["", heading, *section]
    return lines


def why_lines(explanation: Explanation) -> list[str]:
    """Why, in sentences: notes first, a few lines a claim, then what was shown."""
    lines = list(explanation.notes)
    if explanation.regions is not None:
        parts = filter(None, (explanation.regions, explanation.keywords))
        lines += [line for part in parts for line in str(part).splitlines()]
        return [*lines, _cost(explanation)]
    for claim in explanation.claims:
        lines.append(claim_heading(claim))
        lines += [f"  {line}" for line in claim_lines(claim, explanation)]
        lines += [f"  {line}" for one in claim.attributions for line in str(one).splitlines()]
    if not explanation.claims:
        lines.append("The answer says nothing that could rest on a document.")
    lines += _unnamed("\n".join(lines[len(explanation.notes) :]), _Naming(explanation.documents))
    lines += what_was_shown(explanation).splitlines()
    return [*lines, explanation.chain] if explanation.chain else lines


def claim_heading(claim: ExplainedClaim) -> str:
    """A claim in quotation marks, or the condition that is explained in its place."""
    return (
        f"{capital(claim.condition)}:" if claim.condition else f"“{shortened(claim.text, _CLAIM)}”"
    )


def correctness(explanation: Explanation) -> str:
    """Whether the answer is right, with the accepted answers where it is wrong."""
    if explanation.right:
        return "right"
    more = len(explanation.accepted) - _MOST_ANSWERS
    accepted = [shortened(answer, 60) for answer in explanation.accepted[:_MOST_ANSWERS]]
    return f"wrong; accepted: {'; '.join(accepted)}" + (f" and {more} more" if more > 0 else "")


def rule_aliases(explanation: Explanation) -> dict[str, str]:
    """The short names of the guiding rules by their ids."""
    return {rule.id: rule.alias for rule in explanation.rules}


def _rule_lines(explanation: Explanation) -> list[str]:
    """The guiding rules, each with the documents that it found."""
    lines, idle = [], []
    for rule in explanation.rules:
        hits = [
            f"{document.label} (rank {hit.rank}, score {hit.score:.4g})"
            for document in explanation.documents
            for hit in document.found_by
            if hit.rule == rule.id
        ]
        if not hits:
            idle.append(rule.alias)
            continue
        quality = f"  ({rule.quality})" if rule.quality else ""
        lines.append(f"  {rule.alias:<4}{rule.text}{quality}")
        lines.append(f"      found {', '.join(hits)}")
    if idle:
        lines.append(f"  {listing(runs(idle))} found none of these documents")
    return lines


def claim_lines(claim: ExplainedClaim, explanation: Explanation) -> list[str]:
    """What one claim rests on, what it becomes, what else is enough, what speaks against it."""
    names = _Naming(explanation.documents)
    if claim.unsupported:
        line = "rests on no document: it is said without any of them, too (known to the model, or "
        line += "made up)."
        if claim.refusal:
            line = "rests on no document: without any of them there is no answer, either."
        return [line, *_against(claim, explanation, names)]
    if not claim.retention:
        if not explanation.complete:
            return ["not explained: the search ended before any set of documents was found."]
        return ["no small set of documents was found that is enough for it."]
    first, *others = claim.retention
    finder = _finder(first, explanation)
    lines = [f"rests on {_together(first, names)}{finder}.", *_becomes(claim, explanation, names)]
    if others:
        lines.append(f"also enough: {_also(claim.retention, names)}.")
    return [*lines, *_against(claim, explanation, names)]


class _Naming:
    """Documents by title and number when they come up first, by number alone after that.

    Args:
        documents: all of them.
    """

    def __init__(self, documents: Sequence[Passage]) -> None:
        titles = [one.title for one in documents]
        self.called = [_called(one, titles.count(one.title) > 1) for one in documents]
        self.label = [one.label for one in documents]
        self._named: set[int] = set()

    def of(self, indices: Sequence[int]) -> list[str]:
        """The names of some documents; where there are many, only their numbers."""
        if len(indices) > _MOST_NAMED // 2 and self._named:
            numbers = [self.label[index].strip("[]") for index in indices]
            return [f"[{part.replace(' to ', '] to [')}]" for part in runs(numbers)]
        names = [self.label[i] if i in self._named else self.called[i] for i in indices]
        more = len(names) - _MOST_NAMED
        if more > 0:
            names = [*names[:_MOST_NAMED], f"{in_words(more)} other{'s' if more > 1 else ''}"]
        self._named.update(indices[:_MOST_NAMED])
        return names


def _called(document: Passage, ambiguous: bool) -> str:
    """A title, with the beginning of the text where others have the same; else that alone."""
    if document.level not in (None, "group"):
        return document.called
    beginning = shortened(document.text, _BEGINNING)
    if document.title and ambiguous:
        return f"“{shortened(document.title, _TITLE)}: {beginning}” {document.label}"
    return f"“{shortened(document.title, _TITLE) or beginning}” {document.label}"


def _unnamed(text: str, names: _Naming) -> list[str]:
    """What the numbers stand for that came up without a name."""
    used = set(re.findall(r"(?<!”) (\[[\d.\-]+\])", text))
    wanted = [i for i, label in enumerate(names.label) if label in used]
    open_ones = [i for i in wanted if f"” {names.label[i]}" not in text]
    if not open_ones:
        return []
    phrases = [names.called[i] for i in open_ones[:_MOST_EXPLAINED]]
    more = len(open_ones) - len(phrases)
    phrases += [f"{in_words(more)} more"] if more else []
    return [f"The other documents: {listing(phrases)}."]


def _together(one: DocumentSet, names: _Naming) -> str:
    labels = names.of(sorted(one))
    return labels[0] if len(one) == 1 else f"{listing(labels)} together"


def _finder(one: DocumentSet, explanation: Explanation) -> str:
    """Which mined rules found the documents of a set, or which scorers chose them, as a clause."""
    documents = [explanation.documents[index] for index in sorted(one)]
    reasons = [str(document.reasons[0]) for document in documents if document.reasons]
    if reasons:  # what scorers chose was not found for the sake of a rule
        return f", chosen by {listing([f'the scorer {reason}' for reason in reasons])}"
    aliases = rule_aliases(explanation)
    mined_rules = dict.fromkeys(rule for document in documents for rule in document.rules)
    rules = [aliases.get(rule, f"“{rule}”") for rule in mined_rules]
    more = len(rules) - _MOST_RULES
    rules = [*rules[:_MOST_RULES], *([f"{in_words(more)} more"] if more > 0 else [])]
    return f", found by rule{'s' if len(rules) > 1 else ''} {listing(rules)}" if rules else ""


def _also(sets: Sequence[DocumentSet], names: _Naming) -> str:
    """The sets behind the first one; what many have in common is said once."""
    everyone = sorted(set().union(*sets))
    size, count = len(sets[0]), len(everyone)
    alike = len(sets) > 2 and size > 1 and {len(one) for one in sets} == {size}
    if alike and len(sets) == math.comb(count, size):
        return f"any {in_words(size)} of {listing(names.of(everyone))}"
    shown = [_together(one, names) for one in sets[1 : 1 + _MOST_SETS]]
    more = len(sets) - 1 - len(shown)
    shown += [f"{in_words(more)} more set{'s' if more > 1 else ''}"] if more > 0 else []
    return "; ".join(shown)


def _becomes(claim: ExplainedClaim, explanation: Explanation, names: _Naming) -> list[str]:
    changes: dict[tuple[str, str], list[DocumentSet]] = {}
    for one in claim.omission:
        if one.output is not None:
            changes.setdefault(_change(claim, one.output, explanation), []).append(one)
    if not changes:
        return []
    parts, shown_sets = list[str](), 0
    for change, sets in list(changes.items())[:_MOST_CHANGES]:
        shown = sets[:_MOST_CHANGES]
        shown_sets += len(shown)
        ways = [f"without {listing(names.of(sorted(one)))}" for one in shown]
        what, added = change
        verb = what.removeprefix("becomes ") if parts and parts[-1].startswith("becomes ") else what
        parts.append(f"{verb} {listing(ways, 'or')}{added}")
    more = len(claim.omission) - shown_sets
    if more == 1:
        parts.append("one other set of documents takes it away, too")
    elif more > 1:
        parts.append(f"{in_words(more)} other sets of documents take it away, too")
    return [_ended("; ".join(parts))]


def _change(claim: ExplainedClaim, output: str | None, explanation: Explanation) -> tuple[str, str]:
    """What becomes of a claim in another answer, and what that answer adds beside what stays."""
    if not output or not output.strip():
        return "becomes an empty answer", ""
    claims = {normalize_answer(one.text): one.text for one in split_claims(output)}
    before = {normalize_answer(one.text): one.text for one in split_claims(explanation.text)}
    new = " ".join(text for plain, text in claims.items() if plain not in before)
    stays = any(plain in claims for plain in before)
    if not stays:
        return f"becomes {_quoted(new or output)}{_verdict(output, explanation)}", ""
    gone = [text for plain, text in before.items() if plain not in claims and text in claim.text]
    added = f" (the answer then adds {_quoted(new)})" if new else ""
    if gone and len(split_claims(claim.text)) > 1:
        return f"loses {_quoted(' '.join(gone))}", added
    return "is left out", added


def _verdict(output: str, explanation: Explanation) -> str:
    """Whether another answer is right, where accepted ones are known."""
    if not explanation.accepted:
        return ""
    return " (right)" if exact_match(output, explanation.accepted) else " (wrong)"


def _ended(sentence: str) -> str:
    """A sentence with its full stop, where no quotation brings one."""
    return sentence if sentence.endswith((".”", "!”", "?”", "…”")) else f"{sentence}."


def _against(claim: ExplainedClaim, explanation: Explanation, names: _Naming) -> list[str]:
    """Documents that take the claim away, those with the same effect in one line."""
    lines = []
    groups: dict[tuple[tuple[int, ...], str], list[tuple[int, ...]]] = {}
    for one in claim.spoilers:
        key = one.documents, "".join(_change(claim, one.output, explanation))
        groups.setdefault(key, []).append(one.enough)
    for (documents, change), enough in list(groups.items())[:_MOST_CHANGES]:
        against = listing(names.of(documents))
        added = f"with {listing([names.label[i] for i in documents])} added"
        if () in enough:
            basis = "without any document it is said"
        else:
            sets = [f"{listing(names.of(one))} alone" for one in enough[:_MOST_SETS]]
            basis = f"with {listing(sets, 'or with')} it is said"
        lines.append(_ended(f"speaks against it: {against}; {basis}, and {added} it {change}"))
    more = len(groups) - _MOST_CHANGES
    if more > 0:
        what = "one more combination speaks" if more == 1 else f"{in_words(more)} more speak"
        lines.append(f"{what} against it.")
    return lines


def _quoted(output: str) -> str:
    return f"“{shortened(output, _QUOTE)}”"


# --- on what it stands ----


def what_was_shown(explanation: Explanation) -> str:
    """On what all of it stands, what was not looked for, how noisy it is, and what it cost."""
    shown = [_tested(explanation), _not_looked_for(explanation), _replaced(explanation)]
    spent = [_noise(explanation), _cost(explanation)]
    lines = [" ".join(filter(None, shown)), "; ".join(filter(None, spent))]
    return "\n".join(filter(None, lines))


def counted(documents: Sequence[Passage]) -> str:
    """What is kept or removed, in words: ``the 12 sentences and 48 documents``."""
    levels = [one.level or "document" for one in documents if one.text.strip()]
    counts = {level: levels.count(level) for level in LEVELS if level in levels}
    nouns = [
        f"{in_words(number)} {'group' if level == 'group' else level}{'s' if number > 1 else ''}"
        f"{' of documents' if level == 'group' else ''}"
        for level, number in counts.items()
    ]
    return f"the {listing(nouns)}"


def _replaced(explanation: Explanation) -> str:
    """What it means that something is left out, where it is not gone."""
    if explanation.settings.get("removal") != "replace":
        return ""
    neutral = shortened(str(explanation.settings.get("neutral", NEUTRAL)), 60)
    return (
        "What is left out is replaced by neutral text of about the same length "
        f"(“{neutral}”), so that everything else keeps its position."
    )


def _certificates(explanation: Explanation, *kinds: str) -> list[Certificate]:
    sets = [one for claim in explanation.claims for kind in kinds for one in getattr(claim, kind)]
    return [one.certificate for one in sets]


def _tested(explanation: Explanation) -> str:
    certificates = _certificates(explanation, "retention", "omission")
    count = sum(bool(document.text.strip()) for document in explanation.documents)
    parts = counted(explanation.documents)
    if not certificates or not count:
        return ""
    if all(one.always for one in certificates):
        if not explanation.complete:
            return "What is said is certain; there may be more."
        if count == 1:
            one = parts.replace("the one ", "the ")
            return f"Certain: it was asked with {one} and without it."
        return f"Certain: all {1 << count:,} combinations of {parts} were tried."
    untested = "Found, but not tested on random combinations: the search ended before."
    if explanation.settings.get("each"):
        return _each_tested(explanation, parts) or untested
    weakest = min(certificates, key=lambda one: (one.kind == "certified", one.bound))
    if weakest.kind == "certified":
        return (
            f"Tested: for at least {percent(weakest.validity)} of the combinations of {parts}, "
            f"{COUNTED[weakest.subsets]}, these sets tell whether a claim is made "
            f"({percent(weakest.confidence)} confidence: {weakest.samples:,} random combinations "
            f"all came out as they say{_sizes(weakest)})."
        )
    if weakest.kind == "tested":
        by_size = _failed_by_size(weakest)
        failed = f"; by how many are kept: {by_size}" if by_size else ""
        return (
            f"Not certain: of {weakest.samples:,} random combinations of {parts} "
            f"{weakest.failures:,} came out otherwise than these sets say{failed}."
        )
    return untested


def _sizes(certificate: Certificate) -> str:
    """How many small and how many large combinations were tried."""
    if len(certificate.sizes) < 2:
        return ""
    few, *_, many = certificate.sizes
    counts = [in_words(one.samples) if one.samples else "none" for one in (few, many)]
    return f", {counts[0]} with at most {few.most} kept and {counts[1]} with {many.least} or more"


def _failed_by_size(certificate: Certificate) -> str:
    """How many subsets of each size failed, in words; empty without a failure, or sizes."""
    if not certificate.failures or len(certificate.sizes) < 2:
        return ""
    parts = []
    for one in certificate.sizes:
        if one.samples:
            sizes = f"{one.least} to {one.most}" if one.least else f"at most {one.most}"
            failures = one.samples - one.successes or "none"
            parts.append(f"{failures} of {one.samples:,} with {sizes}")
    return listing(parts)


def _each_tested(explanation: Explanation, parts: str) -> str:
    """What each set shows by itself; empty where nothing was tested."""
    certificates = _certificates(explanation, "retention")
    shown = [one for one in certificates if one.kind == "certified"]
    failed = [one for one in certificates if one.kind == "tested" and one.failures]
    sentences = []
    if shown:
        every = len(shown) == len(certificates)
        what = "each set" if every else f"{in_words(len(shown))} of the sets"
        sentences.append(
            f"Tested {what} by itself: with it the claim is made in at least "
            f"{percent(shown[0].validity)} of the combinations of {parts}, "
            f"{COUNTED[shown[0].subsets]} "
            f"({percent(shown[0].confidence)} confidence for all of them; at most "
            f"{max(one.samples for one in shown):,} random combinations each)."
        )
    if failed:
        worst = min(failed, key=lambda one: one.successes / one.samples)
        what = (
            "one set, which"
            if len(failed) == 1
            else f"{in_words(len(failed))} sets, the worst of which"
        )
        by_size = _failed_by_size(worst)
        sizes = f"; by how many others are kept: {by_size}" if by_size else ""
        sentences.append(
            f"Not certain for {what} failed in {worst.failures:,} of {worst.samples:,} random "
            f"combinations{sizes}."
        )
    return " ".join(sentences)


def _not_looked_for(explanation: Explanation) -> str:
    certificates = _certificates(explanation, "retention", "omission")
    if not any(one.kind == "certified" for one in certificates):
        return ""
    rare = percent(1 - certificates[0].validity)
    return (
        f"Not looked for: sets of more than {in_words(_MOST_SIZE)} of them, and what matters "
        f"only in fewer than {rare} of the combinations."
    )


def _noise(explanation: Explanation) -> str:
    """How often the whole prompt was answered the same; where it was not, a note says so first."""
    if not explanation.repeats or {*explanation.repeats} != {explanation.repeats[0]}:
        return ""
    if any(claim.stable < 1 for claim in explanation.claims) or not _same(explanation):
        return ""
    times = {1: "twice"}.get(
        len(explanation.repeats), f"{in_words(len(explanation.repeats) + 1)} times"
    )
    return f"Asked {times} with all documents, it gave the same answer"


def _same(explanation: Explanation) -> bool:
    return not any(note.startswith(_VARIES) for note in explanation.notes)


def _cost(explanation: Explanation) -> str:
    calls = f"{explanation.num_calls:,} call{'' if explanation.num_calls == 1 else 's'}"
    money = "" if explanation.money is None else f", about {explanation.money:,.2f} in money"
    return f"{calls}{money}, {explanation.seconds:,.1f} s."


# --- the answer with its sources ----


def cited(explanation: Explanation) -> str:
    """The answer with the documents behind each claim as superscripts.

    A claim that no document drives is marked ``[no source]``.
    """
    text, position, parts = explanation.text, 0, []
    placed = [c for c in explanation.claims if c.start is not None and c.end is not None]
    for claim in sorted(placed, key=lambda one: one.start or 0):
        if (claim.start or 0) < position:
            continue
        parts += [text[position : claim.start], claim.text, _marks(claim, explanation.documents)]
        position = claim.end or 0
    return "".join([*parts, text[position:]])


def _marks(claim: ExplainedClaim, documents: Sequence[Passage]) -> str:
    if claim.unsupported:
        return " [no source]"
    return "".join(documents[index].label for index in claim.sources)


# --- what has to be known before anything else is believed ----


def notes_of(explanation: Explanation, outputs: Sequence[str], ended: str) -> list[str]:
    """Noise, empty documents, an early end.

    Args:
        explanation: what is known.
        outputs: what was answered to the whole prompt, each time.
        ended: what ended the search early, in words.
    """
    return [*_noise_notes(explanation, outputs), *_document_notes(explanation), *_end_note(ended)]


def _noise_notes(explanation: Explanation, outputs: Sequence[str]) -> list[str]:
    claims, times = explanation.claims, len(outputs)
    shaky = [one for one in claims if one.stable < 1]
    asked = {1: "once", 2: "twice"}.get(times, f"{in_words(times)} times")
    if shaky and shaky[0].condition and not any(one.stable for one in shaky):
        return []  # a condition that the whole prompt does not meet is no noise
    if shaky:
        came = round(min(one.stable for one in shaky) * times)
        often = {0: "not once", 1: "only once", 2: "only twice"}
        seen = often.get(came, f"only {in_words(came)} times")
        what = f"this claim came {seen}"
        if len(claims) > 1:
            what = f"{in_words(len(shaky))} of the {in_words(len(claims))} claims did not come "
            what += f"every time, one of them {seen}"
        return [
            f"The answers vary: asked {asked} with all documents, {what}. Nothing that follows "
            "is more certain than that."
        ]
    if len(set(outputs)) > 1:
        return [f"{_VARIES}: asked {asked} with all documents, every claim came each time."]
    return []


_VARIES = "The wording varies"


def _document_notes(explanation: Explanation) -> list[str]:
    empty = [one.label for one in explanation.documents if not one.text.strip()]
    if not explanation.documents:
        return ["There is no document to keep or remove."]
    if not empty:
        return []
    others = [f"{len(empty) - _MOST_EMPTY} others"] if len(empty) > _MOST_EMPTY else []
    named = listing([*empty[:_MOST_EMPTY], *others])
    if len(empty) > 1:
        return [f"Documents {named} are empty and were not looked at."]
    return [f"Document {named} is empty and was not looked at."]


def _end_note(ended: str) -> list[str]:
    return [f"Stopped early: {ended}."] if ended else []
