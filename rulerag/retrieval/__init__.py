"""Retrievers, and retrieval guided by rules.

``lexical`` (BM25, Lucene), ``dense`` and ``symbolic`` search; ``base`` is what they share;
``guided`` searches once for each rule that guides a query and merges what is found.
"""
