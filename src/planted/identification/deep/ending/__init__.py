"""The end of a reading: refine all layers on all answers, check them on fresh ones, and say what is certain."""
