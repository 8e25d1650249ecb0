"""Searches that end at a certificate; each is shared by several methods."""
