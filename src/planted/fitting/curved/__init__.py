"""Units of any activation found from samples: fits, the path of widths, orientation."""
