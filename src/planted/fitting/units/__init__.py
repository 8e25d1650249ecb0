"""Find ReLU units one by one or all at once, from the column space of the outputs or from instruments."""
