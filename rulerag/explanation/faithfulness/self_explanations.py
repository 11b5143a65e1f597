"""Whether the keywords that a model names as its reasons are those that its answer needs.

The model explains itself once, with the whole text; then it answers from parts of the text and from
parts with words masked, and what that shows is compared with what it named.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775): sections 3.2 (questions
    that are hard without the text), 3.4 to 3.6, and Table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rulerag.composition import find
from rulerag.errors import ConfigError
from rulerag.explanation.attribution import (
    KeywordFit,
    MaskedRegions,
    RegionExplanation,
    search_regions,
)
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    Predicate,
    ProbeEngine,
    of_short_answers,
    self_explaining,
)
from rulerag.explanation.records import Record
from rulerag.explanation.wording import in_words, listing
from rulerag.protocols import Generator
from rulerag.types import Completion, GenerationRequest, SelfExplanation

Stage = Literal["known", "wrong", "no region", "no keyword", "explained"]
"""How far a question came: it was answered without the text, the answer with it was wrong, no part
is enough, no group of words is necessary in one that is; or there is a score."""

_TEMPLATE = "self-explanation"


@dataclass(frozen=True)
class SelfFaithfulness(Record):
    """A model's explanation of its own answer beside what the answer needs.

    Args:
        query_id: the query's id.
        thought: why, in its words.
        keywords: the words of the text that it named.
        answer: its short answer, with the whole text.
        missing: the parts that its text did not hold.
        known: whether it was right without the text; None where that was not asked.
        right: whether its answer with the whole text is correct.
        regions: the sufficient regions and their necessary keywords; None where the answer was
            wrong or known without the text, so that none were looked for.
        fit: the keywords that it named beside the necessary ones; None likewise.
        num_probes: how many requests were asked.
    """

    query_id: str
    thought: str
    keywords: tuple[str, ...]
    answer: str
    missing: tuple[str, ...]
    known: bool | None
    right: bool
    regions: RegionExplanation | None
    fit: KeywordFit | None
    num_probes: int

    @property
    def stage(self) -> Stage:
        """How far it came."""
        if self.known:
            return "known"
        if not self.right:
            return "wrong"
        if self.regions is None or not self.regions.regions:
            return "no region"
        return "explained" if self.score is not None else "no keyword"

    @property
    def score(self) -> float | None:
        """``f_i`` of section 3.6, in [0, 1]; None where there is nothing to compare."""
        return None if self.fit is None else self.fit.score

    def __str__(self) -> str:
        """Answer, regions and keywords, in lines."""
        lines = [f"answer: {self.answer or '(none)'}"]
        if self.missing:
            lines.append(f"not in what the model wrote: {listing(self.missing)}")
        if self.regions is None:
            why = "it is right without the text" if self.known else "it is wrong"
            return "\n".join([*lines, f"not explained: {why}"])
        return "\n".join([*lines, *map(str, filter(None, (self.regions, self.fit)))])


def assess_self_explanation(
    reader: Generator | Callable[[list[dict[str, str]]], str],
    request: GenerationRequest,
    correct: Predicate,
    *,
    parts: int = 3,
    groups: int = 5,
    without_text: bool = False,
    cache: AnswerCache | None = None,
    max_probes: int | None = None,
) -> SelfFaithfulness:
    """Let a model explain its answer, and see what the answer needs.

    At most ``1 + parts + parts * groups`` requests, whatever the length of the text, and one more
    with ``without_text``; fewer where the answer is wrong or few parts are enough. The paper counts
    ``1 + parts * groups``: it leaves out those for the parts.

    Args:
        reader: a generator with the template ``self-explanation``; or a function from messages
            (``{"role": …, "content": …}``) to what a model writes.
        request: question and text.
        correct: whether a short answer is correct, such as
            :class:`~rulerag.explanation.correctness.HybridCorrectness`.
        parts: into how many parts of equally many words the text is cut.
        groups: into how many groups of words each sufficient part is cut.
        without_text: ask without the text first. A question answered so is known to the model and
            not explained (*Retrieval-Hard*, section 3.2).
        cache: where answers are kept; what stands there is not asked again.
        max_probes: how many requests may be asked.

    Raises:
        ConfigError: an argument is out of range, the generator's template is another one, or a
            function has a cache, which could not tell it from another function.
        ExplanationError: the documents hold no word.
        PredicateError: the predicate raised.
        ProbeBudgetError: the budget did not last for the model's own explanation.
        SamplingError: the generator decodes by chance.
        DroppedDocumentsError: its prompt does not hold every document.
    """
    cut = MaskedRegions(request.documents, parts, groups)
    asked = _reader(reader, cache)
    engine = ProbeEngine.from_generator(asked, request, cut, max_probes=max_probes)
    read: Callable[[str], SelfExplanation] = find("prompt", _TEMPLATE).component.explained
    holds = of_short_answers(correct, read)
    outputs = engine.probe([cut.full, 0] if without_text else [cut.full])
    verdicts = holds.many(outputs)
    own, right = read(outputs[0]), verdicts[0]
    known = verdicts[1] if without_text else None
    regions = search_regions(engine, cut, holds) if right and not known else None
    return SelfFaithfulness(
        query_id=request.query.id,
        thought=own.thought,
        keywords=own.keywords,
        answer=own.answer,
        missing=own.missing,
        known=known,
        right=right,
        regions=regions,
        fit=None if regions is None else regions.fit(own.keywords, cut),
        num_probes=engine.num_probes,
    )


@dataclass(frozen=True)
class SelfFaithfulnessSummary(Record):
    """How many questions came how far, and the mean score of those explained (Table 1).

    Args:
        total: how many questions were asked.
        incomplete: how many explanations missed a part; answers that were missing are wrong.
        known: how many were answered without the text.
        hard: how many were not (*Retrieval-Hard*); all of them where that was not asked.
        right: of these, how many were answered with the text.
        sufficient: of these, how many have a sufficient region.
        necessary: of these, how many have a necessary group of words in one: they have a score.
        score: ``F``, the mean of ``f_i`` over those, in [0, 1]; None without any.
        calls: the mean number of requests of a question that was explained, in whole or in part.
    """

    total: int
    incomplete: int
    known: int
    hard: int
    right: int
    sufficient: int
    necessary: int
    score: float | None
    calls: float | None

    def __str__(self) -> str:
        """The stages and the score, in one line."""
        score = "no score" if self.score is None else f"F = {self.score:.3f}"
        return (
            f"{in_words(self.total)} question{'' if self.total == 1 else 's'}, {self.hard} of them "
            f"not answered without the text; {self.right} answered with it, {self.sufficient} with "
            f"a sufficient region, {self.necessary} with a necessary keyword; {score}"
        )


def mean_self_faithfulness(results: Iterable[SelfFaithfulness]) -> SelfFaithfulnessSummary:
    """Table 1 of the paper for some questions.

    ``F`` is the mean over the questions that have a score, as in the paper's table; a question
    without one is counted at the stage where it ended, not as zero.
    """
    every = list(results)
    stages = [one.stage for one in every]
    scores = [one.score for one in every if one.stage == "explained" and one.score is not None]
    hard = [one for one in every if not one.known]
    answered = [one for one in hard if one.right]
    return SelfFaithfulnessSummary(
        total=len(every),
        incomplete=sum(bool(one.missing) for one in every),
        known=len(every) - len(hard),
        hard=len(hard),
        right=len(answered),
        sufficient=stages.count("no keyword") + stages.count("explained"),
        necessary=stages.count("explained"),
        score=fmean(scores) if scores else None,
        calls=fmean(one.num_probes for one in answered) if answered else None,
    )


def _reader(
    reader: Generator | Callable[[list[dict[str, str]]], str], cache: AnswerCache | None
) -> Generator:
    if isinstance(reader, CachedGenerator):
        return CachedGenerator(self_explaining(reader.generator), cache or reader.cache)
    if isinstance(reader, Generator):
        asked = self_explaining(reader)
        return asked if cache is None else CachedGenerator(asked, cache)
    if cache is not None:
        what = "a function has no fingerprint by which its answers could be found again"
        raise ConfigError(what, key="cache", hint="leave it out, or give a generator")
    return _FunctionReader(reader)


class _FunctionReader:
    """A function from messages to texts as a generator of explanations."""

    fingerprint = "function"

    def __init__(self, function: Callable[[list[dict[str, str]]], str]) -> None:
        self._function = function
        self._template = find("prompt", _TEMPLATE).maker(returns="explanation")

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order."""
        prompts = [self._template.render(request).text for request in requests]
        return [Completion(self._function(self._template.conversation(one))) for one in prompts]
