"""What retrieval covers of the answers at a cost in tokens; see ``__main__``."""
