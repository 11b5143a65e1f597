"""Relations and rules in plain words: a template for each relation, derived or written by hand.

A template holds ``{x}`` for the subject and ``{y}`` for the object: ``{x} works for {y}``. Without
one, it is derived from the relation's label: labels that start with a verb are said as they are or
in the third person ("Make a visit": ``{x} makes a visit: {y}``), others as a noun ("capital":
``the capital of {x} is {y}``). Derived templates are plain, not always graceful; a YAML file of
``relation: template`` puts better ones in their place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from rulerag.composition import read_values
from rulerag.errors import DataFormatError
from rulerag.io import read_text, write_text
from rulerag.kg.calendar import Calendar
from rulerag.kg.queries import ConjunctiveQuery, ends
from rulerag.rules import Atom, Rule, readable

FILE = "phrases.yaml"
"""The name of a dataset folder's own templates."""

_VERB_LIST = """
abduct accede accuse acquire aid allow announce appeal appoint apologize apply approve
arrest ask assassinate assault assign attack attempt attend ban bear bring broadcast build
buy call carry cede change cite claim complain concede conduct confiscate consider consult
cooperate coerce create criticize decline defend defy demand demonstrate demobilize denounce
deny deploy destroy detain direct discuss edit employ encourage end endorse engage ensure
enter espouse establish estimate expel express fight file find fly follow forgive form found
give grant halt have hire hold host impose increase influence inspect investigate invite
join kill know lead leave like live locate lodge love make marry mediate meet mobilize
negotiate obstruct occupy offer own permit play pledge praise prevent produce promise
propose protest provide publish rally receive recognize reduce refuse reject release relax
rescind respond restrict retreat return run say see seek seize sell send serve sever share show
sign speak start study succeed sue support surrender take teach telephone threaten torture
trade use veto violate visit vote wed win withdraw work write yield
"""
_VERBS = frozenset(_VERB_LIST.split())
# Verbs whose first person is too easily a noun, or too rare to be worth its third.
_THIRD_LIST = """
activates adjoins appears authors belongs binds catalyzes coaches collaborates commands composes
contains contributes correlates depends depicts derives designs develops directs eats encodes
excludes expects funds governs illustrates includes inhabits inherits inhibits interacts invents
involves maintains manages measures mentions operates orbits organizes overlaps owes paints
participates performs photographs precedes prefers prescribes promotes recommends regulates relates
replaces represents requires resembles reviews specializes stars supervises supplies surrounds
trains translates travels treats understands wears
"""
_THIRD = frozenset(_THIRD_LIST.split())
_PAST_LIST = """
died graduated participated played worked lived moved belonged won wrote sang spoke bought sold
built taught took lost sent paid fought chose became began knew met held gave brought led made told
went came ran wore grew kept caught drew flew sought threw rode bore swore wed
"""
_PAST = frozenset(_PAST_LIST.split())
_BE = ("is ", "was ", "has ", "had ", "are ", "will ", "can ")
_LINK_LIST = """
of in at to by for from with on into against about over under as near between
"""
_LINKS = frozenset(_LINK_LIST.split())
_ARTICLES = frozenset({"a", "an", "the"})
# Plurals of labels in public graphs that are more usual as verbs.
_PLURALS = frozenset({"peers", "picks"})
_VERB_FILE = Path(__file__).with_name("verbs.txt")
_CASES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASIDES = re.compile(r"\s*\([^()]*\)")
_NAMES = "XYZWVU"
_FORMS = {"count": "how many: ", "yes or no": "whether ", "time": "when: "} | {
    form: f"the {form} of: " for form in ("first", "last")
}
# How often a rule holds, by the least confidence of each word.
_OFTEN = ((0.9, "nearly always"), (0.5, "usually"), (0.2, "often"), (0.0, "sometimes"))


