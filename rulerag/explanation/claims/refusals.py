"""Answers that say that there is no answer: an outcome of their own, never a claim."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"""
    \b(?:i|we)\s+(?:am|'m|are|'re|was|were)?\s*(?:really\s+|very\s+)?
      (?:sorry\b|afraid\b|unable\s+to|not\s+able\s+to|not\s+sure|not\s+certain)
    | \b(?:sorry|apologies)\s*[,.:]
    | \b(?:i|we)\s+(?:do\s+not|don'?t|did\s+not|didn'?t|cannot|can'?t|can\s+not|
        could\s+not|couldn'?t)\s+
      (?:\w+\s+){0,2}?(?:know|find|answer|determine|tell|say|have|see|identify|provide|help|assist)
    | \b(?:there\s+(?:is|was|are)|contains?|provides?|gives?|has|have)\s+(?:no|not\s+any|
        not\s+enough|insufficient)\s+(?:\w+\s+){0,3}?(?:information|answer|evidence|mention|
        details?|data|context|documents?|sources?)
    | \b(?:not|n't|never)\s+(?:\w+\s+){0,2}?(?:mention(?:ed|s)?|provide[ds]?|specif(?:ied|y)|
        state[ds]?|given|contain(?:ed|s)?|available|include[ds]?|known|answered|enough\s+information|
        say|possible\s+to\s+(?:say|tell|determine|answer))\b
    | \b(?:insufficient|inadequate)\s+(?:information|evidence|context|data)
    | \b(?:cannot|can'?t|could\s+not|can\s+not)\s+be\s+(?:determined|answered|found|inferred)
    | \bempty\s+response\b | \bno\s+(?:answer|information|relevant\s+\w+|idea)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WHOLE = {"", "unknown", "n/a", "na", "none", "null", "no answer", "nothing", "?", "not known"}
_CHATTER = re.compile(
    r"""(?:(?:i\s+)?hope\s+(?:this|that|it)\s+helps?|let\s+me\s+know|(?:please\s+)?feel\s+free
      |(?:you(?:'re|\s+are)\s+)?welcome|thank(?:s|\s+you)|sure|certainly|of\s+course
      |absolutely|great\s+question|good\s+question|hello|hi|here\s+(?:is|are|'s)\s+(?:the|a|an|my)
      \s+(?:answer|summary|response)|is\s+there\s+anything\s+else|if\s+you\s+(?:have|need))\b""",
    re.IGNORECASE | re.VERBOSE,
)
_MOST_CHATTER = 14


def is_refusal(output: str) -> bool:
    """Whether an output says nothing, or says that it cannot answer.

    Known wordings of models and frameworks, in the first sentence or in a short text (LlamaIndex
    says "Empty Response" without asking any model where nothing was retrieved).

    Args:
        output: what was answered.
    """
    return not without_refusals(output)


def without_refusals(output: str) -> str:
    """What an output says besides that it cannot answer, sentence by sentence; perhaps nothing.

    Args:
        output: what was answered.
    """
    text = " ".join(output.replace("\u2019", "'").split())
    if text.strip(" .!'\"*").lower() in _WHOLE:
        return ""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    left = [one for one in sentences if not _REFUSAL.search(one)]
    if len(left) < len(sentences):  # what is added to a refusal by way of politeness says nothing
        left = [one for one in left if not is_chatter(one)]
    return " ".join(left)


def is_chatter(sentence: str) -> bool:
    """Whether a sentence is mere politeness: "I hope this helps!"."""
    short = len(sentence.split()) <= _MOST_CHATTER
    return short and bool(_CHATTER.match(sentence.replace("\u2019", "'").strip(" \"'*-")))
