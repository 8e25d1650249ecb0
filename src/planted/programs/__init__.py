"""Null spaces and linear programs, each with the evidence for its decision."""

from planted.programs._highs import LinearProgram, ProgramSolution, ProgramStatus, solve_program
from planted.programs.cone import extreme_ray
from planted.programs.null_space import NullSpace, column_space, null_space, numerical_rank
from planted.programs.relu_programs import fit_units_exactly, unit_in_subspace

__all__ = [
    "LinearProgram",
    "NullSpace",
    "ProgramSolution",
    "ProgramStatus",
    "column_space",
    "extreme_ray",
    "fit_units_exactly",
    "null_space",
    "numerical_rank",
    "solve_program",
    "unit_in_subspace",
]
