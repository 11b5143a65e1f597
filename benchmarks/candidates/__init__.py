"""What candidate scorers find, alone and joined, and what each adds."""
