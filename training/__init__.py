"""Fine-tuning with rules: run as ``python -m training.retriever``; the library never imports it."""
