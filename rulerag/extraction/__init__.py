"""From texts to triples: who does what to whom and when, with the words that say so.

Read :mod:`~rulerag.extraction.extractor` first. Names of a text
(:mod:`~rulerag.extraction.names`) that stand next to each other make pairs
(:mod:`~rulerag.extraction.pairs`); which relation the words between them mean is learned from a few
known facts (:mod:`~rulerag.extraction.patterns`), and may be asked of a language model
(:mod:`~rulerag.extraction.language_model`). :mod:`~rulerag.extraction.folder` writes what was found
as a graph folder. Which facts of a known graph texts state is a question of its own
(:mod:`~rulerag.extraction.known`; :mod:`~rulerag.extraction.texts` where a dataset is asked of
texts).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.extraction.extractor import (
        ExtractionSettings as ExtractionSettings,
        TripleExtractor as TripleExtractor,
    )
    from rulerag.extraction.folder import read_evidence as read_evidence, write_graph as write_graph
    from rulerag.extraction.known import with_known_facts as with_known_facts
    from rulerag.extraction.language_model import ModelExtractor as ModelExtractor
    from rulerag.extraction.names import looks_english as looks_english
    from rulerag.extraction.patterns import PatternBook as PatternBook
    from rulerag.extraction.records import Extraction as Extraction, Triple as Triple
    from rulerag.extraction.texts import over_texts as over_texts
else:
    __getattr__ = lazy_names(__name__)
