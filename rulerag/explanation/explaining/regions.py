"""An answer explained by the parts of the text that are enough for it.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775), sections 3.4 to 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.attribution import MaskedRegions, search_regions
from rulerag.explanation.explaining.records import Explanation
from rulerag.explanation.explaining.run import Judging, Origin, refuse_chance
from rulerag.explanation.explaining.settings import ExplainSettings
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    ProbeEngine,
    answer_function_of,
    matches_answer,
    of_short_answers,
    self_explaining,
)
from rulerag.explanation.units import passages_of
from rulerag.protocols import Generator
from rulerag.types import GenerationRequest, SelfExplanation


def explain_by_regions(
    generator: Generator,
    request: GenerationRequest,
    documents: Sequence[Any],
    settings: ExplainSettings,
    judging: Judging,
    origin: Origin,
    cache: AnswerCache | None,
) -> Explanation:
    """The sufficient regions of an answer's documents and the words that they need.

    Where the generator explains itself (template ``self-explanation``), the keywords that it names
    are compared with those words. At most ``1 + parts + parts * groups`` requests.

    Args:
        generator: what gave the answer.
        request: query and rules.
        documents: what it read.
        settings: parts, groups in each, and how many requests may be asked.
        judging: what must hold; by default the output matches the answer.
        origin: where the answer comes from.
        cache: where answers are kept.

    Raises:
        ExplanationError: the documents hold no word.
        PredicateError: the predicate raised.
        SamplingError: the generator answers by chance.
        DroppedDocumentsError: its prompt does not hold every document.
    """
    template = getattr(generator, "template", None)
    read: Callable[[str], SelfExplanation] | None = getattr(template, "explained", None)
    asked = generator if read is None else self_explaining(generator)
    asked = asked if cache is None else CachedGenerator(asked, cache)
    cut = MaskedRegions(documents, settings.parts, settings.groups)
    function = answer_function_of(asked, request, cut)
    engine = ProbeEngine.from_answer_function(function, max_probes=settings.budget)
    if settings.budget == 0:
        raise ConfigError("the whole text has to be asked once", key="budget", hint="budget=1")
    output = engine.probe([cut.full])[0]
    answer_in = (lambda reply: read(reply).answer) if read else str
    text = answer_in(output) if origin.text is None else origin.text
    if origin.deterministic:
        refuse_chance(function, output, text, answer_in)
    holds = judging.predicate or matches_answer(text)
    holds = of_short_answers(holds, read) if read is not None else holds
    regions = search_regions(engine, cut, holds)
    fit = None if read is None else regions.fit(read(output).keywords, cut)
    made = Explanation(
        question=request.query.text,
        text=text,
        documents=tuple(passages_of(documents)),
        num_calls=engine.num_probes,
        seconds=engine.seconds,
        complete=regions.complete,
        settings={**settings.record, **origin.settings},
        regions=regions,
        keywords=fit,
    )
    return replace(made, **origin.provenance)
