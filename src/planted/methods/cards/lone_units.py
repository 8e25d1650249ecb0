"""The card of `planted.methods.lone_units`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="lone-units",
    summary="samples on which one unit alone is active; fewer outputs than units, but at least two",
    input_law="any",
    n_outputs="m >= 2",
    activations=("relu", "power"),
    biases=False,
    noise="none",
    samples="about 2 d 2^k for orthonormal W, d 4^k for random W",
    guarantee=Guarantee.HEURISTIC,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: 2.0 * d * 2.0**k,
    order=90,
    form="uncentred",
)
