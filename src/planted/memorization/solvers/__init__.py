"""The solvers of `planted.memorize`: each takes a `MemoryTask` and its own options, and returns a `MemoryFit`."""

from collections.abc import Callable, Mapping

from planted.memorization._task import MemoryFit
from planted.memorization.solvers._adam import solve_adam
from planted.memorization.solvers._cg import solve_cg
from planted.memorization.solvers._descent import solve_pgd
from planted.memorization.solvers._kernel import solve_direct, solve_ridge
from planted.memorization.solvers._lbfgs import solve_lbfgs
from planted.memorization.solvers._low_rank import solve_low_rank

__all__ = ["SOLVERS"]

SOLVERS: Mapping[str, Callable[..., MemoryFit]] = {
    "direct": solve_direct,
    "cg": solve_cg,
    "low-rank": solve_low_rank,
    "ridge": solve_ridge,
    "pgd": solve_pgd,
    "adam": solve_adam,
    "lbfgs": solve_lbfgs,
}
