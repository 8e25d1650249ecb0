"""Null spaces and linear programs, each with the evidence for its decision."""

from planted.programs.null_space import NullSpace, column_space, null_space, numerical_rank

__all__ = ["NullSpace", "column_space", "null_space", "numerical_rank"]
