"""An explained answer for other libraries: a pandas table, numbers in the form of shap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulerag.errors import needs_package
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.explaining.records import Explanation


def dataframe(explanation: Explanation) -> Any:
    """One row for each claim and document.

    Columns: ``claim``, ``claim_text``, ``document``, ``title``, ``text``; ``source`` (stands in a
    minimal set that is enough), ``necessary`` (in each of them), ``sufficient`` (alone one of them)
    and ``spoiler``.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    with needs_package("pandas", "pandas"):
        import pandas
    rows = [
        {
            "claim": number,
            "claim_text": claim.text,
            "document": document.index,
            "title": document.title,
            "text": document.text,
            "source": document.index in claim.sources,
            "necessary": bool(claim.retention)
            and all(document.index in one for one in claim.retention),
            "sufficient": any(one == frozenset({document.index}) for one in claim.retention),
            "spoiler": any(document.index in one.documents for one in claim.spoilers),
        }
        for number, claim in enumerate(explanation.claims)
        for document in explanation.documents
    ]
    columns = ["claim", "claim_text", "document", "title", "text"]
    columns += ["source", "necessary", "sufficient", "spoiler"]
    return pandas.DataFrame(rows, columns=columns)


def shap_explanation(values: Attribution, texts: Sequence[str]) -> Any:
    """The values of some documents as shap has them.

    Args:
        values: a number for each document.
        texts: what the documents say.

    Raises:
        MissingDependencyError: shap is not installed.
    """
    with needs_package("shap", "shap"):
        import shap
    import numpy as np

    return shap.Explanation(
        values=np.array(values.values),
        base_values=values.empty or 0.0,
        data=np.array([*texts], dtype=object),
        feature_names=list(values.names),
    )
