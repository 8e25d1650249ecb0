"""The card of `planted.methods.landscape`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="landscape",
    summary="an objective without bad minima, for normal inputs, one output, k <= d and no biases",
    input_law="gaussian",
    n_outputs="m = 1",
    activations=("relu", "leaky-relu:SLOPE", "absolute"),
    biases=False,
    noise="mean-zero",
    samples="about 30 d² for f', more for G and F; with noise up to ten times as many",
    guarantee=Guarantee.EXACT,
    reference="GLM18",
    samples_needed=lambda d, k, m, is_noisy: (300.0 if is_noisy else 30.0) * d * d,
    tries_anyway=False,
    order=50,
    form="uncentred",
)
