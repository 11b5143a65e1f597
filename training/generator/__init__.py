"""RGFT-generator (``python -m training.generator``); begin with :mod:`training.generator.run`."""
