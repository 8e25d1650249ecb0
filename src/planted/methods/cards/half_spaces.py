"""The card of `planted.methods.half_spaces`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="half-spaces",
    summary="robust start and robust losses, for noise of any law that ignores the inputs, when m >= k",
    input_law="any",
    n_outputs="m >= k",
    activations=("relu",),
    biases=True,
    noise="any",
    samples="some 30 d; the printed algorithm exponentially many guesses in k²",
    guarantee=Guarantee.ASYMPTOTIC,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: 30.0 * d,
    order=110,
    form="clipped",
)
