"""Systems whose workings are known, and one sample to measure them on."""

from __future__ import annotations

QUESTION = "What is the capital of France?"
CONTEXTS = [
    "Lyon is a city in France.",
    "Paris is the capital of France.",
    "The Seine flows through the capital.",
]
REASON = (
    "2 of 3 claims rest on retrieved documents. “The capital is Paris” rests on “Paris is the "
    "capital of France.” [2]. “It lies on the Seine” rests on “The Seine flows through the "
    "capital.” [3]. “It has 2 million inhabitants” rests on no document: it is said without any of "
    "them, too (known to the model, or made up)."
)


def partly(_: str, documents: list[str]) -> str:
    """Two claims by documents, one by heart."""
    text = " ".join(documents)
    said = ["The capital is Paris."] if "Paris" in text else []
    said += ["It lies on the Seine."] if "Seine" in text else []
    return " ".join([*said, "It has 2 million inhabitants."])


def reading(_: str, documents: list[str]) -> str:
    """Says what the documents say."""
    return "It is Paris." if any("Paris" in one for one in documents) else "I don't know."


def by_heart(_: str, documents: list[str]) -> str:
    """Reads nothing."""
    return "It is Paris."


def prompted(_: str, documents: list[str]) -> str:
    """Reads nothing, and refuses where there is no document."""
    return "It is Paris." if documents else "I don't know."


def refusing(_: str, documents: list[str]) -> str:
    """Never says anything."""
    return "I don't know."
