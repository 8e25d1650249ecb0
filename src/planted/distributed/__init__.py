"""Sums over Dask collections; nothing else knows that Dask exists."""
