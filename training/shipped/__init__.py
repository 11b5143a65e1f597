"""The making of the two small models that are installed with rulerag."""
