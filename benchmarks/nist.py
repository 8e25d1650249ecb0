"""NIST's certified nonlinear regressions through the Levenberg–Marquardt core of `refine`.

The sums of `refine` are those of ReLU units, but its steps are not: the damped normal equations, the rule by which the
damping moves and the rule that a step must lower the sum of squares (`Damping.descend`) know nothing of networks. Here they
meet the StRD problems that fit on a page (public domain, https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml), of every
level of difficulty. NIST gives two starts: from the near one the damping begins as in `refine`, from the far one as in the
fits of `restarts`, which begin anywhere. Digits are those in which the worst parameter agrees with the certified value, at
most 11, as many as are certified. Derivatives are
exact, by complex steps. SciPy's MINPACK solves the same problems beside it, and must reproduce the certified sum of squares
to 9 digits: data with a misprint would not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
from _table import Line, parse_options, report
from scipy import optimize

from planted.fitting._refine import INITIAL_DAMPING as NEAR
from planted.fitting._refine import Damping
from planted.fitting.multistart._absolute_form import INITIAL_DAMPING as FAR

DIGITS = 6  # what libraries with exact derivatives reach on all of them
CERTIFIED_DIGITS = 11
MAX_ITER = 2000
Vector = Any


@dataclass(frozen=True)
class Problem:
    """Data, model, two starts, certified parameters and sum of squares."""

    model: Callable[[Vector, Vector], Vector]
    x: str
    y: str
    starts: tuple[tuple[float, ...], tuple[float, ...]]
    certified: tuple[float, ...]
    squares: float

    @property
    def data(self) -> tuple[Vector, Vector]:
        return np.array(self.x.split(), dtype=float), np.array(self.y.split(), dtype=float)


def _steps(first: float, step: float, count: int) -> str:
    return " ".join(repr(round(first + step * i, 10)) for i in range(count))


def _thurber(x: Vector, b: Vector) -> Vector:
    return (b[0] + x * (b[1] + x * (b[2] + x * b[3]))) / (1 + x * (b[4] + x * (b[5] + x * b[6])))


def _lanczos(x: Vector, b: Vector) -> Vector:
    return b[0] * np.exp(-b[1] * x) + b[2] * np.exp(-b[3] * x) + b[4] * np.exp(-b[5] * x)


PROBLEMS: dict[str, Problem] = {
    "Misra1a": Problem(
        lambda x, b: b[0] * (1 - np.exp(-b[1] * x)),
        "77.6 114.9 141.1 190.8 239.9 289.0 332.8 378.4 434.8 477.3 536.8 593.1 689.1 760.0",
        "10.07 14.73 17.94 23.93 29.61 35.18 40.02 44.82 50.76 55.05 61.01 66.40 75.47 81.78",
        ((500, 1e-4), (250, 5e-4)),
        (2.3894212918e02, 5.5015643181e-04),
        1.2455138894e-01,
    ),
    "DanWood": Problem(
        lambda x, b: b[0] * x ** b[1],
        "1.309 1.471 1.490 1.565 1.611 1.680",
        "2.138 3.421 3.597 4.340 4.882 5.660",
        ((1, 5), (0.7, 4)),
        (7.6886226176e-01, 3.8604055871e00),
        4.3173084083e-03,
    ),
    "Lanczos3": Problem(
        _lanczos,
        _steps(0.0, 0.05, 24),
        "2.5134 2.0443 1.6684 1.3664 1.1232 0.9269 0.7679 0.6389 0.5338 0.4479 0.3776 0.3197 0.2720 0.2325 0.1997 0.1723 "
        "0.1493 0.1301 0.1138 0.1000 0.0883 0.0783 0.0698 0.0624",
        ((1.2, 0.3, 5.6, 5.5, 6.5, 7.6), (0.5, 0.7, 3.6, 4.2, 4, 6.3)),
        (
            8.6816414977e-02,
            9.5498101505e-01,
            8.4400777463e-01,
            2.9515951832e00,
            1.5825685901e00,
            4.9863565084e00,
        ),
        1.6117193594e-08,
    ),
    "MGH17": Problem(
        lambda x, b: b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]),
        _steps(0.0, 10.0, 33),
        "0.844 0.908 0.932 0.936 0.925 0.908 0.881 0.850 0.818 0.784 0.751 0.718 0.685 0.658 0.628 0.603 0.580 0.558 "
        "0.538 0.522 0.506 0.490 0.478 0.467 0.457 0.448 0.438 0.431 0.424 0.420 0.414 0.411 0.406",
        ((50, 150, -100, 1, 2), (0.5, 1.5, -1, 0.01, 0.02)),
        (3.7541005211e-01, 1.9358469127e00, -1.4646871366e00, 1.2867534640e-02, 2.2122699662e-02),
        5.4648946975e-05,
    ),
    "MGH09": Problem(
        lambda x, b: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
        "4 2 1 0.5 0.25 0.167 0.125 0.1 0.0833 0.0714 0.0625",
        "0.1957 0.1947 0.1735 0.1600 0.0844 0.0627 0.0456 0.0342 0.0323 0.0235 0.0246",
        ((25, 39, 41.5, 39), (0.25, 0.39, 0.415, 0.39)),
        (1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01),
        3.0750560385e-04,
    ),
    "MGH10": Problem(
        lambda x, b: b[0] * np.exp(b[1] / (x + b[2])),
        _steps(50.0, 5.0, 16),
        "34780 28610 23650 19630 16370 13720 11540 9744 8261 7030 6005 5147 4427 3820 3307 2872",
        ((2, 400000, 25000), (0.02, 4000, 250)),
        (5.6096364710e-03, 6.1813463463e03, 3.4522363462e02),
        8.7945855171e01,
    ),
    "BoxBOD": Problem(
        lambda x, b: b[0] * (1 - np.exp(-b[1] * x)),
        "1 2 3 5 7 10",
        "109 149 149 191 213 224",
        ((1, 1), (100, 0.75)),
        (2.1380940889e02, 5.4723748542e-01),
        1.1680088766e03,
    ),
    "Rat42": Problem(
        lambda x, b: b[0] / (1 + np.exp(b[1] - b[2] * x)),
        "9 14 21 28 42 57 63 70 79",
        "8.930 10.800 18.590 22.330 39.350 56.110 61.730 64.620 67.080",
        ((100, 1, 0.1), (75, 2.5, 0.07)),
        (7.2462237576e01, 2.6180768402e00, 6.7359200066e-02),
        8.0565229338e00,
    ),
    "Rat43": Problem(
        lambda x, b: b[0] / (1 + np.exp(b[1] - b[2] * x)) ** (1 / b[3]),
        _steps(1.0, 1.0, 15),
        "16.08 33.83 65.80 97.20 191.55 326.20 386.87 520.53 590.03 651.92 724.93 699.56 689.96 637.56 717.41",
        ((100, 10, 1, 1), (700, 5, 0.75, 1.3)),
        (6.9964151270e02, 5.2771253025e00, 7.5962938329e-01, 1.2792483859e00),
        8.7864049080e03,
    ),
    "Eckerle4": Problem(
        lambda x, b: b[0] / b[1] * np.exp(-(((x - b[2]) / b[1]) ** 2) / 2),
        "400 405 410 415 420 425 430 435 436.5 438 439.5 441 442.5 444 445.5 447 448.5 450 451.5 453 454.5 456 457.5 459 "
        "460.5 462 463.5 465 470 475 480 485 490 495 500",
        "0.0001575 0.0001699 0.0002350 0.0003102 0.0004917 0.0008710 0.0017418 0.0046400 0.0065895 0.0097302 0.0149002 "
        "0.0237310 0.0401683 0.0712559 0.1264458 0.2073413 0.2902366 0.3445623 0.3698049 0.3668534 0.3106727 0.2078154 "
        "0.1164354 0.0616764 0.0337200 0.0194023 0.0117831 0.0074357 0.0022732 0.0008800 0.0004579 0.0002345 0.0001586 "
        "0.0001143 0.0000710",
        ((1, 10, 500), (1.5, 5, 450)),
        (1.5543827178e00, 4.0888321754e00, 4.5154121844e02),
        1.4635887487e-03,
    ),
    "Thurber": Problem(
        _thurber,
        "-3.067 -2.981 -2.921 -2.912 -2.840 -2.797 -2.702 -2.699 -2.633 -2.481 -2.363 -2.322 -1.501 -1.460 -1.274 -1.212 "
        "-1.100 -1.046 -0.915 -0.714 -0.566 -0.545 -0.400 -0.309 -0.109 -0.103 0.010 0.119 0.377 0.790 0.963 1.006 1.115 "
        "1.572 1.841 2.047 2.200",
        "80.574 84.248 87.264 87.195 89.076 89.608 89.868 90.101 92.405 95.854 100.696 101.060 401.672 390.724 567.534 "
        "635.316 733.054 759.087 894.206 990.785 1090.109 1080.914 1122.643 1178.351 1260.531 1273.514 1288.339 1327.543 "
        "1353.863 1414.509 1425.208 1421.384 1442.962 1464.350 1468.705 1447.894 1457.628",
        ((1000, 1000, 400, 40, 0.7, 0.3, 0.03), (1300, 1500, 500, 75, 1, 0.4, 0.05)),
        (1.2881396800e03, 1.4910792535e03, 5.8323836877e02, 7.5416644291e01, 9.6629502864e-01, 3.9797285797e-01,
         4.9727297349e-02),
        5.6427082397e03,
    ),
}  # fmt: skip


def main() -> None:
    options = parse_options(__doc__ or "")
    lines, rows = [], []
    for name in PROBLEMS:  # seconds in all: the short version is the full one
        problem = PROBLEMS[name]
        check_data(name, problem)
        far, near = (
            digits(solve(problem, start, damping), problem)
            for start, damping in zip(problem.starts, (FAR, NEAR), strict=True)
        )
        peer = [digits(solve_scipy(problem, start), problem) for start in problem.starts]
        text = f"{near:.1f} digits; SciPy {peer[1]:.1f}"
        lines.append(Line(f"{name}, near start: >= {DIGITS} digits", text, near >= DIGITS))
        rows.append({"problem": name, "far": far, "near": near, "scipy_far": peer[0], "scipy_near": peer[1]})
    ours, theirs = (sum(row[key] >= DIGITS for row in rows) for key in ("far", "scipy_far"))
    text = f"{ours} of {len(rows)}; SciPy {theirs}"
    lines.append(Line(f"far starts: >= {DIGITS} digits as often as SciPy", text, ours >= theirs))
    report("nist", lines, rows, options)


@dataclass(frozen=True)
class Point:
    """Parameters and the sum of squares there."""

    b: Vector
    cost: float


def solve(problem: Problem, start: tuple[float, ...], damping: Damping) -> Vector:
    """Descend as `refine` and the searches do, by their own search along the damping."""
    here = evaluate(problem, np.array(start, dtype=float))

    def try_step(step: Vector) -> Point:
        return evaluate(problem, here.b + step)

    for _ in range(MAX_ITER):
        residual, J = linearise(problem, here.b)
        N = J.T @ J
        scales = np.maximum(np.diag(N), 1e-12 * np.diag(N).max())
        trial, damping, _ = damping.descend((N, J.T @ residual, scales), try_step, here.cost)
        if trial is None:
            break  # no step lowers the sum of squares: its minimum to rounding
        here = trial
    return here.b


def evaluate(problem: Problem, b: Vector) -> Point:
    return Point(b, squares(problem, b))


def linearise(problem: Problem, b: Vector) -> tuple[Vector, Vector]:
    """Return residuals y - f and the derivatives of f."""
    x, y = problem.data
    tiny = 1e-30
    with np.errstate(all="ignore"):
        columns = [problem.model(x, b + 1j * tiny * axis).imag / tiny for axis in np.eye(len(b))]
        return y - problem.model(x, b), np.column_stack(columns)


def squares(problem: Problem, b: Vector) -> float:
    x, y = problem.data
    with np.errstate(all="ignore"):
        total = float(((y - problem.model(x, b)) ** 2).sum())
    return total if np.isfinite(total) else np.inf


def solve_scipy(problem: Problem, start: tuple[float, ...]) -> Vector:
    def residual(b: Vector) -> Vector:
        return -linearise(problem, b)[0]

    found = optimize.least_squares(
        residual,
        start,
        jac=lambda b: linearise(problem, b)[1],
        method="lm",
        x_scale="jac",
        ftol=1e-15,
        xtol=1e-15,
        gtol=1e-15,
        max_nfev=20_000,
    )
    return found.x


def check_data(name: str, problem: Problem) -> None:
    """Stop if the data as typed here do not have the certified minimum, by SciPy from the certified values."""
    least = squares(problem, solve_scipy(problem, problem.certified))
    if abs(least - problem.squares) > 1e-9 * problem.squares:
        raise SystemExit(f"{name}: the data give {least!r}, certified are {problem.squares!r}")


def digits(b: Vector, problem: Problem) -> float:
    """Return the digits in which the worst parameter agrees."""
    certified = np.array(problem.certified)
    error = float(np.max(np.abs(b - certified) / np.abs(certified)))
    return -log10(max(error, 10.0**-CERTIFIED_DIGITS))


if __name__ == "__main__":
    main()
