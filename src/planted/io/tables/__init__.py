"""Tables of numbers in files: `.npy`, `.npz`, `.csv`, `.parquet` and `.feather`."""
