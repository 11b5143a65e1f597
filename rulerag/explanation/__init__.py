"""Explanations of one answer by probing it with parts of its evidence removed."""
