"""Do the data meet the assumptions, and is the answer to be believed?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planted.diagnostics._gaussianity import gaussianity_test
    from planted.diagnostics._landscape import (
        LandscapeSlice,
        StationaryPoint,
        classify_point,
        landscape_slice,
    )
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

_HOMES = {
    "_gaussianity": ("gaussianity_test",),
    "_landscape": ("LandscapeSlice", "StationaryPoint", "classify_point", "landscape_slice"),
    "_noise": ("NoiseEstimate", "estimate_noise"),
    "_symmetry": ("SymmetryTest", "augmented_matrix", "distinguishing_matrix", "symmetry_test"),
}


def __getattr__(name: str) -> Any:
    """Load a name with the methods it looks at when it is first used."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
