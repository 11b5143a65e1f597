"""Readers: generators that answer from documents and rules."""
