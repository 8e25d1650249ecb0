"""One file per algorithm: rows or moments in, `Recovery` out."""