@lru_cache(maxsize=4096)
def derived_phrase(label: str) -> str:
    """The template of a relation without one of its own.

    Args:
        label: the relation in words, or its raw name.
    """
    words = _ASIDES.sub("", _CASES.sub(" ", readable(label))).strip(" <>") or label
    words = " ".join(
        word if word.isupper() else word[0].lower() + word[1:] for word in words.split()
    )
    typed = re.fullmatch(r"\w+(?<!ly) (\w+)((?: .+)?)", words)
    if typed and not words.startswith(_BE) and _has_verb_second(typed[1], typed[2]):
        words = typed[1] + typed[2]  # "athlete plays in league"
    first, _, rest = words.partition(" ")
    last = words.rpartition(" ")[2]
    if first.endswith("ly") and _starts_with_verb(rest):
        return f"{{x}} {words} {{y}}"
    if f"{words} ".startswith(_BE) or _starts_with_verb(words) or first in _PAST:
        return f"{{x}} {words} {{y}}"
    if first.strip(",") in _VERBS:
        verb = re.sub(r"^\w+", lambda match: _third(match.group()), words)
        return f"{{x}} {verb} {{y}}" if not rest or last in _LINKS else f"{{x}} {verb}: {{y}}"
    if first.endswith("ed"):  # "created" somebody, but "located in" is a state
        linked = rest.partition(" ")[0] in _LINKS
        return f"{{x}} is {words} {{y}}" if linked else f"{{x}} {words} {{y}}"
    if last in _LINKS:
        return f"{{x}} is {words} {{y}}"
    return f"the {words} of {{x}} is {{y}}"


def _third(verb: str) -> str:
    """The third person of a verb: makes, carries, accuses."""
    if verb == "have":
        return "has"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def _starts_with_verb(words: str) -> bool:
    """Whether words begin with a verb in the third person: "sends a parcel to"."""
    first, _, rest = words.partition(" ")
    following = rest.partition(" ")[0]
    if _is_third_person(first) or (following in _ARTICLES and first not in _VERBS | _LINKS):
        return True  # "books a trip to": no noun stands before an article
    return first in _third_persons() and following not in ("and", "or")


def _has_verb_second(verb: str, rest: str) -> bool:
    """Whether the second word of a label is its verb, behind the kind of its subject."""
    if _is_third_person(verb) or (verb.endswith("ed") and rest):
        return True
    return verb in _third_persons() and (rest.split() or [""])[0] in _LINKS | _ARTICLES


@cache
def _third_persons() -> frozenset[str]:
    """Those of the verbs of WordNet that are seldom nouns."""
    return frozenset(map(_third, read_text(_VERB_FILE).split())) - _PLURALS


def _is_third_person(word: str) -> bool:
    """Whether a word is the third person of a known verb."""
    if word in _THIRD:
        return True
    return word != "has" and any(_third(verb) == word for verb in _VERBS if verb[0] == word[:1])


