"""What each method needs of the data: one module for each, read without loading the method itself."""
