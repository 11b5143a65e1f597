"""The small dual encoder (``python -m training.shipped.encoder``): pairs, two stages, figures."""
