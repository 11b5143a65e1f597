"""How well facts, and rules among them, are found again in worlds written out as prose."""
