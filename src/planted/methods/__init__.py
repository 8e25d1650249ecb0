"""One package per method, with the name it has on the command line."""
