"""Questions in one's own words: which entity, relation, direction and time a question is about.

Read :mod:`~rulerag.linking.linker` first: it puts together who is mentioned
(:mod:`~rulerag.linking.words.mentions`), what is asked of it (:mod:`~rulerag.linking.relations`), which
end of the relation is asked for (:mod:`~rulerag.linking.direction`) and when
(:mod:`~rulerag.linking.words.dates`). Example questions teach it more
(:mod:`~rulerag.linking.examples`), and a language model may weigh what is left open
(:mod:`~rulerag.linking.judge`). :mod:`~rulerag.linking.selector` guides retrieval by it, and
:mod:`~rulerag.linking.words.documents` says whom texts mention.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.linking.examples import LinkedExample, read_examples
    from rulerag.linking.judge import ReadingJudge, weighed
    from rulerag.linking.linker import LinkedQuestion, QuestionLinker, Reading
    from rulerag.linking.selector import LinkedSelector
    from rulerag.linking.words.classes import INVERSE, stem
    from rulerag.linking.words.dates import stated_times
    from rulerag.linking.words.documents import link_mentions
    from rulerag.linking.words.mentions import MentionFinder, spellings
else:
    __getattr__ = lazy_names(__name__)
