"""Do the data meet the assumptions, and is the answer to be believed?"""

from planted.diagnostics._symmetry import (
    SymmetryTest,
    augmented_matrix,
    distinguishing_matrix,
    symmetry_test,
)

__all__ = ["SymmetryTest", "augmented_matrix", "distinguishing_matrix", "symmetry_test"]
