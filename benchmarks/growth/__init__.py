"""What large corpora of texts cost: a million paragraphs indexed, and a dataset asked of them."""
