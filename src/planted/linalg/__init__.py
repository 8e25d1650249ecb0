"""Decompositions, null spaces, programs and sign systems: arrays in, arrays out; nothing here knows of networks."""

from planted.linalg._highs import LinearProgram, ProgramStatus, solve_program
from planted.linalg.cone import extreme_ray
from planted.linalg.jennrich import decompose_shared_terms
from planted.linalg.khatri_rao import (
    exponents_of_products,
    khatri_rao_values,
    roots_of_powers,
    symmetric_powers,
)
from planted.linalg.null_space import NullSpace, column_space, null_space, numerical_rank
from planted.linalg.relu_programs import fit_units_exactly, unit_in_subspace
from planted.linalg.symmetric import diagonalise_by_congruence, smat, svec, svec_outer, unit_rows
from planted.linalg.symmetric_cp import decompose_symmetric

__all__ = [
    "LinearProgram",
    "NullSpace",
    "ProgramStatus",
    "column_space",
    "decompose_shared_terms",
    "decompose_symmetric",
    "diagonalise_by_congruence",
    "exponents_of_products",
    "extreme_ray",
    "fit_units_exactly",
    "khatri_rao_values",
    "null_space",
    "numerical_rank",
    "roots_of_powers",
    "smat",
    "solve_program",
    "svec",
    "svec_outer",
    "symmetric_powers",
    "unit_in_subspace",
    "unit_rows",
]
