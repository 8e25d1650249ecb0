"""Curved activations: functions, derivatives, symmetries, and how other programs write them.

A curved activation is not positively homogeneous: the scale of a unit's weights is part of the function, and no gauge. What
may be a gauge is the orientation of a unit. With `Mirror`

    f(-t) = sign f(t) + constant + slope t                                                                    (1)

a unit can be turned round, (w, b, a) -> (-w, -b, sign a), if the offset and the linear part take up what is left. The
hyperbolic tangent is odd; the sigmoid is odd about one half; softplus, GELU and SiLU differ from their mirror image by the
identity. `measure_mirror` finds (1) for a function that a user gives.

The derivatives keep their relative precision in the tails, where 1 - tanh² would lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from planted._typing import Array, as_array

__all__ = ["CURVES", "Curve", "Mirror", "Spelling", "measure_curve", "measure_mirror", "measure_rectified"]

Elementwise = Callable[[Array], Array]


class Mirror(NamedTuple):
    """How an activation looks from behind: ``f(-t) = sign f(t) + constant + slope t``."""

    sign: float
    constant: float = 0.0
    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Spelling:
    """An activation in other programs; None where they have none."""

    numpy: str | None = None  # an expression in the array T
    c: str | None = None  # a C99 expression in s; {f} stands for the suffix of functions, {real} for the type
    # A tree of ONNX operators: ("Op", argument, ...) with "t" for the pre-activation and numbers for constants.
    onnx: Any = None
    torch: tuple[str, Mapping[str, float | str]] | None = None  # name and arguments of a module in torch.nn
    sklearn: str | None = None  # name in sklearn.neural_network


@dataclass(frozen=True, slots=True)
class Curve:
    """An activation of one variable, smooth but for a kink at zero if it is rectified."""

    function: Elementwise
    derivative: Elementwise
    mirror: Mirror | None  # (1), or None if the mirror image is another function
    steepest: float  # the largest size of the derivative
    # Another name, and numbers with f(t) = outer g(inner t) + offset for the activation g of that name.
    respelled: tuple[str, float, float, float] | None = None
    spelling: Spelling = field(default_factory=Spelling)
    inverse: Elementwise | None = None  # for t > 0, of a function that is zero for t <= 0


def _expit(t: Array) -> Array:
    from scipy.special import expit

    return as_array(expit(t))


def _tanh_slope(t: Array) -> Array:
    return 4.0 * _expit(2.0 * t) * _expit(-2.0 * t)


def _sigmoid_slope(t: Array) -> Array:
    return _expit(t) * _expit(-t)


def _softplus(t: Array) -> Array:
    return as_array(np.logaddexp(0.0, t))


def _gelu(t: Array) -> Array:
    from scipy.special import ndtr

    return as_array(_times(t, ndtr(t)))


def _gelu_slope(t: Array) -> Array:
    from scipy.special import ndtr

    with np.errstate(over="ignore"):
        return as_array(ndtr(t) + _times(t, np.exp(-(t**2) / 2)) / np.sqrt(2 * np.pi))


def _silu(t: Array) -> Array:
    return _times(t, _expit(t))


def _silu_slope(t: Array) -> Array:
    return _expit(t) * (1.0 + _times(t, _expit(-t)))


def _elu(t: Array) -> Array:
    return np.where(t > 0, t, np.expm1(np.minimum(t, 0.0)))


def _elu_slope(t: Array) -> Array:
    return np.where(t > 0, 1.0, np.exp(np.minimum(t, 0.0)))


def _times(t: Array, factor: Array) -> Array:
    """Return ``t * factor``, and zero where the factor has underflowed: minus infinity times zero is the limit zero."""
    with np.errstate(invalid="ignore"):
        return as_array(np.where((factor == 0) & ~np.isnan(t), 0.0, t * factor))


_IDENTITY_APART = Mirror(1.0, 0.0, -1.0)
_HALF_ERF = ("Add", ("Erf", ("Div", "t", float(np.sqrt(2.0)))), 1.0)

_SPELLINGS = {
    "tanh": Spelling("np.tanh(T)", "tanh{f}(s)", ("Tanh", "t"), ("Tanh", {}), "tanh"),
    "sigmoid": Spelling(
        "np.exp(-np.logaddexp(0.0, -T))",
        "({real})1 / (({real})1 + exp{f}(-s))",
        ("Sigmoid", "t"),
        ("Sigmoid", {}),
        "logistic",
    ),
    "softplus": Spelling(
        "np.logaddexp(0.0, T)",
        "(s > 0 ? s + log1p{f}(exp{f}(-s)) : log1p{f}(exp{f}(s)))",
        ("Softplus", "t"),
        # Beyond its threshold PyTorch returns t itself; at 40 the difference is below rounding, at its 20 it is 2e-9.
        ("Softplus", {"beta": 1.0, "threshold": 40.0}),
    ),
    "gelu": Spelling(
        "0.5 * T * np.frompyfunc(erfc, 1, 1)(-T / np.sqrt(2.0)).astype(float)",
        "({real})0.5 * s * erfc{f}(-s * ({real})0.70710678118654752440)",
        ("Mul", ("Mul", "t", _HALF_ERF), 0.5),
        ("GELU", {"approximate": "none"}),
    ),
    "silu": Spelling(
        "T * np.exp(-np.logaddexp(0.0, -T))",
        "s / (({real})1 + exp{f}(-s))",
        ("Mul", "t", ("Sigmoid", "t")),
        ("SiLU", {}),
    ),
    "elu": Spelling(
        "np.where(T > 0, T, np.expm1(np.minimum(T, 0.0)))",
        "(s > 0 ? s : expm1{f}(s))",
        ("Elu", "t"),
        ("ELU", {"alpha": 1.0}),
    ),
}
_AS_TANH = ("tanh", 0.5, 0.5, 0.5)
CURVES: dict[str, Curve] = {
    "tanh": Curve(np.tanh, _tanh_slope, Mirror(-1.0), 1.0, None, _SPELLINGS["tanh"]),
    "sigmoid": Curve(_expit, _sigmoid_slope, Mirror(-1.0, 1.0), 0.25, _AS_TANH, _SPELLINGS["sigmoid"]),
    "softplus": Curve(_softplus, _expit, _IDENTITY_APART, 1.0, None, _SPELLINGS["softplus"]),
    "gelu": Curve(_gelu, _gelu_slope, _IDENTITY_APART, 1.1289, None, _SPELLINGS["gelu"]),
    "silu": Curve(_silu, _silu_slope, _IDENTITY_APART, 1.0999, None, _SPELLINGS["silu"]),
    "elu": Curve(_elu, _elu_slope, None, 1.0, None, _SPELLINGS["elu"]),
}

# Where a user's function is looked at: dense where activations bend, and far out.
_GRID = np.concatenate([np.linspace(0.01, 6.0, 300), np.linspace(6.5, 40.0, 68)])
_RECTIFIED_REACH = 6.0  # of a rectified function, which may grow fast: six standard deviations
_STEP = 1e-5  # of central differences, whose error is then about 1e-10
SLOPE_TOL = 1e-6  # difference of a derivative from central differences, relative to the size of both


def measure_mirror(function: Elementwise) -> Mirror | None:
    """Find (1) for a function by least squares on a grid; None if it does not hold to rounding."""
    ahead, behind = function(_GRID), function(-_GRID)
    size = np.abs(ahead) + np.abs(behind) + _GRID
    # Applied twice, (1) must give f back: no slope where the sign is -1, no constant where it is 1.
    for sign, shape in ((-1.0, np.ones_like(_GRID)), (1.0, _GRID)):
        left = behind - sign * ahead
        factor = float(shape @ left / (shape @ shape))
        if (np.abs(left - factor * shape) <= 1e-12 * (1.0 + size)).all():
            factor = 0.0 if abs(factor) < 1e-12 else factor
            return Mirror(sign, factor, 0.0) if sign < 0 else Mirror(sign, 0.0, factor)
    return None


def measure_curve(
    function: Elementwise, derivative: Elementwise, inverse: Elementwise | None = None
) -> tuple[Curve | None, str]:
    """Make a curve of a user's function and derivative, rectified if there is an inverse, or say what is wrong with them."""
    if inverse is not None:
        return measure_rectified(function, derivative, inverse)
    t = np.concatenate([-_GRID[::-1], [0.0], _GRID])
    fault = _fault(function, derivative, t)
    if fault:
        return None, fault
    return Curve(function, derivative, measure_mirror(function), float(np.abs(derivative(t)).max())), ""


