"""Knowledge graphs as integer-coded columns, with names and labels at the edge.

Read :mod:`~rulerag.kg.graph` first; ``readers`` open files, ``labels`` make names readable,
``verbalization`` writes sentences, ``grounding`` joins rule bodies with facts.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.calendar import Calendar as Calendar
    from rulerag.kg.corpus import corpus_facts as corpus_facts, stated_facts as stated_facts
    from rulerag.kg.graph import FactTable as FactTable, KnowledgeGraph as KnowledgeGraph
    from rulerag.kg.phrases import Phrases as Phrases, derived_phrase as derived_phrase
    from rulerag.kg.queries import (
        FORMS as FORMS,
        ConjunctiveQuery as ConjunctiveQuery,
        Form as Form,
        ends as ends,
        in_order as in_order,
    )
    from rulerag.kg.verbalization import Verbalizer as Verbalizer, query_text as query_text
    from rulerag.kg.vocabulary import Vocabulary as Vocabulary
else:
    __getattr__ = lazy_names(__name__)
