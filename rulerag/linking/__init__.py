"""Questions in one's own words: which entity, relation, direction and time a question is about.

Read :mod:`~rulerag.linking.linker` first: it puts together who is mentioned
(:mod:`~rulerag.linking.mentions`), what is asked of it (:mod:`~rulerag.linking.relations`), which
end of the relation is asked for (:mod:`~rulerag.linking.direction`) and when
(:mod:`~rulerag.linking.dates`). Example questions teach it more
(:mod:`~rulerag.linking.examples`), and a language model may weigh what is left open
(:mod:`~rulerag.linking.judge`). :mod:`~rulerag.linking.selector` guides retrieval by it, and
:mod:`~rulerag.linking.documents` says whom texts mention.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.linking.dates import stated_times
    from rulerag.linking.direction import INVERSE
    from rulerag.linking.documents import link_mentions
    from rulerag.linking.examples import LinkedExample, hops, read_examples
    from rulerag.linking.judge import ReadingJudge, weighed
    from rulerag.linking.linker import LinkedQuestion, QuestionLinker, Reading
    from rulerag.linking.mentions import MentionFinder, spellings
    from rulerag.linking.relations import stem
    from rulerag.linking.selector import LinkedSelector
else:
    __getattr__ = lazy_names(__name__)
