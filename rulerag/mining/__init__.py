"""Mining Horn rules from a table of facts."""
