"""Whether an output makes a claim, in whatever words: a ladder from cheap to dear.

Each step decides or hands on: a refusal makes no claim; the same words do; a number or date that
the documents gave has to be there; of the names, or of the words that come from the documents, so
much has to be there; then an entailment encoder and a judge, where they are given. What the
question says already decides nothing, and neither do words that no document holds: "according to
five sources" is how an answer is worded, not what it says. So the two of "two engineers" is not in
"mentioned 2 times", and who names somebody else in place of the one that begins the claim says
something else, however much of the rest is there.

References:
    Min et al. 2023 (FActScore, arXiv:2305.14251): claims judged one by one.
    Honovich et al. 2022 (TRUE, arXiv:2204.04991): entailment against overlap as a judge.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rulerag.errors import PredicateError
from rulerag.explanation.claims.refusals import is_refusal, without_refusals
from rulerag.text import contains_normalized, normalize_answer

STEPS: Mapping[str, str] = {
    "refusal": "one of them gives no answer",
    "match": "the same words",
    "yes or no": "both say yes, or both no",
    "numbers": "a number or date of the documents is missing",
    "names": "the names that the question does not give",
    "words": "the words that come from the documents",
    "negation": "one of them denies it",
    "entailment": "the entailment encoder",
    "judge": "the judge",
}
"""The steps of the ladder, in order, and what each looks at."""

_ENOUGH, _FEW, _HALF, _MOST = 0.6, 0.2, 0.5, 0.51
_SHORT, _OTHER = 6, 2
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*", re.UNICODE)
_MONTHS = tuple(name.lower() for name in calendar.month_name[1:])
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
    )
}
_READ = "(?:source|document|text|passage|result|reference|mention|citation|excerpt)s?"
_NUMBER = rf"(?:\d{{1,2}}|{'|'.join(_NUMBERS)})\b"
_COUNTS = re.compile(
    rf"""\b{_NUMBER}\s+(?:of\s+the\s+|(?!and\b|or\b)[^\W\d_]+\s+)?(?:(?P<times>times?)|{_READ})\b
       | \b{_READ}\s+{_NUMBER}(?:(?:\s*,|\s+and|\s+or|\s+to)\s+{_NUMBER})*
       | \[{_NUMBER}(?:\s*[,.\u2013\-]\s*{_NUMBER})*\]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Numbers that count or cite: "2 times", "three of the sources", "documents 1 and 2", "[3]"."""
_EITHER = re.compile(r"([^\W\d_]+)\s+or\s+([^\W\d_]+)", re.IGNORECASE)
_WHO = {"who", "whom", "whose"}
_ISO = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_NEGATIONS = {"not", "no", "never", "neither", "nor", "without", "cannot"}
_STOP = frozenset(
    """a an and are as at be been being but by can could did do does for from had has have he her
    hers him his i if in into is it its itself may might more most must no nor not of on or our
    shall she should so some such than that the their them then there these they this those to too
    was we were what when where which while who whom whose why will with would you your also very
    just only about over under between during after before above below again further once here how
    all any both each few other own same s t don now according""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an output makes a claim.

    Args:
        same: whether it does.
        step: the step that decided, one of :data:`STEPS`.
    """

    same: bool
    step: str


class Entailment(Protocol):
    """An encoder of natural language inference."""

    def entails(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Sequence[float]:
        """The probability that each premise entails its hypothesis."""
        ...


Judge = Callable[[str], str]
"""Answers a prompt in words; the reply has to begin with yes or no."""

_PROMPT = (
    "Question: {question}\nAnswer A: {claim}\nAnswer B: {output}\n"
    "Does answer B say what answer A says? Reply with yes or no only."
)


@dataclass
class SameClaim:
    """A predicate: does an output make this claim? Each distinct output is decided once.

    Args:
        claim: the claim in words.
        question: the question; what it says decides nothing.
        documents: the texts that were read; their words are what an answer can have from them.
        entailment: an encoder for what words leave open.
        judge: a model for what is left open then.
    """

    claim: str
    question: str = ""
    documents: Sequence[str] = ()
    entailment: Entailment | None = None
    judge: Judge | None = None
    known: dict[str, Verdict] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._claim = _Words(self.claim)
        question = _Words(self.question)
        # What a question leaves open between two has to be said.
        either = {_stem(one) for pair in _EITHER.findall(self.question) for one in pair}
        asked = question.stems - either
        held, capital, small = set[str](), set[str](), set(question.small)
        facts, times = set[str](), set[str]()
        for text in self.documents:
            words = _Words(text)
            held |= words.stems
            capital |= words.inner_names
            small |= words.small
            facts |= words.facts
            times |= words.times
        new = {stem for stem in self._claim.stems if stem not in asked and stem not in _STOP}
        self._facts = {n for n in self._claim.facts & new if n in facts or not held}
        self._numbers = self._facts | self._claim.times & new & times
        names = self._claim.inner_names | (self._claim.first_name & capital)
        self._names = {stem for stem in names if stem in new and stem not in self._numbers}
        grounded = {stem for stem in new if stem in held and not stem[0].isdigit()}
        self._words = grounded - self._numbers or {one for one in new if not one[0].isdigit()}
        self._about = (self._claim.content | asked) - _STOP - self._names
        self._other = held - self._about - self._names - _STOP
        self._names_of_documents = held - small
        names = self._names_of_documents if held else {one for one in new if one[-2:] != "ly"}
        self._subject = self._claim.subject & names
        self._asked = asked
        self._asks_who = bool(question.stems & _WHO)
        self._refuses = is_refusal(self.claim)
        self._plain = normalize_answer(self.claim)

    def __call__(self, output: str) -> bool:
        """Whether the output makes the claim."""
        return self.verdict(output).same

    def many(self, outputs: Sequence[str]) -> list[bool]:
        """Whether each output makes the claim; models judge what is left open together."""
        open_ones = [one for one in dict.fromkeys(outputs) if one not in self.known]
        undecided = []
        for output in open_ones:
            found = self._by_words(output)
            if isinstance(found, Verdict):
                self.known[output] = found
            else:
                undecided.append((output, found))
        if undecided:
            self._by_models(undecided)
        return [self.known[output].same for output in outputs]

    def verdict(self, output: str) -> Verdict:
        """The verdict on an output, with the step that decided."""
        self.many([output])
        return self.known[output]

    @property
    def steps(self) -> dict[str, int]:
        """How many outputs each step decided."""
        counts = Counter(verdict.step for verdict in self.known.values())
        return {step: counts[step] for step in STEPS if counts[step]}

    def _by_words(self, output: str) -> Verdict | float:
        """A verdict, or how much of the claim is there where words do not decide."""
        said_only = without_refusals(output)
        if self._refuses or not said_only:
            return Verdict(self._refuses and is_refusal(output), "refusal")
        output, plain = said_only, normalize_answer(said_only)
        short = len(self._plain.split()) <= _SHORT
        if plain == self._plain or (short and contains_normalized(plain, [self._plain])):
            return Verdict(True, "match")
        said = _Words(output)
        if self._claim.polarity or said.polarity:
            alike = self._claim.polarity == said.polarity
            if not alike or not (self._names or self._numbers):
                return Verdict(alike, "yes or no")
        if not (self._numbers <= said.stems and self._facts <= said.facts):
            return Verdict(False, "numbers")
        if self._somebody_else(said):
            return Verdict(False, "names")
        step, wanted = ("names", self._names) if self._names else ("words", self._words)
        if not wanted:
            share = 1.0 if self._numbers else _share(self._claim.content, said.stems)
            step = "numbers" if self._numbers else "words"
        else:
            share = _share(wanted, said.stems)
        # One of two names is enough (Paris of "Paris, France"); of more it takes most of them.
        names_enough = _HALF if len(wanted) <= 2 else _MOST
        if share >= (names_enough if step == "names" else _ENOUGH):
            if step == "names" and self._elsewhere(said, wanted):
                return Verdict(False, step)
            if self._denied(said, wanted or self._numbers):
                return Verdict(False, "negation")
            return Verdict(True, step)
        return Verdict(False, step) if share <= _FEW else share

    def _somebody_else(self, said: _Words) -> bool:
        """Whether the claim begins with a name, and the output has another one in its place.

        "Einstein won the Nobel Prize." has most of the names of "Curie won the Nobel Prize.".
        """
        if not self._subject or _share(self._subject, said.stems):
            return False
        near = max(
            said.sentences or [said], key=lambda part: _share(self._claim.content, part.stems)
        )
        alike = near.second == self._claim.second
        other = near.subject if alike else near.subject & self._names_of_documents
        if other & self._claim.stems:  # "Mayor Ann Lee"
            other = set()
        if not other and self._asks_who:
            other = near.inner_names - self._claim.stems - self._asked
        return bool(other)

    def _elsewhere(self, said: _Words, names: set[str]) -> bool:
        """Whether every sentence with the names states another fact of the documents about them.

        "The Seine flows through Paris." names Paris and does not say that it is the capital.
        """
        near = [part for part in said.sentences if names & part.stems]
        return bool(near) and all(
            len(part.stems & self._other) >= _OTHER and not (part.stems & self._about)
            for part in near
        )

    def _denied(self, said: _Words, wanted: set[str]) -> bool:
        """Whether exactly one of them denies it, in the sentence that speaks of it."""
        near = [part for part in said.sentences if wanted & part.stems] or said.sentences
        return self._claim.negated != any(part.negated for part in near)

    def _by_models(self, undecided: Sequence[tuple[str, float]]) -> None:
        outputs = [output for output, _ in undecided]
        if self.entailment is not None:
            values = list(self.entailment.entails(outputs, [self.claim] * len(outputs)))
            if len(values) != len(outputs):
                raise PredicateError(
                    f"the entailment encoder gave {len(values)} values for {len(outputs)} pairs"
                )
            for output, value in zip(outputs, values, strict=True):
                self.known[output] = Verdict(float(value) >= _HALF, "entailment")
            return
        step = "names" if self._names else "words"
        for output, share in undecided:
            if self.judge is None:
                least = _MOST if step == "names" and len(self._names) > 2 else _HALF
                said = _Words(without_refusals(output))
                denied = share >= least and self._denied(said, self._names or self._words)
                verdict = Verdict(False, "negation") if denied else Verdict(share >= least, step)
                self.known[output] = verdict
            else:
                self.known[output] = Verdict(self._judged(self.judge, output), "judge")

    def _judged(self, judge: Judge, output: str) -> bool:
        prompt = _PROMPT.format(question=self.question, claim=self.claim, output=output)
        reply = judge(prompt)
        word = (normalize_answer(str(reply)).split() or [""])[0]
        if word not in ("yes", "no"):
            raise PredicateError(
                f"the judge said {str(reply)[:100]!r}, neither yes nor no",
                hint="let it reply with yes or no only",
            )
        return word == "yes"


def _share(wanted: Iterable[str], said: set[str]) -> float:
    """How much of some words is there; a longer form of the same word counts."""
    words = list(wanted)
    if not words:
        return 0.0
    found = sum(word in said or _longer(word, said) for word in words)
    return found / len(words)


def _longer(word: str, said: set[str]) -> bool:
    """Whether an inflected form is there: "elected" for "elect", "French" not for "France"."""
    if len(word) < 5 or word[0].isdigit():
        return False
    root = word[: max(5, len(word) - 2)]
    return any(one.startswith(root) and abs(len(one) - len(word)) <= 3 for one in said)


class _Words:
    """The words of a text: stems, names, numbers, and whether it denies or says yes or no."""

    def __init__(self, text: str) -> None:
        text = _ISO.sub(_iso, text)
        self.stems: set[str] = set()
        self.inner_names: set[str] = set()
        self.first_name: set[str] = set()
        self.small: set[str] = set()
        self.subject: set[str] = set()
        self.second = ""
        self.facts: set[str] = set()
        self.times: set[str] = set()
        self.negated = False
        self.polarity = ""
        self._text = text
        counting = list(_COUNTS.finditer(text))
        first, leading = True, True
        for match in _WORD.finditer(text):
            word = match.group()
            stem = _stem(word)
            before = match.start()
            while before and text[before - 1].isspace():
                before -= 1
            begins = first or text[before - 1 : before] in ".!?\n:"
            if first and stem in ("yes", "no") and text[match.end() : match.end() + 1] in ",.!":
                self.polarity = stem  # an empty text is in it, too: nothing follows
            elif stem in _NEGATIONS or word.lower().replace("\u2019", "'").endswith("n't"):
                self.negated = True
            self.stems.add(stem)
            if stem[0].isdigit():
                counts = next((c for c in counting if c.start() <= match.start() < c.end()), None)
                if counts is None:
                    self.facts.add(stem)
                elif counts["times"]:
                    self.times.add(stem)
            if word[0].islower():
                self.small.add(stem)
            if leading and word[0].isupper() and stem not in _STOP and not stem[0].isdigit():
                self.subject.add(stem)
            elif leading:
                self.second, leading = stem, False
            if word[0].isupper() and stem not in _STOP and not stem[0].isdigit():
                (self.first_name if begins else self.inner_names).add(stem)
            first = False

    @property
    def content(self) -> set[str]:
        """The words that carry meaning."""
        return {stem for stem in self.stems if stem not in _STOP}

    @property
    def sentences(self) -> list[_Words]:
        """The same, sentence by sentence."""
        return [_Words(part) for part in re.split(r"(?<=[.!?;])\s+", self._text) if part.strip()]


def _iso(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    name = _MONTHS[int(month) - 1] if 1 <= int(month) <= 12 else month
    return f"{int(day)} {name} {year}" if day else f"{name} {year}"


def _stem(word: str) -> str:
    """A word without case, possessive and plural; numbers without leading zeros and commas."""
    if word[0].isdigit():
        plain = word.replace(",", "")
        return plain.lstrip("0") or "0"
    low = word.lower().replace("\u2019", "'").removesuffix("'s")
    if low in _NUMBERS:
        return _NUMBERS[low]
    if len(low) > 4 and low.endswith("ies"):
        return f"{low[:-3]}y"
    if len(low) > 3 and low.endswith("s") and not low.endswith(("ss", "us", "is")):
        return low[:-1]
    return low
