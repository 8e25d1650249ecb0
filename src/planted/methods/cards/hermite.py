"""The card of `planted.methods.hermite`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="hermite",
    summary="Hermite tensors of normal inputs: biases, one output, more units than inputs",
    input_law="gaussian",
    n_outputs="m >= 1",
    activations=("relu",),
    biases=True,
    noise="mean-zero",
    samples="about 40 d max(d, k), for k > d 40 times and with noise 10 times as many; refined answers need fewer",
    guarantee=Guarantee.EXACT,
    reference="ATV21",
    samples_needed=lambda d, k, m, is_noisy: (
        40.0 * d * max(d, k) * (1 if k <= d else 40) * (10 if is_noisy else 1)
    ),
    tries_anyway=False,
    order=40,
)
