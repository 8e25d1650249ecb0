"""The card of `planted.methods.complementarity`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="complementarity",
    summary="one null space, or one unit at a time, for any inputs when there are as many outputs as units",
    input_law="any",
    n_outputs="m >= k",
    activations=("relu",),
    biases=True,
    noise="mean-zero",
    samples="noiseless about 3(d+k), certified globally from k(k+1)/2 + k(d+1); noisy some 20 d",
    guarantee=Guarantee.EXACT,
    reference="planted",
    samples_needed=lambda d, k, m, is_noisy: 20.0 * d if is_noisy else 3.0 * (d + k),
    order=10,
    is_quick=True,
)
