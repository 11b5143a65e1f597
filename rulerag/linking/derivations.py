"""From words to a conjunctive query: the simplest one that accounts for every word.

A question about one name is one step from it: a relation, and the end that is asked for. Several
names are conditions on one thing, or stand in the relation that is asked about. A phrase that
describes something ("the firm that M works for", "M's boss") is understood first and then stands
where a name could. So questions over several hops are put together from steps, each scored by the
words that say it (:mod:`~rulerag.linking.steps`); what leaves a word without an account
(:mod:`~rulerag.linking.accounts`) is no reading of the question.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import count, islice, pairwise, product

from rulerag.kg import Form
from rulerag.kg.grounding import FactIndex, solve
from rulerag.linking.accounts import Account, Accounts
from rulerag.linking.question import QuestionWords
from rulerag.linking.roles import AnswerKind
from rulerag.linking.steps import Derivation, Step, StepScorer, Term, other_end
from rulerag.linking.words import (
    ANYTHING,
    AUXILIARIES,
    CLASSES,
    DETERMINERS,
    INTERROGATIVES,
    INVERSE,
    LIGHT_VERBS,
    PREPOSITIONS,
    PRONOUNS,
    RELATIVES,
    SHARING,
    STOP_WORDS,
)
from rulerag.rules import Atom

# Chosen on validation questions (benchmarks/linking/asking), as log-likelihoods: what a relation
# that words say costs, one that no word says, a path there and back, and the same one again.
_COST, _UNSAID, _SHARED, _AGAIN = 7.0, 3.0, 1.0, 0.5
# A reading that facts know nothing of gives way to another one of the same words alone.
_WORDS_APART, _SURE_ORDER, _CERTAIN_ORDER, _SAME = 1.0, -2.5, 4.0, 0.9
_NO_RELATION = "?"
_SITUATED = frozenset({"based", "located", "situated"})
# How often phrases are understood first, how long they are before and behind a name, and how many
# readings of a phrase, answers of one and ways to read the phrases of a question are followed.
_PHRASES, _BEFORE, _BEHIND, _READINGS, _ANSWERS, _WAYS = 2, 12, 5, 3, 8, 40
_SOLUTIONS = 2000
_CONDITIONS = 8
_MOST_ATOMS = 3
_LEAST_SHARE, _UNKNOWN_SHARE = 0.02, 0.05
_WHO = frozenset({"who", "whom", "whose"})
_COPULAS = CLASSES["COPULAS"]


class DerivationSearch:
    """Finds the simplest derivations of a question.

    Args:
        scorer: what may be asked of terms.
        accounts: which words that accounts for.
        index: the facts: what phrases describe is looked up.
    """

    def __init__(self, scorer: StepScorer, accounts: Accounts, index: FactIndex) -> None:
        self.scorer, self.accounts, self._index = scorer, accounts, index
        self._numbers = count(1)

    def search(
        self,
        question: QuestionWords,
        terms: Sequence[Term],
        form: Form,
        period: tuple[int | None, int | None],
    ) -> tuple[list[Derivation], list[Derivation]]:
        """The derivations with the fewest phrases, and all that were tried.

        Args:
            question: its words.
            terms: its names, in order.
            form: what is wanted.
            period: the first and last time that facts may have.

        Returns:
            Those that account for every word, and that the facts know something of where any does;
            and every one that was tried.
        """
        ways: list[list[Term]] = [list(terms)]
        tried: list[Derivation] = []
        unknown: list[Derivation] = []
        for depth in range(_PHRASES + 1):
            found = [one for way in ways for one in self._whole(question, way, form)]
            found = [one for one in found if len(one.atoms) <= _MOST_ATOMS]
            tried += found
            whole = [one for one in found if not one.left]
            stated = [one for one in whole if self.is_stated(one, *period)]
            if form == "yes or no" and whole:
                # What no fact states is in doubt only where no other reading is stated.
                best = max(whole, key=lambda one: one.score)
                return self._not_another(best, stated) or whole, tried
            if depth == 0 and len(terms) == 1 and whole and form != "time":
                usual = [one for one in whole if self.is_usual(one, *terms[0].entities)]
                best = max(usual or whole, key=_by_words)
                # What is usual says nothing against words that say who stands to whom.
                turned = [one for one in whole if one.relation == best.relation and _is_sure(one)]
                best = turned[0] if turned else best
                stated = self._not_another(best, stated)
                if not stated and (turned or self.is_usual(best, *terms[0].entities)):
                    return [best], tried
            if stated:
                return stated, tried
            unknown += [
                one
                for one in whole
                if len(one.atoms) == 1 and any(self.is_usual(one, *t.entities) for t in terms)
            ]
            if depth == 0 and unknown:
                break
            if depth < _PHRASES:
                ways = [reduced for way in ways for reduced in self._reduced(question, way)]
                ways.sort(key=lambda way: -sum(term.score for term in way))
                del ways[_WAYS:]
        return unknown, tried

    def is_stated(self, one: Derivation, since: int | None, until: int | None) -> bool:
        """Whether the facts know something of what a derivation asks."""
        query = one.query("time", since, until)
        return next(solve(query, self._index), None) is not None

    @staticmethod
    def _not_another(best: Derivation, stated: Sequence[Derivation]) -> list[Derivation]:
        """Stated readings that may stand in for the likeliest by words, where that is not stated.

        What the facts state is no reason to understand another relation, or the other end of the
        same one where the order of words is sure.
        """
        if best in stated or best.step is None:
            return list(stated)
        found = []
        for one in stated:
            if one.step is None:
                continue
            if one.step.relation == best.step.relation:
                fits = one.step.order > _SURE_ORDER
            else:
                near = one.step.words >= best.step.words - _WORDS_APART
                fits = near or one.exact >= max(best.exact, _SAME)
            found += [one] * fits
        return found

    def is_usual(self, one: Derivation, *entities: str) -> bool:
        """Whether what a derivation asks in one step is known of others like some entities."""
        fits, _ = self.scorer.roles.fits(*entities)
        return one.step is None or fits.get(one.step.asked, 0.0) >= _UNKNOWN_SHARE

    # --- whole questions and phrases -----

    def _whole(
        self, question: QuestionWords, terms: Sequence[Term], form: Form
    ) -> Iterator[Derivation]:
        last = len(question)
        if len(terms) == 1:
            if form != "yes or no":
                again = (n for n in range(terms[0].last, last) if question.word(n) in PRONOUNS)
                if not any(question.content(terms[0].last, n) for n in again):
                    yield from self._of_one(question, 0, last, terms[0], whole=True)
                yield from self._twice(question, terms[0])
            return
        if len(terms) == 2 and form in ("yes or no", "time"):
            yield from self._between(question, terms)
        if form != "yes or no":
            yield from self._filtered(question, terms)
            yield from self._of_several(question, 0, last, terms)

    def _of_one(
        self, question: QuestionWords, first: int, last: int, term: Term, *, whole: bool
    ) -> Iterator[Derivation]:
        """One term and one relation: "who does M work for", "the boss of M"."""
        if any(question.word(n) in SHARING for n in range(first, last)):
            yield from self._sharing(question, first, last, term)
        words = [
            n
            for n in question.content(first, last, term.tokens)
            if question.word(n) not in SHARING or question.word(n + 1) not in ("a", "an")
        ]  # "shares a border"
        nouns = question.head_noun(first, last, term.tokens)
        asked = question.asked_noun(first, last, term.tokens) if whole else None
        where = whole and any(question.word(n) == "where" for n in range(first, last))
        noun = asked if asked is not None else (nouns[-1] if nouns else None)
        if asked is not None:
            question.kind_places.add(asked)
        elif nouns and not whole and self._opens_clause(question, nouns[-1] + 1, last, term):
            question.kind_places.add(nouns[-1])
        said = [n for n in words if n != asked]
        if not said and term.value and (not words or question.word(term.first - 1) in _COPULAS):
            for one in self._unsaid_of_value(term):
                role = INVERSE + one.atoms[0].relation
                if not words or self.accounts.names_kind(question, words[0], other_end(role)):
                    yield one
            return
        who = whole and any(question.word(n) in _WHO for n in range(first, last))
        word = question.word(noun) if noun is not None else "place" if where else ""
        situated = False
        if where:
            words = [n for n in words if question.word(n) not in _SITUATED]
            situated = any(question.word(n) in _SITUATED for n in range(first, last))
        text = question.only(first, last)
        span = question.span(term.first, term.last)
        chained = question.word(term.first - 1) == "of" and question.word(term.last) == "s"
        chained = chained and {n < term.first for n in words} == {True, False}
        for step in self.scorer.steps(text, span, term.entities, AnswerKind(word, who)):
            account = self.accounts.of(
                question,
                words,
                step,
                nouns=nouns,
                asked_noun=asked,
                apposed=question.apposed(term.first),
                entities=term.entities,
            )
            left = account.left
            if not words and not where and question.word(last - 1) != "by":
                left = (_NO_RELATION,)
            elif not left and (situated or not account.relation):
                says = self._kind_says(question, noun, step, term, where=where)
                left = () if says else (_NO_RELATION,)
            # "the examiner of M's thesis" is two steps away, and so is "the boss of M's boss".
            back = term.is_phrase and term.atoms[-1].relation == step.relation
            if (chained and not left) or (back and (account.exact < _SAME or not said)):
                left = (_NO_RELATION,)
            variable = self._variable()
            atoms = (*term.atoms, atom(step.asked, term.name, variable))
            score = term.score + step.score - _COST
            yield Derivation(atoms, variable, score, left, step, account.exact)

    def _twice(self, question: QuestionWords, term: Term) -> Iterator[Derivation]:
        """Two conditions on one thing with one name: "what did M write and direct"."""
        last = len(question)
        asked = question.asked_noun(0, last, term.tokens)
        if asked is not None and self.accounts.says_relation(question, asked):
            asked = None  # "what treats and prevents M"
        kinds = [] if asked is None else [asked]
        kind = AnswerKind(question.word(asked) if asked is not None else "")
        for joint in (n for n in range(1, last) if question.word(n) == "and"):
            words = [
                [n for n in question.content(*ends, term.tokens) if n not in kinds]
                for ends in ((0, joint), (joint + 1, last))
            ]
            if joint in term.tokens or not all(words):
                continue
            again = [n for n in range(joint, last) if question.word(n) in PRONOUNS][:1]
            options = []
            for part, own in enumerate(words):
                place = (again[0], again[0] + 1) if part and again else (term.first, term.last)
                other = {joint, *words[1 - part], *(term.tokens if part and again else ())}
                text = question.only(0, last, [(n, n + 1) for n in other])
                steps = self.scorer.steps(text, question.span(*place), term.entities, kind)
                options.append(
                    [
                        (step, account)
                        for step in steps[:_CONDITIONS]
                        if (
                            account := self.accounts.of(
                                question, [*kinds, *own], step, nouns=kinds, entities=term.entities
                            )
                        )
                        and account.relation
                    ]
                )
            for (one, mine), (two, theirs) in product(*options):
                if one.asked != two.asked:
                    variable = self._variable()
                    atoms = tuple(atom(step.asked, term.name, variable) for step in (one, two))
                    score = term.score + one.score + two.score - 2 * _COST
                    yield Derivation(
                        (*term.atoms, *atoms), variable, score, mine.left + theirs.left
                    )

    def _kind_says(
        self, question: QuestionWords, noun: int | None, step: Step, term: Term, *, where: bool
    ) -> bool:
        """Whether the kind that is asked for, or a preposition, says a relation by itself."""
        if self._has_role(term, step.asked) and self.accounts.preposition_says(
            question, term.first, step
        ):
            return True
        outside = (n for n in range(len(question)) if n not in term.tokens)
        if term.is_phrase and not any(question.word(n) in AUXILIARIES for n in outside):
            return False  # "which countries [border M]"
        # "the countries of M": of the two ends of a relation that M has both of, either may be.
        if self._has_role(term, step.role) and not where:
            return False
        return self.accounts.kind_says(question, noun, step.role, where=where)

    @staticmethod
    def _opens_clause(question: QuestionWords, token: int, last: int, term: Term) -> bool:
        """Whether a clause about what stands before it begins: "the firm that …"."""
        return token < last and (question.word(token) in RELATIVES or token in term.tokens)

    def _unsaid_of_value(self, term: Term) -> Iterator[Derivation]:
        """What a value is of, where no word says it: "how many engineers are there"."""
        for role in self.scorer.roles.held(term.name):
            if role.startswith(INVERSE):
                variable = self._variable()
                yield Derivation((atom(role, term.name, variable),), variable, 0.0)

    def _sharing(
        self, question: QuestionWords, first: int, last: int, term: Term
    ) -> Iterator[Derivation]:
        """What shares something with a term: "who acted together with M"."""
        but = {*term.tokens, *(n for n in range(first, last) if question.word(n) in SHARING)}
        words = question.content(first, last, but)
        nouns = question.head_noun(first, last, but)
        asked = question.asked_noun(first, last, but)
        who = any(question.word(n) in _WHO for n in range(first, last))
        kind = AnswerKind(question.word(nouns[-1]) if nouns else "")
        span = question.span(term.first, term.last)
        text = question.only(first, last)
        for step in self.scorer.steps(text, span, term.entities, kind):
            if not self._has_role(term, step.asked):
                continue
            # What shares it stands at the term's own end.
            own = step.asked
            account = self.accounts.of(
                question, [n for n in words if n != asked], step, entities=term.entities
            )
            named = {
                question.word(n)
                for n in (*nouns, *([] if asked is None else [asked]))
                if self.accounts.names_kind(question, n, own)
            }
            left = [word for word in account.left if word not in named]
            if asked is not None and question.word(asked) not in named:
                left.append(question.word(asked))
            if not account.relation:
                left = left or [_NO_RELATION]
            people = self.scorer.kinds.people(own)
            between, variable = self._variable(), self._variable()
            atoms = (
                *term.atoms,
                atom(step.asked, term.name, between),
                atom(step.asked, variable, between),
            )
            score = term.score + step.score - _COST - _SHARED + 2 * (people if who else -people)
            yield Derivation(atoms, variable, score, tuple(left))

    def _of_several(
        self, question: QuestionWords, first: int, last: int, terms: Sequence[Term]
    ) -> Iterator[Derivation]:
        """Several conditions on one thing: "who works for M and lives in N", "the CEO of M"."""
        cuts = []
        for one, other in pairwise(terms):
            gap = range(one.last, other.first)
            joints = [n for n in gap if question.word(n) == "and"]
            cuts.append(joints[:1] or range(one.last, other.first + 1))
        variable = self._variable()
        names = {n for term in terms for n in term.tokens}
        if (first, last) == (0, len(question)):
            asked_noun = question.asked_noun(first, last, names)
            question.kind_places |= set() if asked_noun is None else {asked_noun}
        for cut in product(*cuts):
            bounds = list(pairwise([first, *cut, last]))
            options = [
                list(self._conditions(question, start, end, term, terms))[:_CONDITIONS]
                for (start, end), term in zip(bounds, terms, strict=True)
            ]
            for n in range(1, len(terms)):  # "who works for M and N", "whom do M and N consult"
                for empty, full in ((n, n - 1), (n - 1, n)):
                    says = [self._says(question, *bounds[k], terms[k]) for k in (empty, full)]
                    if says == [False, True]:
                        options[empty] += [(asked, -_AGAIN, ()) for asked, *_ in options[full]]
            for chosen in product(*options):
                if any(
                    -_AGAIN in (one[1], two[1]) and one[0] != two[0]
                    for one, two in pairwise(chosen)
                ):
                    continue
                atoms = tuple(
                    atom(asked, term.name, variable)
                    for (asked, *_), term in zip(chosen, terms, strict=True)
                )
                if len(set(atoms)) == len(atoms):
                    inner = tuple(one for term in terms for one in term.atoms)
                    score = sum(term.score for term in terms) + sum(one[1] for one in chosen)
                    left = tuple(word for _, _, words in chosen for word in words)
                    yield Derivation((*inner, *atoms), variable, score, left)

    @staticmethod
    def _says(question: QuestionWords, first: int, last: int, term: Term) -> bool:
        """Whether words say a condition on a term."""
        words = question.content(first, last, term.tokens)
        return any(question.word(n) not in LIGHT_VERBS | ANYTHING for n in words)

    def _conditions(
        self, question: QuestionWords, first: int, last: int, term: Term, terms: Sequence[Term]
    ) -> Iterator[tuple[str, float, tuple[str, ...]]]:
        """What some words may ask of one of several terms, the score, and the words left."""
        words = question.content(first, last, term.tokens)
        nouns = question.head_noun(first, last, term.tokens)
        behind = term.last
        before = term.first - 1
        opens = question.word(before) in INTERROGATIVES or before in question.asking
        while (term.value or opens) and behind in words:  # "poetry books", "which MIT packages"
            nouns = [*nouns, behind]
            question.kind_places.add(behind)
            behind += 1
        if words:
            kind = AnswerKind(question.word(nouns[-1]) if nouns else "")
            span = question.span(term.first, term.last)
            text = question.only(first, last)
            for step in self.scorer.steps(text, span, term.entities, kind)[:4]:
                account = self.accounts.of(
                    question, words, step, nouns=nouns, entities=term.entities
                )
                if account.relation or account.left:
                    yield step.asked, step.score - _COST, account.left
        if all(n in nouns or question.word(n) in LIGHT_VERBS for n in words):
            words = [n for n in words if question.word(n) not in LIGHT_VERBS]
            for asked, likely in self._unsaid(term, terms):
                role = other_end(asked)
                wrong = [n for n in words if not self.accounts.names_kind(question, n, role)]
                yield asked, likely - _UNSAID, tuple(question.word(n) for n in wrong)

    def _unsaid(self, term: Term, terms: Sequence[Term]) -> Iterator[tuple[str, float]]:
        """Relations that no word says: what has one condition usually has that other one."""
        if not term.entities or term.is_phrase:
            return
        roles = self.scorer.roles
        others = [
            other_end(role)
            for other in terms
            if other is not term and other.entities
            for role in roles.held(other.entities[0])
        ]
        for role in roles.held(term.entities[0]):
            own = other_end(role)
            share = max((roles.share(other, own) for other in others), default=_UNKNOWN_SHARE)
            if self.scorer.says_class(role):
                yield role, _UNSAID
            elif share > _LEAST_SHARE:
                yield role, math.log(share)

    def _filtered(self, question: QuestionWords, terms: Sequence[Term]) -> Iterator[Derivation]:
        """A condition on what a phrase describes: "which employees of M live in N"."""
        if len(terms) != 2:
            return
        for phrase, other in (terms, terms[::-1]):
            if not phrase.is_phrase:
                continue
            for step, account, likely in self._steps_between(question, other, phrase):
                left = account.left or (() if account.relation else (_NO_RELATION,))
                atoms = (*phrase.atoms, *other.atoms, atom(step.asked, other.name, phrase.name))
                score = phrase.score + other.score + step.score + likely - _COST
                yield Derivation(atoms, phrase.name, score, left)

    def _between(self, question: QuestionWords, terms: Sequence[Term]) -> Iterator[Derivation]:
        """Whether two terms stand in a relation, or when: "does M work for N"."""
        one, other = terms
        for known, asked in ((one, other), (other, one)):
            for step, account, likely in self._steps_between(question, known, asked, unsaid=True):
                has_account = account.relation or not question.content(
                    0, len(question), {*one.tokens, *other.tokens}
                )
                left = account.left or (() if has_account else (_NO_RELATION,))
                atoms = (*one.atoms, *other.atoms, atom(step.asked, known.name, asked.name))
                score = one.score + other.score + step.score + likely - _COST
                yield Derivation(atoms, other.name, score, left, step, account.exact)

    def _steps_between(
        self, question: QuestionWords, known: Term, other: Term, *, unsaid: bool = False
    ) -> Iterator[tuple[Step, Account, float]]:
        """Steps from one term to another, what they account for, and how well the other fits."""
        words = question.content(0, len(question), {*known.tokens, *other.tokens})
        if not words and not unsaid:
            return
        blank = [(other.first, other.last)]
        text = question.only(0, len(question), blank)
        span = question.span(known.first, known.last)
        for step in self.scorer.steps(text, span, known.entities, AnswerKind()):
            if not words and not self._has_role(other, step.role):
                continue
            fits, rest = self.scorer.roles.fits(*other.entities)
            likely = math.log(max(fits.get(step.role, rest), rest))
            yield step, self.accounts.of(question, words, step, entities=known.entities), likely

    def _has_role(self, term: Term, role: str) -> bool:
        """Whether facts have a term at an end of a relation."""
        fits, _ = self.scorer.roles.fits(*term.entities)
        return fits.get(role, 0.0) >= 1.0

    # --- phrases -----

    def _reduced(self, question: QuestionWords, terms: Sequence[Term]) -> Iterator[list[Term]]:
        """The terms with a phrase around one or two of them put in their place."""
        number = len(question)
        for size in (1, 2):
            for place in range(len(terms) - size + 1):
                inner = list(terms[place : place + size])
                before = terms[place - 1].last if place else 0
                behind = terms[place + size].first if place + size < len(terms) else number
                begin = max(before, inner[0].first - _BEFORE)
                for first in range(begin, inner[0].first + 1):
                    if not self._may_start(question, first, inner[0].first):
                        continue
                    for last in range(inner[-1].last, min(behind, inner[-1].last + _BEHIND) + 1):
                        for phrase in self._phrase(question, first, last, inner, terms):
                            yield [*terms[:place], phrase, *terms[place + size :]]

    def _phrase(
        self,
        question: QuestionWords,
        first: int,
        last: int,
        inner: list[Term],
        terms: Sequence[Term],
    ) -> Iterator[Term]:
        """The readings of a phrase that describes something the facts know."""
        names = {n for term in inner for n in term.tokens}
        if len(inner) == 1 and not question.content(first, last, names):
            return
        # "M's boss", "M directed films"; but "M visits" is a sentence.
        behind = question.word(inner[-1].last)
        noun = question.word(last - 1).endswith("s") and not self.accounts.says_relation(
            question, last - 1
        )
        if first == inner[0].first and not (behind == "s" or noun):
            return
        number = len(question)
        outside = question.content(0, first) or question.content(last, number)
        where = any(question.word(n) == "where" for n in range(number))
        if (first, last) == (0, number) or not (outside or where or len(terms) > len(inner)):
            return
        if len(inner) == 1:
            found = self._of_one(question, first, last, inner[0], whole=False)
        else:
            found = self._of_several(question, first, last, inner)
        best = sorted((one for one in found if not one.left), key=lambda one: -one.score)
        for one in best[:_READINGS]:
            solutions = islice(solve(one.query("entities", None, None), self._index), _SOLUTIONS)
            entities = tuple(dict.fromkeys(way.bound[one.wanted] for way in solutions))
            if entities:
                yield Term(first, last, one.wanted, entities[:_ANSWERS], one.atoms, one.score)

    @staticmethod
    def _may_start(question: QuestionWords, first: int, name: int) -> bool:
        """Whether a phrase may start at a token, before the name at another."""
        word, before = question.word(first), question.word(first - 1)
        if first == name:
            return True
        joints = INTERROGATIVES | AUXILIARIES | PREPOSITIONS | RELATIVES | {"and"}
        if first in question.free or word in joints:
            return False
        if first == 0 or first - 1 in question.free or word in DETERMINERS:
            return True
        if before in DETERMINERS or before == "and":
            return False
        return before in joints | STOP_WORDS or word in ANYTHING or before.endswith(("s", "d"))

    def _variable(self) -> str:
        return f"?{next(self._numbers)}"


def atom(asked: str, known: str, wanted: str) -> Atom:
    """The atom of a step from a term to what is asked for."""
    if asked.startswith(INVERSE):
        return Atom(asked.removeprefix(INVERSE), wanted, known)
    return Atom(asked, known, wanted)


def _by_words(one: Derivation) -> tuple[float, float]:
    return (one.step.words, one.step.order) if one.step is not None else (-math.inf, 0.0)


def _is_sure(one: Derivation) -> bool:
    """Whether words say who stands to whom: "boss", "father", and so which end is asked for."""
    return one.step is not None and one.step.order > _CERTAIN_ORDER


def unaccounted(tried: Collection[Derivation]) -> tuple[str, ...]:
    """The fewest words that a derivation leaves without an account, of those that leave any."""
    some = (one for one in tried if one.left)
    ranked = sorted(some, key=lambda one: (len(one.left), len(one.atoms), -one.score))
    return ranked[0].left if ranked else ()
