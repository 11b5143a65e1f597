"""Words of questions and texts: names, times, classes of words, and what means much the same."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.linking.words.classes import (
        ANYTHING as ANYTHING,
        ASKING as ASKING,
        AUXILIARIES as AUXILIARIES,
        CLASSES as CLASSES,
        DETERMINERS as DETERMINERS,
        INTERROGATIVES as INTERROGATIVES,
        INVERSE as INVERSE,
        JOINING as JOINING,
        LIGHT_VERBS as LIGHT_VERBS,
        ORGANISATIONS as ORGANISATIONS,
        PARTICLES as PARTICLES,
        PLACES as PLACES,
        PREPOSITIONS as PREPOSITIONS,
        PRONOUNS as PRONOUNS,
        RANKS as RANKS,
        RELATIVES as RELATIVES,
        SHARING as SHARING,
        STOP_WORDS as STOP_WORDS,
        TITLES as TITLES,
        WORD as WORD,
        folded as folded,
        stem as stem,
        words_of as words_of,
    )
    from rulerag.linking.words.dates import (
        AskedPeriod as AskedPeriod,
        asked_period as asked_period,
        stated_times as stated_times,
    )
    from rulerag.linking.words.documents import link_mentions as link_mentions
    from rulerag.linking.words.letters import LetterVectors as LetterVectors
    from rulerag.linking.words.mentions import (
        MentionFinder as MentionFinder,
        NamedPlace as NamedPlace,
        spellings as spellings,
    )
    from rulerag.linking.words.wordnet import (
        parted as parted,
        sides_of as sides_of,
        thesaurus as thesaurus,
        written_out as written_out,
    )
else:
    __getattr__ = lazy_names(__name__)
