"""Rules for many sources: found under an assumption, then shown to hold by random tests."""

from __future__ import annotations

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.probing import Predicate, ProbeEngine
from rulerag.explanation.records import SUBSETS, CertifiedRules, check_kind
from rulerag.explanation.search.draws import RandomSubsets
from rulerag.explanation.search.sets import SampledSearch


class CertifiedMiner:
    """Finds the minimal rules of one kind among many sources, each with a statistical guarantee.

    The search of :func:`rulerag.explain`, for an engine and one kind of rule: rules are found as if
    the predicate were monotone, by bisection, some ``size * log2(sources)`` probes for each, until
    every subset without a whole rule lies inside one that fails, or 1,000 probes are used; rules of
    more than 10 sources are not looked for. Each is then tested on random subsets of those that it
    speaks of, by bets that may stop after every draw; what falls shows the search where to go on.
    All bounds of a result are true together with the confidence.

    Args:
        kind: ``retention`` (the predicate holds whenever these sources are kept) or ``omission``
            (whenever they are removed).
        validity: the share of subsets for which a rule has to hold, between 0 and 1. Exact rules,
            a share of 1, need every subset: ``MonoMiner``.
        confidence: the probability that every bound stated is true, at least.
        seed: of the random subsets.
        subsets: how they are drawn, and so what every share is about: ``by-size`` (how many of the
            other sources are kept is drawn uniformly, then which) or ``uniform`` (every subset of
            the others equally likely, so that nearly all keep about half of them).

    Raises:
        ConfigError: an argument is out of range.

    References:
        Rorseth et al. 2025 (arXiv:2510.22689), section 6: rules that hold with a minimum
        confidence are named as future work.
    """

    def __init__(
        self,
        kind: str,
        *,
        validity: float = 0.95,
        confidence: float = 0.95,
        seed: int = 0,
        subsets: str = "by-size",
    ) -> None:
        self.kind = check_kind(kind)
        self.validity = _check_share("validity", validity)
        self.confidence = _check_share("confidence", confidence)
        self.seed = seed
        if subsets not in SUBSETS:
            hint = did_you_mean(str(subsets), SUBSETS)
            raise ConfigError(f"subsets are not drawn {subsets!r}", key="subsets", hint=hint)
        self.subsets = subsets

    def mine(self, engine: ProbeEngine, predicate: Predicate) -> CertifiedRules:
        """Find the rules and test them.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            predicate: whether an output meets the condition; called once per distinct output.

        Returns:
            The rules, not ``complete`` where the engine's budget ran out.

        Raises:
            PredicateError: the predicate raised or did not return a Boolean.
        """
        draws = RandomSubsets(
            engine.num_sources, self.validity, self.confidence, self.seed, self.subsets
        )
        search = SampledSearch(engine, predicate, draws, kind=self.kind, each=True)
        for _ in search.run():
            pass
        return CertifiedRules(
            self.kind,
            engine.names,
            tuple(search.minimal),
            search.num_probes,
            search.complete and search.exhaustive,
            search.ended,
            {mask: search.certificate(mask) for mask in search.minimal},
        )


def _check_share(name: str, value: float) -> float:
    """The value when it is a share strictly between 0 and 1.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1:
        hint = "exact rules need every subset: MonoMiner" if value == 1 else None
        what = f"expected a number between 0 and 1, both excluded, found {value!r}"
        raise ConfigError(what, key=name, hint=hint)
    return float(value)
