"""Why this answer: the rules that guided it, what each found, and what keeps or removes it.

The joined-up trace of one answer. Guiding rules lead to documents, documents to the answer; the
minimal retention and omission rules say which of the documents decide it, and so which of the
guiding rules did.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4, 5 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.miners import MAX_EXACT_SOURCES, DualMiner, Predicate, RuleHook
from rulerag.explanation.predicates import OutputPredicate, describe, matches_answer, negate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import SourceRules
from rulerag.explanation.sources import Source, group, partition
from rulerag.explanation.trace import (
    DocumentTrace,
    RuleTrace,
    expect,
    trace_documents,
    trace_rules,
)
from rulerag.explanation.wording import MOST_SETS, condition, finding, listing, quoted, shortened
from rulerag.text import contains_answer
from rulerag.types import Answer

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["REST", "AnswerExplanation", "explain_answer"]

REST = "the rest"
"""The name of the source that holds every document without a source of its own."""

Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AnswerExplanation:
    """Everything that an explanation of one answer says; prints itself for the terminal.

    Args:
        query_id: the query's id.
        query: the question in words.
        answer: the answer explained.
        claim: the condition of the retention rules as a clause ("the answer France stands").
        counterclaim: the condition of the omission rules as a clause ("it goes").
        rules: the guiding rules, R1, R2 …
        documents: the evidence, D1, D2 …, each with the searches that found it.
        sources: what was kept or removed: document names, and perhaps ``the rest``.
        together: the documents that were kept or removed as one, as ``the rest``.
        retention: the minimal retention rules as tuples of source names, smallest first.
        omission: the minimal omission rules likewise.
        full_output: what the generator says with every document kept; None when never asked.
        empty_output: what it says with every document removed; None when never asked.
        num_probes: how many distinct subsets of the sources were asked.
        seconds: seconds spent in the generator.
        complete: whether every rule was found; false when a probe budget ran out.
    """

    query_id: str
    query: str
    answer: str
    claim: str
    counterclaim: str
    rules: tuple[RuleTrace, ...]
    documents: tuple[DocumentTrace, ...]
    sources: tuple[str, ...]
    together: tuple[str, ...]
    retention: Names
    omission: Names
    full_output: str | None
    empty_output: str | None
    num_probes: int
    seconds: float
    complete: bool = True

    @property
    def supporting(self) -> tuple[DocumentTrace, ...]:
        """The documents that stand in a minimal retention rule under their own name, in order."""
        names = {name for rule in self.retention for name in rule}
        return tuple(document for document in self.documents if document.alias in names)

    @property
    def supporting_rules(self) -> tuple[RuleTrace, ...]:
        """The guiding rules that found a supporting document, in order."""
        names = {rule for document in self.supporting for rule in document.rules}
        return tuple(rule for rule in self.rules if rule.alias in names)

    @property
    def sentence(self) -> str:
        """When the answer stands, and which rules found the documents that it needs."""
        if not self.retention:
            return self._without_rule("kept", self.full_output, "set of documents", self.claim)
        if self.retention == ((),):
            return f"{_capital(self.claim)} whichever documents are kept or removed."
        words = f"{_capital(self.claim)} whenever {condition(self.retention, 'kept')}"
        told = {name for rule in self.retention[:MOST_SETS] for name in rule}
        found = {d.alias: d.rules for d in self.documents if d.alias in told}
        if not found:
            return f"{words}."
        texts = {rule.alias: rule.text for rule in self.rules}
        pronoun = len(self.retention) <= MOST_SETS and len(found) == len(told)
        return f"{words}; {finding(found, texts, pronoun=pronoun)}."

    @property
    def omission_sentence(self) -> str:
        """When the answer goes."""
        if not self.omission:
            return self._without_rule("removed", self.empty_output, "removal", self.counterclaim)
        if self.omission == ((),):
            return f"{_capital(self.counterclaim)} whichever documents are kept or removed."
        return f"{_capital(self.counterclaim)} whenever {condition(self.omission, 'removed')}."

    @property
    def scope(self) -> str:
        """What was asked, and what the statement rests on."""
        parts = [
            f"{_count(self.num_probes, 'subset')} of {_count(len(self.sources), 'source')} "
            f"asked in {self.seconds:.2f} s."
        ]
        if self.together:
            parts.append(f"“{_capital(REST)}” is {_spans(self.together)}, kept or removed as one.")
        if not self.complete:
            parts.append(
                "The probe budget ran out: what is said here is certain, there may be more."
            )
        return " ".join(parts)

    def __str__(self) -> str:
        """The explanation for a terminal."""
        lines = [f"Question  {self.query}", f"Answer    {self.answer or '(none)'}", ""]
        if self.rules:
            lines.append("Guiding rules")
            for rule in self.rules:
                lines += [f"  {rule.alias:<4}{rule.text}", f"      {self._found_by(rule.alias)}"]
            lines.append("")
        lines.append("Documents")
        supporting = {document.alias for document in self.supporting}
        for document in self.documents:
            mark = "*" if document.alias in supporting else " "
            searches = "; ".join(map(str, document.found_by)) or "no search recorded"
            lines.append(f" {mark}{document.alias:<4}{shortened(document.text)}  [{searches}]")
        lines += ["", "Why", f"  {self.sentence}", f"  {self.omission_sentence}", f"  {self.scope}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The object written to ``explanations.jsonl``."""
        return {
            "query_id": self.query_id,
            "query": self.query,
            "answer": self.answer,
            "claim": self.claim,
            "counterclaim": self.counterclaim,
            "rules": [rule.to_json() for rule in self.rules],
            "documents": [document.to_json() for document in self.documents],
            "sources": list(self.sources),
            "together": list(self.together),
            "retention": [list(names) for names in self.retention],
            "omission": [list(names) for names in self.omission],
            "supporting_documents": [document.id for document in self.supporting],
            "supporting_rules": [rule.id for rule in self.supporting_rules],
            "sentence": self.sentence,
            "omission_sentence": self.omission_sentence,
            "full_output": self.full_output,
            "empty_output": self.empty_output,
            "num_probes": self.num_probes,
            "seconds": self.seconds,
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> AnswerExplanation:
        """Read an object of ``explanations.jsonl``; sentences are made again.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        texts = ("query_id", "query", "answer", "claim", "counterclaim")
        return cls(
            **{key: expect(row, key, str) for key in texts},
            rules=tuple(RuleTrace.from_json(rule) for rule in expect(row, "rules", list)),
            documents=tuple(DocumentTrace.from_json(d) for d in expect(row, "documents", list)),
            sources=tuple(expect(row, "sources", list)),
            together=tuple(expect(row, "together", list)),
            retention=tuple(tuple(names) for names in expect(row, "retention", list)),
            omission=tuple(tuple(names) for names in expect(row, "omission", list)),
            full_output=expect(row, "full_output", str | None),
            empty_output=expect(row, "empty_output", str | None),
            num_probes=expect(row, "num_probes", int),
            seconds=float(expect(row, "seconds", int | float)),
            complete=expect(row, "complete", bool),
        )

    def _without_rule(self, done: str, output: str | None, what: str, claim: str) -> str:
        if not self.complete:
            return f"No {what} is certain yet to guarantee that {claim}."
        return (
            f"With every document {done} the generator {quoted(output)}, "
            f"so no {what} guarantees that {claim}."
        )

    def _found_by(self, rule: str) -> str:
        hits = [
            f"{document.alias} (rank {hit.rank}, score {hit.score:.4g})"
            for document in self.documents
            for hit in document.found_by
            if hit.rule == rule
        ]
        return f"found {', '.join(hits)}" if hits else "found none of these documents"


def explain_answer(
    answer: Answer,
    generator: Generator,
    *,
    predicate: Predicate | None = None,
    omission_predicate: Predicate | None = None,
    max_sources: int = 10,
    max_probes: int | None = None,
    progress: bool = False,
    on_rule: RuleHook | None = None,
) -> AnswerExplanation:
    """Explain one answer by asking its generator again with parts of the evidence removed.

    Query and guiding rules stay as they were; documents keep their order. With more documents
    than ``max_sources``, those that hold the answer's text and then the best-ranked ones get a
    source of their own, and all the others together are one more, kept or removed as one.

    Args:
        answer: what to explain, with its documents and rules.
        generator: what gave the answer.
        predicate: the condition of the retention rules; by default the output matches the answer.
        omission_predicate: the condition of the omission rules; the opposite by default.
        max_sources: the most sources, from 2 to 20; up to two to this power probes.
        max_probes: stop after so many probes with what is certain by then.
        progress: show a progress bar.
        on_rule: called with each minimal rule as soon as it is certain.

    Raises:
        ConfigError: ``max_sources`` is out of range.
        ExplanationError: the answer has no documents, one stands twice, or the generator failed.
        PredicateError: a predicate raised.
    """
    if not 2 <= max_sources <= MAX_EXACT_SOURCES:
        raise ConfigError(
            f"expected a number from 2 to {MAX_EXACT_SOURCES}, found {max_sources}",
            key="max_sources",
        )
    if not answer.documents:
        raise ExplanationError(
            f"the answer to query {answer.query.id!r} rests on no document",
            hint="there is nothing to keep or remove; explain an answer with documents",
        )
    sources, together = _choose_sources(answer, max_sources)
    engine = ProbeEngine.from_generator(generator, answer.request(), sources, max_probes=max_probes)
    retention = predicate or matches_answer(answer.text)
    omission = omission_predicate or negate(retention)
    miner = DualMiner(progress=progress)
    try:
        found = miner.mine(engine, retention=retention, omission=omission, on_rule=on_rule)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, tuple):
            raise
        found = error.partial
    claim, counterclaim = _claims(answer.text, predicate, omission_predicate, retention)
    rules = trace_rules(answer)
    return AnswerExplanation(
        query_id=answer.query.id,
        query=answer.query.text,
        answer=answer.text,
        claim=claim,
        counterclaim=counterclaim,
        rules=rules,
        documents=trace_documents(answer, rules),
        sources=engine.names,
        together=together,
        retention=_names(found[0]),
        omission=_names(found[1]),
        full_output=_known(engine, (1 << engine.num_sources) - 1),
        empty_output=_known(engine, 0),
        num_probes=engine.num_probes,
        seconds=engine.seconds,
        complete=all(part.complete for part in found),
    )


def _choose_sources(answer: Answer, most: int) -> tuple[list[Source], tuple[str, ...]]:
    """The sources, and the names of the documents that share one."""
    documents = answer.request().documents
    units = partition(documents)
    if len(units) <= most:
        return list(units), ()
    by_merit = sorted(
        range(len(units)),
        key=lambda place: (
            not contains_answer(documents[place].text, [answer.text]),
            answer.documents[place].rank,
        ),
    )
    own = sorted(by_merit[: most - 1])
    rest = sorted(by_merit[most - 1 :])
    together = tuple(units[place].name for place in rest)
    return [*(units[p] for p in own), group((units[p] for p in rest), REST)], together


def _claims(
    answer: str,
    predicate: Predicate | None,
    omission_predicate: Predicate | None,
    retention: Predicate,
) -> tuple[str, str]:
    if predicate is not None:
        opposite = omission_predicate or negate(predicate)
        return _clause(predicate), _clause(opposite)
    named = bool(answer.strip())
    claim = f"the answer {shortened(answer, 80)} stands" if named else describe(retention)
    if named is False:
        claim = "the generator gives no answer"
    if omission_predicate is not None:
        return claim, _clause(omission_predicate)
    return claim, "it goes" if named else "it gives one"


def _clause(predicate: Callable[[str], bool]) -> str:
    words = describe(predicate)
    return words if isinstance(predicate, OutputPredicate) else f"{words} holds"


def _names(rules: SourceRules) -> Names:
    return tuple(rule.names for rule in rules.rules)


def _known(engine: ProbeEngine, mask: int) -> str | None:
    code = int(engine.known_codes([mask])[0])
    return engine.outputs[code] if code >= 0 else None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _spans(names: Sequence[str]) -> str:
    """Document names with runs drawn together: ``D4, D7 to D9``."""
    runs: list[list[int]] = []
    for number in (int(name[1:]) for name in names):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = []
    for run in runs:
        words += [f"D{run[0]} to D{run[-1]}"] if len(run) > 2 else [f"D{n}" for n in run]
    return listing(words)
