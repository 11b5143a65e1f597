"""Questions in one's own words: the query that they ask of facts, or why they are refused.

Read :mod:`~rulerag.linking.linker` first: it finds names and times
(:mod:`~rulerag.linking.words`) and what is wanted (:mod:`~rulerag.linking.forms`), and looks for
the simplest query that accounts for every other word (:mod:`~rulerag.linking.derivations`), step
by step (:mod:`~rulerag.linking.steps`). Examples say how relations are asked
(:mod:`~rulerag.linking.examples`), and a language model may write what words leave open
(:mod:`~rulerag.linking.writer`). :mod:`~rulerag.linking.selector` guides retrieval by it.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.linking.examples import (
        LinkedExample as LinkedExample,
        read_examples as read_examples,
    )
    from rulerag.linking.linker import QuestionLinker as QuestionLinker
    from rulerag.linking.question import LinkedQuestion as LinkedQuestion, Reading as Reading
    from rulerag.linking.selector import LinkedSelector as LinkedSelector
    from rulerag.linking.words.classes import INVERSE as INVERSE, stem as stem
    from rulerag.linking.words.dates import stated_times as stated_times
    from rulerag.linking.words.documents import link_mentions as link_mentions
    from rulerag.linking.words.mentions import (
        MentionFinder as MentionFinder,
        spellings as spellings,
    )
    from rulerag.linking.writer import QueryWriter as QueryWriter
else:
    __getattr__ = lazy_names(__name__)
