"""Every explainer on the same questions: does it name what matters, and at what cost.

Read ``explainers`` first (what an explainer gets and returns, and each of them), then ``measures``
and ``board`` (what is measured, and the figures). ``cases``, ``tables`` and ``readings`` hold the
questions and what models say; ``page`` writes the page.
"""
