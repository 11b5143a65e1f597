"""Explainers against known truth, published figures and other packages."""
