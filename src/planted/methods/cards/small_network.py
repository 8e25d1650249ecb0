"""The card of `planted.methods.small_network`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="small-network",
    summary="the best small network by cross-validation, for data that are not planted; never claims a recovery",
    input_law="any",
    n_outputs="m >= 1",
    activations=("relu",),
    biases=True,
    noise="any",
    samples="any number",
    guarantee=Guarantee.NONE,
    reference="planted",
    samples_needed=lambda d, k, m, is_noisy: 2.0,
    order=120,
    is_quick=True,
)
