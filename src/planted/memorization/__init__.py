"""Memorise any labels with few units: `planted.memorize` and its solvers."""
