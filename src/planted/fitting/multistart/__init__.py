"""Search with restarts: starts, fits of absolute values, widths, orientation of the units."""
