"""Slopes and kinks along one input: fits for every number of kinks, their number, places and sharpness."""
