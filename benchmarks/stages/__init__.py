"""Runs of one stage: their records on disk, what they found or answered, and its measures."""
