"""What growing costs: a corpus of a million paragraphs, and new facts in a dataset that stands."""
