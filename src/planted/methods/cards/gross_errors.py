"""The card of `planted.methods.gross_errors`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="gross-errors",
    summary="labels that are exact but for gross errors in some entries, when there are more outputs than units",
    input_law="any",
    n_outputs="m > k",
    activations=("relu",),
    biases=True,
    noise="sparse",
    samples="some 10 (d + k), with up to a third of the entries wrong",
    guarantee=Guarantee.EXACT,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: 10.0 * (d + k),
    order=100,
    form="clipped",
)
