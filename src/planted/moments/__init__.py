"""Sums over rows that the theories need, and their closed forms.

Here are Gram matrices, regressions, normal equations, paired and Hermite moments, and the comparison of a network
with all rows. Every sum is a `planted.rows.Sums`, made in one pass.
"""

from planted.moments._gram import (
    NormalSums,
    RegressionSums,
    RowMoments,
    accumulate_normal,
    augment,
    beside_simple_models,
    check_rows_against,
    hidden_rows,
    joint_moments,
    mask_rows,
    n_output_columns,
    output_columns,
    output_weights,
    say_beside_a_line,
    with_output_weights,
)
from planted.moments._hermite import (
    Contractions,
    Draws,
    HermiteMoments,
    Residual,
    SampleHermite,
    whitening_map,
)
from planted.moments._hermite_fit import PolynomialFit, Project, design_size, fit_polynomial, leading_span
from planted.moments._hermite_sums import RowFunction, accumulate_grams
from planted.moments._hermite_tensors import HermiteTensors, hermite_values, relu_coefficients
from planted.moments._kink_normal import LinearSums, accumulate_kinks, accumulate_linear
from planted.moments._pair_moments import SampleMoments, second_moments
from planted.moments._paired import PairedSums, PairMaps, accumulate_pairs, distinguishing_sums
from planted.moments._summary import RowSummary, row_keys, summarise_rows

__all__ = [
    "Contractions",
    "Draws",
    "HermiteMoments",
    "HermiteTensors",
    "LinearSums",
    "NormalSums",
    "PairMaps",
    "PairedSums",
    "PolynomialFit",
    "Project",
    "RegressionSums",
    "Residual",
    "RowFunction",
    "RowMoments",
    "RowSummary",
    "SampleHermite",
    "SampleMoments",
    "accumulate_grams",
    "accumulate_kinks",
    "accumulate_linear",
    "accumulate_normal",
    "accumulate_pairs",
    "augment",
    "beside_simple_models",
    "check_rows_against",
    "design_size",
    "distinguishing_sums",
    "fit_polynomial",
    "hermite_values",
    "hidden_rows",
    "joint_moments",
    "leading_span",
    "mask_rows",
    "n_output_columns",
    "output_columns",
    "output_weights",
    "relu_coefficients",
    "row_keys",
    "say_beside_a_line",
    "second_moments",
    "summarise_rows",
    "whitening_map",
    "with_output_weights",
]
