"""Knowledge graphs as integer-coded columns, with names and labels at the edge.

Read :mod:`~rulerag.kg.graph` first; ``readers`` open files, ``labels`` make names readable,
``verbalization`` writes sentences, ``grounding`` joins rule bodies with facts.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.calendar import Calendar
    from rulerag.kg.corpus import corpus_facts, stated_facts
    from rulerag.kg.graph import FactTable, KnowledgeGraph
    from rulerag.kg.phrases import Phrases, derived_phrase
    from rulerag.kg.queries import FORMS, ConjunctiveQuery, Form, ends, in_order
    from rulerag.kg.verbalization import Verbalizer, query_text
    from rulerag.kg.vocabulary import Vocabulary
else:
    __getattr__ = lazy_names(__name__)
