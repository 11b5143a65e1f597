"""How well facts are read out of sentences that were written or marked by hand."""
