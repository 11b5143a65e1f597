"""Metrics, the resumable experiment runner and its report."""
