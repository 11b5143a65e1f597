"""RGFT-retriever (``python -m training.retriever``); begin with :mod:`training.retriever.run`."""
