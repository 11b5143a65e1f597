"""Pretrained models: what they cost on this machine, and what each step of using them gains."""
