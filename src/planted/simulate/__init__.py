"""Planted worlds: input laws, teachers, noises and data sets, each with its own random stream.

A world is made of a law (where inputs come from), a teacher (the network to be found) and a noise. Every
part draws from a stream of its own, derived from one ``random_state``: changing the noise changes neither the
inputs nor the teacher, and the streams of a solver given the same integer are unrelated to all of them.

>>> from planted import simulate
>>> data = simulate.dataset(100, n_features=5, n_hidden=3, n_outputs=3, random_state=0)
>>> data.X.shape, data.Y.shape, data.network
((100, 5), (100, 3), TwoLayerNetwork(n_features=5, n_hidden=3, n_outputs=3, activation='relu'))
"""

from planted.simulate._datasets import Dataset, dataset, information_limit
from planted.simulate._hard import (
    Formula,
    IllConditionedPair,
    SatInstance,
    SpuriousMinimum,
    hard_instance,
    read_dimacs,
)
from planted.simulate._inputs import input_law, inputs
from planted.simulate._laws import (
    Exponential,
    Gaussian,
    InputLaw,
    Laplace,
    Mixture,
    Rademacher,
    Smoothed,
    Sphere,
    StudentT,
    Uniform,
)
from planted.simulate._noises import (
    CauchyNoise,
    GaussianNoise,
    HeteroscedasticNoise,
    Noise,
    SparseNoise,
    StudentTNoise,
)
from planted.simulate._symmetrise import symmetrise
from planted.simulate._teachers import perturb_teacher, teacher
from planted.simulate._weights import (
    Conditioned,
    GaussianEntries,
    Magnitudes,
    NearParallel,
    Orthonormal,
    UnitRows,
    WeightDesign,
)

__all__ = [
    "CauchyNoise",
    "Conditioned",
    "Dataset",
    "Exponential",
    "Formula",
    "Gaussian",
    "GaussianEntries",
    "GaussianNoise",
    "HeteroscedasticNoise",
    "IllConditionedPair",
    "InputLaw",
    "Laplace",
    "Magnitudes",
    "Mixture",
    "NearParallel",
    "Noise",
    "Orthonormal",
    "Rademacher",
    "SatInstance",
    "Smoothed",
    "SparseNoise",
    "Sphere",
    "SpuriousMinimum",
    "StudentT",
    "StudentTNoise",
    "Uniform",
    "UnitRows",
    "WeightDesign",
    "dataset",
    "hard_instance",
    "information_limit",
    "input_law",
    "inputs",
    "perturb_teacher",
    "read_dimacs",
    "symmetrise",
    "teacher",
]
