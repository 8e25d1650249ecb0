"""Objectives whose landscapes can be compared, and descents on them."""
