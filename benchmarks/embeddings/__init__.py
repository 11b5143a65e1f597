"""What a pretrained encoder costs, and what smaller vectors of it find.

``python -m benchmarks.embeddings encoding|vectors``.
"""
