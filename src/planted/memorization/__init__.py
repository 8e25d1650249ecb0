"""Memorise any labels with few units."""
