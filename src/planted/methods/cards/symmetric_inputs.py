"""The card of `planted.methods.symmetric_inputs`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="symmetric-inputs",
    summary="moments of symmetric inputs, no biases, when there are as many outputs as units",
    input_law="symmetric",
    n_outputs="m >= k",
    activations=("relu",),
    biases=False,
    noise="mean-zero",
    samples="noiseless about max(3d + 2k, k(k-1)/2), k <= d; noisy some 20 d",
    guarantee=Guarantee.EXACT,
    reference="GKLW19",
    samples_needed=lambda d, k, m, is_noisy: 20.0 * d if is_noisy else max(3.0 * d + 2 * k, k * (k - 1) / 2),
    order=30,
    form="uncentred",
)
