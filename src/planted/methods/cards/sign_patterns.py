"""The card of `planted.methods.sign_patterns`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="sign-patterns",
    summary="extreme rays of a cone, or all sign patterns, for any inputs without biases when m >= k",
    input_law="any",
    n_outputs="m >= k",
    activations=("relu",),
    biases=False,
    noise="none",
    samples="about 3(d+k); the variant 'paper' at most some hundred, k <= 4",
    guarantee=Guarantee.EXACT,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: 3.0 * (d + k),
    order=60,
    form="uncentred",
)
