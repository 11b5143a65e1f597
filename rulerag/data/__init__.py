"""Public data sets: where each comes from and how it is fetched (:mod:`~rulerag.data.download`)."""
