"""The card of `planted.methods.joint_diagonalisation`."""

from planted.outcomes import Guarantee
from planted.results import Requirements

__all__ = ["REQUIRES"]

REQUIRES = Requirements(
    method="joint-diagonalisation",
    summary="Hermite moments of all outputs diagonalised together, for normal inputs when m >= k and k <= d",
    input_law="gaussian",
    n_outputs="m >= k",
    activations=("relu", "power", "rectified"),
    biases=False,
    noise="none",
    samples="about d² for the moments alone; with pursuit about 3(d+k)",
    guarantee=Guarantee.EXACT,
    reference="BJW18",
    samples_needed=lambda d, k, m, is_noisy: float(d * d),
    order=70,
    form="uncentred",
)
