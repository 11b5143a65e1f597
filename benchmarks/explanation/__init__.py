"""Explanations against known truth, against people's marks, and against each other.

Read ``planted`` for what an explanation costs where the truth is known. For the board of explainers
read ``explainers`` (what one gets and returns, and each of them), ``measures`` and ``board``;
``tables`` and ``readings`` ask models about the questions, ``cases`` hands them out and ``views``
writes the tables. ``figures`` counts what miners visit, ``self_explanations`` asks whether models
know why they answer.
"""
