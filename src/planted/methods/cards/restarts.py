"""The card of `planted.methods.restarts`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="restarts",
    summary="expand, fit without signs, prune, polish: any inputs, any number of outputs, judged by its certificate",
    input_law="any",
    n_outputs="m >= 1",
    activations=(
        "relu",
        "leaky-relu",
        "absolute",
        "power",
        "quadratic",
        "tanh",
        "sigmoid",
        "softplus",
        "gelu",
        "silu",
        "elu",
        "registered",
    ),
    biases=True,
    noise="mean-zero",
    samples="noiseless about 3(k+1)(d+1)/m and more for k > d; noisy some 12 times as many as unknowns",
    guarantee=Guarantee.EXACT,
    reference="planted",
    samples_needed=lambda d, k, m, is_noisy: (12.0 if is_noisy else 3.0) * (k + 1) * (d + 1) / m,
    order=20,
    takes_weights=True,
    likelihoods=("gaussian", "logistic", "multinomial", "poisson"),
)
