"""Stages of reading a deep network: the first layer, the second, and those above."""
