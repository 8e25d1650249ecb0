"""Do the data meet the assumptions, and is the answer to be believed?"""

from planted.diagnostics._gaussianity import gaussianity_test
from planted.diagnostics._noise import NoiseEstimate, estimate_noise
from planted.diagnostics._symmetry import (
    SymmetryTest,
    augmented_matrix,
    distinguishing_matrix,
    symmetry_test,
)

__all__ = [
    "NoiseEstimate",
    "SymmetryTest",
    "augmented_matrix",
    "distinguishing_matrix",
    "estimate_noise",
    "gaussianity_test",
    "symmetry_test",
]
