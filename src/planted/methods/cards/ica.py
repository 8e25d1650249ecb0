"""The card of `planted.methods.ica`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="ica",
    summary="independent components of the outputs, for normal inputs and orthonormal hidden weights",
    input_law="gaussian",
    n_outputs="m >= k",
    activations=("relu", "power"),
    biases=False,
    noise="none",
    samples="some 300 d for the components alone; with pursuit about 3(d+k)",
    guarantee=Guarantee.EXACT,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: 300.0 * d,
    order=80,
    form="uncentred",
)
