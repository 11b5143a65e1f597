"""RuleQA in prose: rules against no rules, and what a linker makes of the questions."""
