"""Mined rules beside published ones: agreement, pruning scores, growth with the graph."""