def measure_rectified(
    function: Elementwise, derivative: Elementwise, inverse: Elementwise
) -> tuple[Curve | None, str]:
    """Make a curve that is a user's function for t > 0 and zero elsewhere, or say what is wrong with it.

    Examples
    --------
    >>> curve, _ = measure_rectified(np.expm1, np.exp, np.log1p)
    >>> curve.function(np.array([-1.0, 2.0])).round(3)
    array([0.   , 6.389])
    >>> measure_rectified(np.exp, np.exp, np.log)[1]
    'it does not rise from zero: its values at 1e-09 and 6 are 1 and 403'
    """
    t = _GRID[_GRID <= _RECTIFIED_REACH]
    fault = _fault(function, derivative, t)
    if fault:
        return None, fault
    low, high = float(function(np.array([1e-9]))[0]), float(function(t)[-1])
    if not abs(low) < 1e-3 * high:
        return (
            None,
            f"it does not rise from zero: its values at 1e-09 and {t[-1]:g} are {low:.3g} and {high:.3g}",
        )
    if not (np.diff(function(t)) > 0).all():
        return None, f"it does not rise everywhere on (0, {t[-1]:g}]"
    try:
        back = as_array(inverse(function(t)))
    except (TypeError, ValueError) as error:
        return None, f"its inverse cannot be evaluated on an array: {error}"
    if back.shape != t.shape or not (np.abs(back - t) <= SLOPE_TOL * t).all():
        return None, "the inverse does not give t back from the function of t"

    def rectified(t: Array) -> Array:
        return np.where(t > 0, function(np.maximum(t, 0.0)), 0.0)

    def slope(t: Array) -> Array:
        return np.where(t > 0, derivative(np.maximum(t, np.finfo(float).tiny)), 0.0)

    return Curve(rectified, slope, None, float("inf"), inverse=inverse), ""


def _fault(function: Elementwise, derivative: Elementwise, t: Array) -> str:
    """Return what is wrong with a function and its derivative on a grid; nothing if they agree."""
    try:
        values, slopes = as_array(function(t)), as_array(derivative(t))
        ends = as_array(function(t + _STEP)), as_array(function(t - _STEP))
    except (TypeError, ValueError) as error:
        return f"it cannot be evaluated on an array: {error}"
    if values.shape != t.shape or slopes.shape != t.shape:
        return f"on an array of {t.size} numbers it returns shapes {values.shape} and {slopes.shape}"
    if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
        return f"it is not finite everywhere on [{min(t[0], 0.0):g}, {t[-1]:g}]"
    differences = (ends[0] - ends[1]) / (2 * _STEP)
    allowed = SLOPE_TOL * (1.0 + np.abs(slopes) + np.abs(values))
    worst = int(np.argmax(np.abs(differences - slopes) - allowed))
    if abs(differences[worst] - slopes[worst]) > allowed[worst]:
        return (
            f"at t = {t[worst]:.3g} the derivative is given as {slopes[worst]:.6g}, "
            f"but differences of the function give {differences[worst]:.6g}"
        )
    return ""
