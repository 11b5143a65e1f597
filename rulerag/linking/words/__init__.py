"""Words of questions and texts: names, times, classes of words, and what means much the same."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.linking.words.classes import (
        ANYTHING,
        ASKING,
        AUXILIARIES,
        CLASSES,
        DETERMINERS,
        INTERROGATIVES,
        INVERSE,
        JOINING,
        LIGHT_VERBS,
        ORGANISATIONS,
        PARTICLES,
        PLACES,
        PREPOSITIONS,
        PRONOUNS,
        RANKS,
        RELATIVES,
        SHARING,
        STOP_WORDS,
        TITLES,
        WORD,
        folded,
        stem,
        words_of,
    )
    from rulerag.linking.words.dates import AskedPeriod, asked_period, stated_times
    from rulerag.linking.words.documents import link_mentions
    from rulerag.linking.words.letters import LetterVectors
    from rulerag.linking.words.mentions import MentionFinder, NamedPlace, spellings
    from rulerag.linking.words.wordnet import parted, sides_of, thesaurus, written_out
else:
    __getattr__ = lazy_names(__name__)
