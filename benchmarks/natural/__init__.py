"""RuleQA in prose, and its questions in other words."""
