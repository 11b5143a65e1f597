"""Which words of a question a relation accounts for, and which are left without an account.

A question is understood where every word that is more than a joint is accounted for: by a name, a
time, a form of asking, a relation, or the kind of what stands at its end. "Is Anna married?" of a
graph that knows nothing of marriage leaves "married", and is refused for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rulerag.linking.question import QuestionWords
from rulerag.linking.relations import SOMETHING, RelationRanker, family
from rulerag.linking.roles import Kinds, Roles
from rulerag.linking.steps import Step, other_end
from rulerag.linking.words import (
    ANYTHING,
    ASKING,
    CLASSES,
    DETERMINERS,
    INVERSE,
    LIGHT_VERBS,
    ORGANISATIONS,
    PLACES,
    PREPOSITIONS,
    RELATIVES,
    STOP_WORDS,
    stem,
    thesaurus,
    words_of,
)

# Chosen on validation questions (benchmarks/linking/asking): how alike a word is to one of a label
# that accounts for it, where it is that word itself, and a noun to what stands at an end.
_ALIKE, _SAME, _KIND = 0.35, 0.9, 0.3
# How alike the meanings of words and relation are, where no single word says it.
_MEANING = 0.6
# From here on people, or places, stand at an end (roles.Kinds.people).
_PEOPLE_THERE, _PLACES_THERE, _NOBODY_THERE = 0.5, -0.5, 0.3
_USUAL = 0.05  # a relation is usual for what so many of its like have it
_SOMETIMES = 0.2  # of the people at an end so many have what says what they are
_HUMAN_ENDINGS = ("er", "or", "ist", "ian", "man", "naut", "chef")
_WHICH = frozenset({"which", "what"})
_PARTICIPLES = ("ed", "ing")


@dataclass(frozen=True, slots=True)
class Account:
    """What a step accounts for.

    Args:
        left: words that nothing accounts for.
        relation: how many words say the relation.
        kinds: how many say what stands at its end.
        exact: how alike the least alike of its words is to one of the label, from 0 to 1.
    """

    left: tuple[str, ...]
    relation: int
    kinds: int
    exact: float


class Accounts:
    """Accounts for the words of questions by relations and kinds.

    Args:
        relations: how each is said.
        roles: what entities stand at the ends of.
        kinds: what kind of things stand there.
    """

    def __init__(self, relations: RelationRanker, roles: Roles, kinds: Kinds) -> None:
        self._relations, self._roles, self._kinds = relations, roles, kinds
        self._said: dict[str, frozenset[str]] = {}

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        """The words that say each relation."""
        found = {}
        for name, texts in zip(self._relations.names, self._relations.texts, strict=True):
            words = [words_of(text) for text in texts]
            every = {w for one in words for w in one} - ASKING - {SOMETHING}
            phrases = {w for one in words for w, a, b in thesaurus().tokens(one) if b - a > 1}
            found[name] = sorted((every | phrases) - STOP_WORDS - PREPOSITIONS) or sorted(every)
        return found

    def alike(self, question: QuestionWords, token: int, relation: str) -> float:
        """How alike a word is to the words of a relation, from 0 to 1."""
        words = [question.tokens[token].word, *question.phrases_of(token)]
        return max(
            (alike(one, other) for one in words for other in self._words[relation]), default=0
        )

    def says_relation(self, question: QuestionWords, token: int) -> bool:
        """Whether a word is that of some relation's label."""
        return bool(self._saying(question.tokens[token].word))

    def _saying(self, word: str) -> frozenset[str]:
        """The relations whose labels have a word."""
        if word not in self._said:
            self._said[word] = frozenset(
                name
                for name, words in self._words.items()
                if any(same_word(word, other) for other in words)
            )
        return self._said[word]

    def _usual(self, entities: Sequence[str]) -> frozenset[str]:
        """The relations that are usual for entities; all of them where nobody is named."""
        if not entities:
            return frozenset(self._words)
        fits, _ = self._roles.fits(*entities)
        return frozenset(role.removeprefix(INVERSE) for role, x in fits.items() if x >= _USUAL)

    def names_kind(self, question: QuestionWords, token: int, role: str) -> bool:
        """Whether a noun may name what stands at an end of a relation.

        Where the graph knows nothing of such things, a noun that stands where kinds do ("which
        castles") is believed, unless it is a person's: "nurses" would be a condition.
        """
        word, people = question.tokens[token].word, self._kinds.people(role)
        if word in ANYTHING:
            return True
        if word.endswith(_PARTICIPLES) and token not in question.kind_places:
            return False
        relation = role.removeprefix(INVERSE)
        near = self.alike(question, token, relation)
        named = near > _SAME or (near >= _ALIKE and not self.says_relation(question, token))
        named = named or any(thesaurus().is_kind(word, one) for one in self._words[relation])
        wrong = (people > _PEOPLE_THERE and not is_human(word)) or (
            people < _PLACES_THERE and word not in PLACES
        )
        if named and not wrong:
            return True
        if word in ORGANISATIONS:
            return not self._kinds.own_people(role)
        if word in PLACES and (
            people <= _PLACES_THERE or (token in question.kind_places and people <= _NOBODY_THERE)
        ):
            return True
        if token in question.named:  # it may be a value, so that labels alone make it a kind
            return self._kinds.stated(word, role) >= _KIND
        if self._kinds.alike(word, role) >= _KIND:
            return True
        if token not in question.kind_places or word.endswith(_PARTICIPLES):
            return False
        if is_human(word):
            return people > _PLACES_THERE and self._may_be_one(word, role)
        return (
            not self._kinds.own_people(role)
            and word in thesaurus()
            and not self._known_elsewhere(question, token, relation)
        )

    def _may_be_one(self, word: str, role: str) -> bool:
        """Whether people at an end may be what a noun says: what they are, the facts do not say.

        Where they do, as by "has role", one of them has to be like it.
        """
        known = [
            other
            for other in self._roles.names
            if set(self._words[other.removeprefix(INVERSE)]) & CLASSES["PROFESSIONS"]
            and self._roles.share(role, other) > _SOMETIMES
        ]
        return not known or any(self._kinds.alike(word, other_end(one)) >= _KIND for one in known)

    def _known_elsewhere(self, question: QuestionWords, token: int, relation: str) -> bool:
        """Whether a noun names what stands at another end, or is the word of another relation."""
        word = question.tokens[token].word
        return any(
            self._kinds.alike(word, role) > 2 * _KIND for role in self._roles.names
        ) or self._says_another(question, token, relation)

    def _says_another(self, question: QuestionWords, token: int, relation: str) -> bool:
        """Whether a noun is the word of another relation."""
        return bool(self._saying(question.tokens[token].word) - {relation})

    def of(
        self,
        question: QuestionWords,
        words: Sequence[int],
        step: Step,
        *,
        nouns: Collection[int] = (),
        asked_noun: int | None = None,
        apposed: int | None = None,
        entities: Sequence[str] = (),
    ) -> Account:
        """What a step accounts for of some words.

        Args:
            question: the question.
            words: the tokens that need an account.
            step: the relation, and the end that is asked for.
            nouns: tokens that may name what stands at that end.
            asked_noun: the token behind "which" or "how many", which must.
            apposed: the token before a name, which says what the name is: "the film Alien".
            entities: who is asked about: the word of a relation that is usual for them says that.
        """
        usual = self._usual(entities)
        left, relation, kinds = [], 0, 0
        exact = 1.0
        stems: set[str] = set()
        for token in words:
            word = question.tokens[token].word
            near = self.alike(question, token, step.relation)
            if token == asked_noun:
                if self.names_kind(question, token, step.role):
                    kinds += 1
                    relation += self._kinds.stated(word, step.role) >= _SAME
                else:
                    left.append(word)
            elif token == apposed and (
                near >= _ALIKE
                or self.names_kind(question, token, step.asked)
                or any(thesaurus().is_kind(word, one) for one in self._words[step.relation])
                or not self.says_relation(question, token)
            ):
                continue
            elif self._describes_another(question, token, asked_noun) and not (
                near > _SAME
                and self._kinds.alike(question.word(asked_noun or 0), step.role) >= _KIND
            ):
                left.append(word)
            elif near > _SAME or (near >= _ALIKE and not self._saying(word) & usual):
                relation += 1
                if word not in LIGHT_VERBS | ANYTHING:
                    exact = min(exact, near)
                if stem(word) in stems:  # "M's neighbour's neighbour" is two steps away
                    left.append(word)
                stems.add(stem(word))
            elif self._is_another_thing(question, token, asked_noun):
                left.append(word)
            elif (token in nouns or token in question.kind_places) and self.names_kind(
                question, token, step.role
            ):
                kinds += 1
            elif any(thesaurus().is_kind(word, one) for one in self._words[step.relation]):
                continue  # "films" is no condition on what was directed
            else:
                left.append(word)
        if relation or kinds:
            there = self._kinds.people(step.role) <= _PLACES_THERE
            needless = LIGHT_VERBS | ANYTHING | (CLASSES["SITUATED"] if there else frozenset())
            joined = {question.word(n) for n in words if "and" in question.beside(n)}
            left = [word for word in left if word not in needless or word in joined]
        if left and not relation and step.meaning >= _MEANING:
            verbs = question.verbs({asked_noun, apposed})
            if all(question.word(n) not in left or n in verbs for n in words):
                relation, left = len(left), []
        return Account(tuple(left), relation, kinds, exact if words else 0.0)

    @staticmethod
    def _is_another_thing(question: QuestionWords, token: int, asked_noun: int | None) -> bool:
        """Whether a kind is of something besides what is asked: "what types are the films by M"."""
        return (
            asked_noun is not None
            and question.word(token - 1) in DETERMINERS
            and alike(question.word(token), question.word(asked_noun)) < _ALIKE
        )

    @staticmethod
    def _describes_another(question: QuestionWords, token: int, asked_noun: int | None) -> bool:
        """Whether a noun starts a phrase about something else: "in which city is the boss of M".

        In "which firm is the employer of M" it says what the firm is.
        """
        if asked_noun is None or question.word(token - 1) != "the":
            return False
        if question.word(token + 1) not in RELATIVES | {"of"} or not question.word(token + 2):
            return False
        if token < asked_noun:  # "the author of M also wrote which books"
            return any(n not in question.named for n in question.content(token + 2, asked_noun))
        between = {question.word(n) for n in range(asked_noun + 1, token - 1)}
        first = next(n for n in range(asked_noun, -1, -1) if n == 0 or question.word(n) in _WHICH)
        fronted = question.word(first - 1) in PREPOSITIONS
        return fronted or not between <= CLASSES["COPULAS"]

    def kind_says(
        self, question: QuestionWords, token: int | None, role: str, *, where: bool
    ) -> bool:
        """Whether the kind that is asked for alone says what is asked: "in which city is M ?".

        Args:
            question: the question.
            token: the noun; None where there is none.
            role: the end that it may stand at.
            where: whether the question asks for a place.
        """
        word = "" if token is None else question.tokens[token].word
        places = self._kinds.people(role) <= _PLACES_THERE
        if places and (where or word in PLACES):
            return True
        labels = self._words[role.removeprefix(INVERSE)]
        if where and any(alike("located", one) > _SAME for one in labels):
            return True
        nouns = ("city", "country", "town") if where else ()
        named = max((self._kinds.alike(one, role) for one in nouns), default=0.0)
        return max(named, self._kinds.stated(word, role) if word not in ANYTHING else 0.0) >= _KIND

    def preposition_says(self, question: QuestionWords, name: int, step: Step) -> bool:
        """Whether the word before a name is the one that a relation ends with: "who is at M".

        Args:
            question: the question.
            name: the first token of the name.
            step: the relation, and the end that is asked for.
        """
        before = name - 1
        while question.word(before) in DETERMINERS:
            before -= 1
        word = question.word(before)
        label = words_of(self._relations.texts[self._relations.names.index(step.relation)][0])
        if word == "by" or question.word(len(question) - 1) == "by":
            return any(thesaurus().is_kind("by", one) for one in label)
        stands = any(token.word in CLASSES["STANDS"] for token in question.tokens)
        same = label[-1:] == [word] or (stands and {word, *label[-1:]} <= {"in", "at", "on"})
        return step.asked.startswith(INVERSE) and word in PREPOSITIONS - {"of"} and same

    def nearest(
        self, question: QuestionWords, left: Sequence[str], steps: Sequence[Step]
    ) -> list[str]:
        """The relations, those first that come nearest to words that nothing accounts for."""
        tokens = [n for n, token in enumerate(question.tokens) if token.word in left]
        best = {step.relation: -n for n, step in reversed(list(enumerate(steps)))}

        def near(name: str) -> tuple[float, int]:
            likeness = [self.alike(question, token, name) for token in tokens]
            return max(likeness, default=0.0), best.get(name, -len(best) - 1)

        return sorted(self._words, key=lambda name: (*(-one for one in near(name)), name))


@lru_cache(maxsize=200_000)
def same_word(word: str, other: str) -> bool:
    """Whether two words are forms of one."""
    bases = thesaurus().bases
    return stem(word) == stem(other) or bool(set(bases(word)) & set(bases(other)))


@lru_cache(maxsize=200_000)
def alike(word: str, other: str) -> float:
    """How alike two words are, by form, by the thesaurus and by everyday use, from 0 to 1."""
    words = thesaurus()
    if same_word(word, other):
        return 1.0
    if any(map(str.isdigit, word + other)):
        return 0.0
    return max(
        words.alike(word, other), family(stem(word), stem(other)), words.everyday(word, other)
    )


@lru_cache(maxsize=10_000)
def is_human(noun: str) -> bool:
    """Whether a noun is of people: "nurses", "the director"."""
    words = thesaurus()
    known = noun in words
    return words.is_a(noun, "person") or (not known and noun.rstrip("s").endswith(_HUMAN_ENDINGS))
