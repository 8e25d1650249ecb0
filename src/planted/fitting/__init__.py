"""From rows to networks: the standardised problem, refinement, losses, units, standard errors."""
