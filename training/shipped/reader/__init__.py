"""The small LLaMA reader (``python -m training.shipped.reader``): episodes, model, training."""
