"""Do the data meet the assumptions, and is the answer to be believed?"""

from planted.diagnostics._gaussianity import gaussianity_test
from planted.diagnostics._landscape import LandscapeSlice, StationaryPoint, classify_point, landscape_slice
from planted.diagnostics._noise import NoiseEstimate, estimate_noise
from planted.diagnostics._symmetry import (
    SymmetryTest,
    augmented_matrix,
    distinguishing_matrix,
    symmetry_test,
)

__all__ = [
    "LandscapeSlice",
    "NoiseEstimate",
    "StationaryPoint",
    "SymmetryTest",
    "augmented_matrix",
    "classify_point",
    "distinguishing_matrix",
    "estimate_noise",
    "gaussianity_test",
    "landscape_slice",
    "symmetry_test",
]
