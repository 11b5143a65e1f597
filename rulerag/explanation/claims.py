"""What an answer says, claim by claim, and whether another answer says the same.

An answer is cut into sentences and the items of lists. Whether an output makes a claim, in whatever
words, a cascade of checks says, from cheap to expensive; each decides or hands on to the next:

1. A refusal makes no claim; the same words do; a bare yes or no is compared with a bare yes or no.
2. A number or date that the claim has from the documents has to be in the output.
3. An output that begins with another name than the claim says something else.
4. So much of the claim's names has to be there, or of its words where it has no name; names and
   words that the question gives already do not count, nor words that no document holds.
5. Exactly one of the two denies it: they differ.
6. What words leave open is decided by an entailment encoder or a judge, where they are given.

Numbers that count sources or mentions ("according to five sources", "mentioned 2 times") are how an
answer is worded, not what it says.

References:
    Min et al. 2023 (FActScore, arXiv:2305.14251): claims judged one by one.
    Honovich et al. 2022 (TRUE, arXiv:2204.04991): entailment against overlap as a judge.
"""

from __future__ import annotations

import calendar
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from rulerag.errors import ConfigError, PredicateError
from rulerag.text import contains_normalized, normalize_answer, prose_spans, trimmed_span

_LINE = re.compile(r"[ \t]*(?:(?:[-*•–]|\d{1,2}[.)]|#{1,6})[ \t]+)?([^\n]+)")
"""A line without the mark of an item or a heading."""
_LETTER = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer that is true or false by itself.

    Args:
        text: what it says.
        start: where it begins in the answer, in characters.
        end: where it ends.
    """

    text: str
    start: int
    end: int


def split_sentences(text: str) -> list[Claim]:
    """The sentences of a text, in order; each line, and so each item of a list, by itself.

    Pieces without a letter or digit are left out.

    Args:
        text: any text.
    """
    spans = [
        (line.start(1) + start, line.start(1) + end)
        for line in _LINE.finditer(text)
        for start, end in prose_spans(line[1])
    ]
    sentences = [Claim(text[start:end], start, end) for start, end in spans]
    return [sentence for sentence in sentences if _LETTER.search(sentence.text)]


def split_claims(answer: str) -> list[Claim]:
    """The sentences of an answer that claim something, in order.

    Left out are mere politeness and sentences that only announce a list (they end in a colon and
    something follows).

    Args:
        answer: any text.
    """
    return [
        sentence
        for sentence in split_sentences(answer)
        if not is_chatter(sentence.text)
        and not (sentence.text.endswith(":") and answer[sentence.end :].strip())
    ]


def claim_at(answer: str, start: int, end: int) -> Claim:
    """The claim that stands at some characters of an answer, widened to whole words.

    Args:
        answer: the answer.
        start: the first character.
        end: behind the last one.

    Raises:
        ConfigError: nothing is said there.
    """
    if not 0 <= start < end <= len(answer) or not _LETTER.search(answer[start:end]):
        raise ConfigError(
            f"the characters {start} to {end} of the answer say nothing",
            key="start, end",
            hint=f"the answer has {len(answer)} characters",
        )
    while start and answer[start - 1].isalnum() and answer[start].isalnum():
        start -= 1
    while end < len(answer) and answer[end].isalnum() and answer[end - 1].isalnum():
        end += 1
    start, end = trimmed_span(answer, start, end)
    return Claim(answer[start:end], start, end)


_REFUSAL = re.compile(
    r"""
    \b(?:i|we)\s+(?:am|'m|are|'re|was|were)?\s*(?:really\s+|very\s+)?
      (?:sorry\b|afraid\b|unable\s+to|not\s+able\s+to|not\s+sure|not\s+certain)
    | \b(?:sorry|apologies)\s*[,.:]
    | \b(?:i|we)\s+(?:do\s+not|don'?t|did\s+not|didn'?t|cannot|can'?t|can\s+not|
        could\s+not|couldn'?t)\s+
      (?:\w+\s+){0,2}?(?:know|find|answer|determine|tell|say|have|see|identify|provide|help|assist)
    | \b(?:there\s+(?:is|was|are)|contains?|provides?|gives?|has|have)\s+(?:no|not\s+any|
        not\s+enough|insufficient)\s+(?:\w+\s+){0,3}?(?:information|answer|evidence|mention|
        details?|data|context|documents?|sources?)
    | \b(?:not|n't|never)\s+(?:\w+\s+){0,2}?(?:mention(?:ed|s)?|provide[ds]?|specif(?:ied|y)|
        state[ds]?|given|contain(?:ed|s)?|available|include[ds]?|known|answered|enough\s+information|
        say|possible\s+to\s+(?:say|tell|determine|answer))\b
    | \b(?:insufficient|inadequate)\s+(?:information|evidence|context|data)
    | \b(?:cannot|can'?t|could\s+not|can\s+not)\s+be\s+(?:determined|answered|found|inferred)
    | \bempty\s+response\b | \bno\s+(?:answer|information|relevant\s+\w+|idea)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WHOLE = {"", "unknown", "n/a", "na", "none", "null", "no answer", "nothing", "?", "not known"}
_CHATTER = re.compile(
    r"""(?:(?:i\s+)?hope\s+(?:this|that|it)\s+helps?|let\s+me\s+know|(?:please\s+)?feel\s+free
      |(?:you(?:'re|\s+are)\s+)?welcome|thank(?:s|\s+you)|sure|certainly|of\s+course
      |absolutely|great\s+question|good\s+question|hello|hi|here\s+(?:is|are|'s)\s+(?:the|a|an|my)
      \s+(?:answer|summary|response)|is\s+there\s+anything\s+else|if\s+you\s+(?:have|need))\b""",
    re.IGNORECASE | re.VERBOSE,
)
_MOST_CHATTER = 14


def is_refusal(output: str) -> bool:
    """Whether an output says nothing, or says that it cannot answer.

    Known wordings of models and frameworks, in the first sentence or in a short text (LlamaIndex
    says "Empty Response" without asking any model where nothing was retrieved).

    Args:
        output: what was answered.
    """
    return not without_refusals(output)


def without_refusals(output: str) -> str:
    """What an output says besides that it cannot answer, sentence by sentence; perhaps nothing.

    Args:
        output: what was answered.
    """
    text = " ".join(output.replace("\u2019", "'").split())
    if text.strip(" .!'\"*").lower() in _WHOLE:
        return ""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    left = [one for one in sentences if not _REFUSAL.search(one)]
    if len(left) < len(sentences):  # what is added to a refusal by way of politeness says nothing
        left = [one for one in left if not is_chatter(one)]
    return " ".join(left)


def is_chatter(sentence: str) -> bool:
    """Whether a sentence is mere politeness: "I hope this helps!"."""
    short = len(sentence.split()) <= _MOST_CHATTER
    return short and bool(_CHATTER.match(sentence.replace("\u2019", "'").strip(" \"'*-")))


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
"""The checks, in order, and what each looks at."""

_ENOUGH, _FEW, _HALF, _MOST = 0.6, 0.2, 0.5, 0.51
_SHORT, _OTHER = 6, 2
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*", re.UNICODE)
_MONTHS = tuple(name.lower() for name in calendar.month_name[1:])
_UP_TO_TWELVE = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: str(number) for number, word in enumerate(_UP_TO_TWELVE.split())}
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
        claim = self._claim = _Words(self.claim)
        question, read = _Words(self.question), [_Words(text) for text in self.documents]
        # What a question leaves open between two has to be said.
        either = {_stem(one) for pair in _EITHER.findall(self.question) for one in pair}
        self._asked = question.stems - either
        self._asks_who = bool(question.stems & _WHO)
        held = set[str]().union(*(words.stems for words in read))
        facts = set[str]().union(*(words.facts for words in read)) if held else claim.facts
        times = set[str]().union(*(words.times for words in read))
        inside = set[str]().union(*(words.inner_names for words in read))
        new = {stem for stem in claim.stems if stem not in self._asked and stem not in _STOP}
        self._facts = claim.facts & new & facts
        self._numbers = self._facts | claim.times & new & times
        self._names = (claim.inner_names | claim.first_name & inside) & new - self._numbers
        plain = {stem for stem in new if not stem[0].isdigit()}
        self._words = plain & held - self._numbers or plain
        self._about = (claim.content | self._asked) - _STOP - self._names
        self._other = held - self._about - self._names - _STOP
        self._names_of_documents = held - question.small.union(*(words.small for words in read))
        names = self._names_of_documents if held else {one for one in new if one[-2:] != "ly"}
        self._subject = claim.subject & names
        self._refuses = is_refusal(self.claim)
        self._plain = normalize_answer(self.claim)

    def __call__(self, output: str) -> bool:
        """Whether the output makes the claim."""
        return self.verdict(output).same

    def many(self, outputs: Sequence[str]) -> list[bool]:
        """Whether each output makes the claim; models judge what is left open together."""
        undecided = {}
        for output in dict.fromkeys(outputs):
            if output not in self.known:
                verdict = self._by_words(output)
                if isinstance(verdict, Verdict):
                    self.known[output] = verdict
                else:
                    undecided[output] = verdict
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
        text = without_refusals(output)
        if self._refuses or not text:
            return Verdict(self._refuses and is_refusal(output), "refusal")
        plain, short = normalize_answer(text), len(self._plain.split()) <= _SHORT
        if plain == self._plain or (short and contains_normalized(plain, [self._plain])):
            return Verdict(True, "match")
        words = _Words(text)
        if self._claim.polarity or words.polarity:
            alike = self._claim.polarity == words.polarity
            if not alike or not (self._names or self._numbers):
                return Verdict(alike, "yes or no")
        if not (self._numbers <= words.stems and self._facts <= words.facts):
            return Verdict(False, "numbers")
        if self._somebody_else(words):
            return Verdict(False, "names")
        step, wanted, enough = "words", self._words or self._claim.content, _ENOUGH
        if self._names:
            # One of two names is enough (Paris of "Paris, France"); of more it takes most of them.
            enough = _HALF if len(self._names) <= 2 else _MOST
            step, wanted = "names", self._names
        elif self._numbers and not self._words:
            step, wanted = "numbers", self._numbers
        share = _share(wanted, words.stems)
        if share < enough:
            return Verdict(False, step) if share <= _FEW else share
        if step == "names" and self._elsewhere(words):
            return Verdict(False, step)
        denied = self._denied(words)
        return Verdict(not denied, "negation" if denied else step)

    def _somebody_else(self, words: _Words) -> bool:
        """Whether the claim begins with a name, and the output has another one in its place.

        "Einstein won the Nobel Prize." has most of the names of "Curie won the Nobel Prize.". So
        has what is said of another one than the one that both question and claim name.
        """
        parts = words.sentences or [words]
        near = max(parts, key=lambda part: _share(self._claim.content, part.stems))
        about = self._claim.inner_names & self._asked & self._names_of_documents
        if about and not self._names and not _share(about, words.stems):
            return bool(near.inner_names & self._names_of_documents - self._claim.stems)
        if not self._subject or _share(self._subject, words.stems):
            return False
        alike = near.second == self._claim.second
        other = near.subject if alike else near.subject & self._names_of_documents
        if other & self._claim.stems:  # "Mayor Ann Lee"
            other = set()
        return bool(
            other or (self._asks_who and near.inner_names - self._claim.stems - self._asked)
        )

    def _elsewhere(self, words: _Words) -> bool:
        """Whether every sentence with the names states another fact of the documents about them.

        "The Seine flows through Paris." names Paris and does not say that it is the capital.
        """
        near = [part for part in words.sentences if self._names & part.stems]
        return bool(near) and all(
            len(part.stems & self._other) >= _OTHER and not (part.stems & self._about)
            for part in near
        )

    def _denied(self, words: _Words) -> bool:
        """Whether exactly one of them denies it, in the sentence that speaks of it."""
        wanted = self._names or self._words or self._numbers
        near = [part for part in words.sentences if wanted & part.stems] or words.sentences
        return self._claim.negated != any(part.negated for part in near)

    def _by_models(self, undecided: Mapping[str, float]) -> None:
        if self.entailment is not None:
            values = list(self.entailment.entails(list(undecided), [self.claim] * len(undecided)))
            if len(values) != len(undecided):
                raise PredicateError(
                    f"the entailment encoder gave {len(values)} values for {len(undecided)} pairs"
                )
            for output, value in zip(undecided, values, strict=True):
                self.known[output] = Verdict(float(value) >= _HALF, "entailment")
            return
        step = "names" if self._names else "words"
        for output, share in undecided.items():
            if self.judge is not None:
                self.known[output] = Verdict(self._judged(self.judge, output), "judge")
                continue
            enough = share >= (_MOST if len(self._names) > 2 else _HALF)
            denied = enough and self._denied(_Words(without_refusals(output)))
            self.known[output] = Verdict(enough and not denied, "negation" if denied else step)

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


def _share(wanted: Iterable[str], spoken: set[str]) -> float:
    """How much of some words is there; a longer form of the same word counts."""
    words = list(wanted)
    if not words:
        return 0.0
    common = sum(word in spoken or _longer(word, spoken) for word in words)
    return common / len(words)


def _longer(word: str, spoken: set[str]) -> bool:
    """Whether an inflected form is there: "elected" for "elect", "French" not for "France"."""
    if len(word) < 5 or word[0].isdigit():
        return False
    root = word[: max(5, len(word) - 2)]
    return any(one.startswith(root) and abs(len(one) - len(word)) <= 3 for one in spoken)


class _Words:
    """The words of a text: stems, names, numbers, and whether it denies or says yes or no.

    Attributes:
        stems: of all words.
        small: those that stand there without a capital.
        first_name: names that begin a sentence.
        inner_names: names that do not.
        subject: the names that the text begins with.
        second: the stem behind them.
        facts: numbers, but for those that count or cite.
        times: numbers of times.
        polarity: ``yes`` or ``no`` where the text begins with that; empty otherwise.
        negated: whether it denies something.
    """

    def __init__(self, text: str) -> None:
        text = self._text = _ISO.sub(_iso, text)
        matches = list(_WORD.finditer(text))
        words = [(match.group(), _stem(match.group())) for match in matches]
        gaps = [text[a.end() - 1 : b.start()].rstrip() for a, b in itertools.pairwise(matches)]
        begins = [True, *(gap[-1:] in ".!?:" for gap in gaps)]
        names = [_is_name(*word) for word in words]
        self.stems = {stem for _, stem in words}
        self.small = {stem for word, stem in words if word[0].islower()}
        places = list(itertools.compress(range(len(words)), names))
        self.first_name = {words[n][1] for n in places if begins[n]}
        self.inner_names = {words[n][1] for n in places if not begins[n]}
        leading = [*names, False].index(False)
        self.subject = {stem for _, stem in words[:leading]}
        self.second = "".join(stem for _, stem in words[leading : leading + 1])
        both = zip(matches, words, strict=True)
        numbers = {match.start(): stem for match, (_, stem) in both if stem[0].isdigit()}
        found = _COUNTS.finditer(text) if numbers else ()
        counts = {at: m for m in found for at in range(m.start(), m.end())}
        self.facts = {stem for at, stem in numbers.items() if at not in counts}
        self.times = {stem for at, stem in numbers.items() if at in counts and counts[at]["times"]}
        answer = words[0][1] if words and text[matches[0].end() :][:1] in ",.!" else ""
        self.polarity = answer if answer in ("yes", "no") else ""
        short = "'" in text or "\u2019" in text
        self.negated = any(
            stem in _NEGATIONS or (short and word.lower().replace("\u2019", "'").endswith("n't"))
            for word, stem in words[bool(self.polarity) :]
        )

    @property
    def content(self) -> set[str]:
        """The words that carry meaning."""
        return {stem for stem in self.stems if stem not in _STOP}

    @property
    def sentences(self) -> list[_Words]:
        """The same, sentence by sentence."""
        return [_Words(part) for part in re.split(r"(?<=[.!?;])\s+", self._text) if part.strip()]


def _is_name(word: str, stem: str) -> bool:
    return word[0].isupper() and stem not in _STOP and not stem[0].isdigit()


def _iso(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    name = _MONTHS[int(month) - 1] if 1 <= int(month) <= 12 else month
    return f"{int(day)} {name} {year}" if day else f"{name} {year}"


@lru_cache(1 << 16)
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