class Phrases:
    """Says atoms and rules in plain words.

    Args:
        own: templates by raw relation.
        label: the words of a raw relation, from which the others are derived.

    Raises:
        DataFormatError: a template lacks ``{x}`` or ``{y}``; names the relation.
    """

    def __init__(
        self, own: Mapping[str, str] | None = None, label: Callable[[str], str] = readable
    ) -> None:
        self.own = dict(own or {})
        self.label = label
        for relation, template in self.own.items():
            if "{x}" not in str(template) or "{y}" not in str(template):
                raise DataFormatError(
                    f"expected a sentence with {{x}} and {{y}}, not {template!r}",
                    key=relation,
                    hint=f"for example {derived_phrase(label(relation))!r}",
                )

    @classmethod
    def of_folder(
        cls, folder: str | Path | None, label: Callable[[str], str] = readable
    ) -> Phrases:
        """Those of a dataset folder: its ``phrases.yaml`` where it has one.

        Raises:
            ConfigError: the file is no YAML. DataFormatError: a template is wrong.
        """
        file = Path(folder) / FILE if folder is not None else None
        own = read_values(file) if file is not None and file.is_file() else {}
        return cls({str(key): str(value) for key, value in own.items()}, label)

    def template(self, relation: str) -> str:
        """The sentence of a relation, with ``{x}`` and ``{y}``; ``^r`` is r from its object."""
        if relation.startswith("^"):
            phrase = self.template(relation[1:]).replace("{x}", "{z}")
            return phrase.replace("{y}", "{x}").replace("{z}", "{y}")
        return self.own.get(relation) or derived_phrase(self.label(relation))

    def say(self, relation: str, subject: str, object_: str) -> str:
        """A fact or a question in words; ``?`` stands for what is asked."""
        # One pass: a name may hold braces.
        ends = {"{x}": subject, "{y}": object_}
        return re.sub(r"\{[xy]\}", lambda match: ends[match.group()], self.template(relation))

    def query(
        self,
        query: ConjunctiveQuery,
        name: Callable[[str], str] = readable,
        calendar: Calendar | None = None,
    ) -> str:
        """What a query asks, in words: ``Ann works for X and X is located in ?``.

        Args:
            query: what is asked.
            name: the words of a raw name.
            calendar: how its times read.
        """
        letters = iter(_NAMES)
        words = {
            term: "?" if term == query.wanted or not query.wanted else next(letters)
            for term in query.variables
        }
        facts = " and ".join(
            self.say(one.relation, *(words.get(term) or name(term) for term in ends(one)))
            for one in query.atoms
        )
        period = [
            f"{word} {calendar.format(time) if calendar else time}"
            for word, time in (("from", query.since), ("to", query.until))
            if time is not None
        ]
        asked = f"when {query.form}: " if query.form != "time" and query.asks_time else ""
        return " ".join([(asked or _FORMS.get(query.form, "")) + facts, *period])

    def rule(self, rule: Rule) -> str:
        """A rule in words: ``if X visits Y, then X consults Y``."""
        body, head = self._parts(rule, {})
        return f"if {body}, {'then later' if rule.temporal else 'then'} {head}"

    def because(self, rule: Rule, subject: str, answer: str) -> str:
        """Why a rule leads to an answer: ``because Bonn invites Ann, and then usually …``.

        How often is said by the rule's confidence.

        Args:
            rule: the rule.
            subject: what the head's subject stands for, in words.
            answer: what its object stands for.
        """
        known = {rule.head.subject: subject, rule.head.object: answer}
        body, head = self._parts(rule, {k: v for k, v in known.items() if k.startswith("?")})
        often = next(word for least, word in _OFTEN if rule.ranking_confidence >= least)
        return f"because {body}, and then {often} {head}"

    def _parts(self, rule: Rule, known: Mapping[str, str]) -> tuple[str, str]:
        """Body and head in words; variables that are not known get letters."""
        names: dict[str, str] = dict(known)
        letters = iter(_NAMES if not known else _NAMES[2:])
        for atom in (rule.head, *rule.body):
            # The ends of an inverse are named as those of its relation.
            for end in (atom.subject, atom.object)[:: -1 if atom.relation[:1] == "^" else 1]:
                if end.startswith("?") and end not in names:
                    names[end] = next(letters, end)

        def words(atom: Atom) -> str:
            ends = (names.get(end, end) for end in (atom.subject, atom.object))
            return self.say(atom.relation, *ends)

        return " and ".join(map(words, rule.body)), words(rule.head)

    def file_text(self, relations: Iterable[str]) -> str:
        """The YAML of the templates of some relations, to be edited."""
        lines = [f"{json.dumps(r)}: {json.dumps(self.template(r))}" for r in sorted(relations)]
        return "\n".join(["# {x} is the subject, {y} the object.", *lines, ""])

    def save(self, folder: str | Path, relations: Iterable[str]) -> Path:
        """Write the templates of some relations into a dataset folder; returns the file.

        Raises:
            OutputError: the file cannot be written.
        """
        file = Path(folder) / FILE
        write_text(file, self.file_text(relations))
        return file
