"""Activations, each with the few facts the algorithms need.

An activation is given by name, with its parameter after a colon: ``"relu"``, ``"leaky-relu:0.1"``, ``"power:2"`` (the
rectified power ``max(t, 0)**2``), ``"absolute"``, ``"quadratic"``, and the curved ones ``"tanh"``, ``"sigmoid"``,
``"softplus"``, ``"gelu"``, ``"silu"``, ``"elu"``. `register_activation` adds a smooth function of one's own.

Two facts decide what a network determines of its units, its *gauge*:

- scale. The first five are positively homogeneous, ``f(s t) = s**degree f(t)`` for ``s > 0``: a positive scale can move
  between the layers, and the rows of ``W`` can be given unit norm. Curved activations have degree 0 here: the scale of a
  unit is determined, and rows stay as they are (`Activation.unit_scale`).
- orientation. Where ``f(-t) = sign f(t) + constant + slope t`` (`Activation.mirror`), a unit can be turned round if the
  offset and, for a slope, the linear part may take up the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from planted._typing import Array, as_array
from planted.networks._curves import CURVES, Curve, Mirror, Spelling, measure_curve
from planted.outcomes import BadInputError

__all__ = [
    "Activation",
    "CurvedActivation",
    "activation_names",
    "activation_of_module",
    "activation_of_sklearn",
    "is_rectifier",
    "is_slope_unknown",
    "is_unknown",
    "parse_activation",
    "register_activation",
    "requested_activation",
]

LARGEST_DEGREE = 100  # of "power:P"; in double precision 1300 to this power is out of range
LONGEST_NAME = 100  # characters; a slope takes 24 at most


@dataclass(frozen=True, slots=True)
class Activation:
    """A positively homogeneous activation ``f(t) = right * t**p`` for t > 0, ``left * |t|**p`` for t < 0."""

    name: str  # the text from which `parse_activation` makes this object
    degree: float  # the power ``p``, at least one; 0 for a curved activation, whose scale is no gauge
    right: float  # coefficient for t > 0
    left: float  # coefficient for t < 0

    def __call__(self, t: Array) -> Array:
        """Return the activation of ``t``, elementwise."""
        if self.left == 0.0:  # zero times an overflowing power would be NaN
            return np.asarray(np.maximum(t, 0.0) ** self.degree) if self.degree > 1 else np.maximum(t, 0.0)
        magnitude = np.abs(t) ** self.degree
        return np.asarray(np.where(t > 0, self.right, self.left) * magnitude)

    def derivative(self, t: Array) -> Array:
        """Return the derivative; at a kink the left one."""
        if self.degree == 1 and self.left == 0.0:
            return np.asarray((t > 0) * self.right)  # faster than a choice
        if self.degree == 1:
            return np.where(t > 0, self.right, -self.left)
        if self.left == 0.0:
            return np.asarray(self.degree * np.maximum(t, 0.0) ** (self.degree - 1))
        slope = self.degree * np.abs(t) ** (self.degree - 1)
        return np.asarray(np.where(t > 0, self.right, -self.left) * slope)

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether the activation has degree one."""
        return self.degree == 1

    @property
    def is_curved(self) -> bool:
        """Whether the scale of a unit is part of the function."""
        return self.degree == 0

    @property
    def kink(self) -> float:
        """The even part's coefficient for degree one: f(t) = kink |t| + slope t."""
        return (self.right + self.left) / 2

    @property
    def slope(self) -> float:
        """The odd part's coefficient for degree one: f(t) = kink |t| + slope t."""
        return (self.right - self.left) / 2

    @property
    def mirror(self) -> Mirror | None:
        """How f(-t) follows from f(t); None if it does not."""
        if self.degree == 1:
            return Mirror(1.0, 0.0, -2 * self.slope + 0.0)
        return Mirror(1.0) if self.left == self.right else None

    def unit_scale(self, W: Array) -> tuple[Array, Array]:
        """Return rows of unit norm and the norms; curved activations keep the rows, with norms of one.

        Rows of zeros stay, with norm one. Output weights are to be multiplied by ``norms**degree``. Shapes: W (k, d).
        """
        from planted.linalg.symmetric import unit_rows

        return unit_rows(W)

    def rounding_terms(self, t: Array, sizes: Array) -> Array:
        """Return the size of the terms whose rounding reaches the activation of t.

        `sizes`: sums of the sizes of the terms of t. Shapes: t (n, k), sizes (n, k), result (n, k).
        """
        return as_array(sizes**self.degree)

    @property
    def steepest(self) -> float:
        """The largest size of the derivative; infinite for powers."""
        return max(abs(self.right), abs(self.left)) if self.degree == 1 else float("inf")

    def steepest_up_to(self, reach: float) -> float:
        """The largest size of the derivative for t of size `reach` at most."""
        if self.degree == 1 or not reach > 0:
            return self.steepest
        return float(max(abs(self.right), abs(self.left)) * self.degree * reach ** (self.degree - 1))

    @property
    def inverse(self) -> Callable[[Array], Array] | None:
        """The inverse for t > 0 of an activation that is zero for t <= 0; None for other activations."""
        if self.left != 0 or self.is_curved:
            return None
        return lambda values: np.asarray((values / self.right) ** (1.0 / self.degree))

    @property
    def respelled(self) -> tuple[str, float, float, float] | None:
        """Name of another activation g, and numbers with f(t) = outer g(inner t) + offset; None if there is none."""
        return None

    @property
    def spelling(self) -> Spelling:
        """How other programs write the activation."""
        if self.degree == 2 and self.left == self.right:
            return Spelling(onnx=("Mul", "t", "t"))
        if self.degree > 1:
            return Spelling(onnx=("Pow", ("Relu", "t"), float(self.degree)))
        if self.left == 1.0:
            return Spelling(onnx=("Abs", "t"))
        if self.name == "relu":
            return Spelling(onnx=("Relu", "t"), torch=("ReLU", {}), sklearn="relu")
        module = "LeakyReLU", {"negative_slope": -self.left}
        if self.left == 0:  # zero times minus infinity would be NaN
            return Spelling(onnx=("Relu", "t"), torch=module)
        # LeakyRelu keeps its slope in single precision, and onnxruntime has none for doubles; a stored slope is exact.
        below = ("Mul", "t", -self.left)
        return Spelling(onnx=("Where", ("Greater", "t", 0.0), "t", below), torch=module)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which `numpy_code` and `c_code` can write the activation."""
        return "NumPy", "C"

    def not_written(self, where: str) -> BadInputError:
        """Return the error that the activation cannot be written in some form, with the forms that can."""
        module = "a module of PyTorch (to_torch)" if self.spelling.torch else None
        ways = ("ONNX" if self.spelling.onnx else None, module, *self.languages, "JSON", "a file of planted")
        known = ", ".join(way for way in ways if way)
        return BadInputError(f"activation {self.name!r} cannot be written {where}; it can in: {known}")

    def numpy_code(self) -> str:
        """Return the activation as an expression of NumPy in the array T."""
        if self.left == 0.0:
            return "np.maximum(T, 0.0)" + (f" ** {self.degree}" if self.degree > 1 else "")
        return f"np.where(T > 0, {self.right!r}, {self.left!r}) * np.abs(T) ** {self.degree}"

    def c_code(self, real: str, suffix: str) -> tuple[str, str]:
        """Return C99 expressions for ``s``, from ``t``, and for the unit's output, from ``s`` and ``t``."""
        product = " * ".join(["s"] * int(self.degree))
        if self.degree != int(self.degree):
            product = f"pow{suffix}(s, ({real}){float(self.degree).hex()}{suffix})"
        if self.left == 0.0:  # zero times infinity would be NaN
            return f"t < 0 ? ({real})0 : t", product
        right, left = (f"({real}){float(value).hex()}{suffix}" for value in (self.right, self.left))
        return "t > 0 ? t : -t", f"(t > 0 ? {right} : {left}) * {product}"


@dataclass(frozen=True, slots=True)
class CurvedActivation(Activation):
    """A smooth activation that is not homogeneous: the scale of a unit's weights is determined."""

    curve: Curve = field(compare=False, repr=False)  # the name tells activations apart

    def __call__(self, t: Array) -> Array:
        """Return the activation of ``t``, elementwise."""
        return as_array(self.curve.function(np.asarray(t, dtype=np.float64)))

    def derivative(self, t: Array) -> Array:
        """Return the derivative."""
        return as_array(self.curve.derivative(np.asarray(t, dtype=np.float64)))

    @property
    def mirror(self) -> Mirror | None:
        """How f(-t) follows from f(t); None if it does not."""
        return self.curve.mirror

    def unit_scale(self, W: Array) -> tuple[Array, Array]:
        """Return the rows as they are, with norms of one."""
        return W, np.ones(len(W))

    def rounding_terms(self, t: Array, sizes: Array) -> Array:
        """Return ``|f'(t)| sizes + |f(t)|``, the terms whose rounding reaches the activation."""
        return np.abs(self.derivative(t)) * sizes + np.abs(self(t))

    @property
    def steepest(self) -> float:
        """The largest size of the derivative."""
        return self.curve.steepest

    def steepest_up_to(self, reach: float) -> float:
        """The largest size of the derivative for t of size `reach` at most, of a rectified function as a grid shows it."""
        if self.curve.inverse is None or not 0 < reach < np.inf:
            return self.steepest
        return float(np.abs(self.derivative(np.linspace(0.0, reach, 1001)[1:])).max())

    @property
    def inverse(self) -> Callable[[Array], Array] | None:
        """The inverse for t > 0 of an activation that is zero for t <= 0; None for other activations."""
        return self.curve.inverse

    @property
    def respelled(self) -> tuple[str, float, float, float] | None:
        """Name of another activation g, and numbers with f(t) = outer g(inner t) + offset; None if there is none."""
        return self.curve.respelled

    @property
    def spelling(self) -> Spelling:
        """How other programs write the activation."""
        return self.curve.spelling

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which `numpy_code` and `c_code` can write the activation."""
        texts = {"NumPy": self.curve.spelling.numpy, "C": self.curve.spelling.c}
        return tuple(language for language, text in texts.items() if text is not None)

    def numpy_code(self) -> str:
        """Return the activation as an expression of NumPy in the array T."""
        return self._spelled(self.curve.spelling.numpy, "NumPy")

    def c_code(self, real: str, suffix: str) -> tuple[str, str]:
        """Return C99 expressions for ``s``, from ``t``, and for the unit's output, from ``s``."""
        return "t", self._spelled(self.curve.spelling.c, "C").format(real=real, f=suffix)

    def _spelled(self, text: str | None, language: str) -> str:
        if text is None:
            raise self.not_written(f"in {language}")
        return text


_ALIASES = {"abs": "absolute", "logistic": "sigmoid", "swish": "silu"}
_HOMOGENEOUS = {"relu": (1, 1.0, 0.0), "absolute": (1, 1.0, 1.0), "quadratic": (2, 1.0, 1.0)}
_KNOWN = {name: CurvedActivation(name, 0, 0.0, 0.0, curve) for name, curve in CURVES.items()}
_RELU = Activation("relu", *_HOMOGENEOUS["relu"])
_REGISTERED: dict[str, CurvedActivation] = {}


def activation_names(*, curved: bool = False, built_in: bool = False) -> tuple[str, ...]:
    """Return the names of all activations, without parameters; registered ones last, and not if `built_in` or `curved`."""
    if curved:
        return tuple(_KNOWN)
    registered = () if built_in else tuple(_REGISTERED)
    return ("relu", "leaky-relu", "power", "absolute", "quadratic", *_KNOWN, *registered)


def parse_activation(text: str | Activation) -> Activation:
    """Make an `Activation` from its name.

    Names are ``"relu"``, ``"leaky-relu:SLOPE"``, ``"power:P"``, ``"absolute"``, ``"quadratic"``, ``"tanh"``, ``"sigmoid"``,
    ``"softplus"``, ``"gelu"``, ``"silu"``, ``"elu"``, and those of `register_activation`.
    """
    if isinstance(text, Activation):
        return text
    text = str(text)
    name, _, argument = text[: LONGEST_NAME + 1].partition(":")
    name = _ALIASES.get(name, name)
    if name in _HOMOGENEOUS and not argument:
        return Activation(name, *_HOMOGENEOUS[name])
    curved = _KNOWN | _REGISTERED
    if name in curved and not argument:
        return curved[name]
    is_short = len(text) <= LONGEST_NAME
    if name == "leaky-relu" and is_short and _is_number(argument) and abs(float(argument)) != 1:
        return Activation(f"leaky-relu:{float(argument)!r}", 1, 1.0, -float(argument))
    if name == "power" and is_short and _is_number(argument) and float(argument) >= 1:
        degree = int(float(argument)) if float(argument).is_integer() else float(argument)
        if degree > LARGEST_DEGREE:
            raise BadInputError(f"activation {text!r}; powers up to {LARGEST_DEGREE} are known")
        return Activation("relu" if degree == 1 else f"power:{degree}", degree, 1.0, 0.0)
    shown = repr(text) if is_short else f"{text[:LONGEST_NAME]!r}... ({len(text)} characters)"
    smooth = ", ".join(map(repr, _KNOWN))
    near = get_close_matches(name.lower().replace("_", "-"), [*_HOMOGENEOUS, *_ALIASES, *curved], 1)
    hint = f" (did you mean {near[0]!r}?)" if near and not argument else ""
    raise BadInputError(
        f"unknown activation {shown}{hint}; known are 'relu', 'leaky-relu:SLOPE' (SLOPE not 1 or -1), 'power:P' "
        f"(P at least 1), 'absolute', 'quadratic' and the curved {smooth}; "
        "planted.register_activation adds one of your own"
    )


def activation_of_module(kind: str, options: Mapping[str, Any]) -> str | None:
    """Return the name of the activation that a module of torch.nn is, given its class and its attributes; None if unknown.

    Examples
    --------
    >>> activation_of_module("LeakyReLU", {"negative_slope": 0.1}), activation_of_module("ELU", {"alpha": 2.0})
    ('leaky-relu:0.1', None)
    """
    if kind == "LeakyReLU":
        return f"leaky-relu:{options['negative_slope']}"
    for activation in (_RELU, *_KNOWN.values()):
        module = activation.spelling.torch
        if module is not None and module[0] == kind:
            # A threshold of 20, PyTorch's own, changes softplus by 2e-9 beyond it.
            same = [options.get(key) == value or key == "threshold" for key, value in module[1].items()]
            return activation.name if all(same) and options.get("threshold", 20) >= 20 else None
    return None


def activation_of_sklearn(name: str) -> str | None:
    """Return the activation behind a name of sklearn.neural_network; None if there is none.

    Examples
    --------
    >>> activation_of_sklearn("logistic"), activation_of_sklearn("identity")
    ('sigmoid', None)
    """
    known = {each.spelling.sklearn: each.name for each in (_RELU, *_KNOWN.values())}
    return known.get(name)


SLOPE_UNKNOWN = "leaky-relu"  # as a request: leaky units whose slope is to be found
UNKNOWN = "auto"  # as a request: an activation that is to be found


def requested_activation(text: str | Activation) -> str:
    """Return the name of an activation that is asked for: one that exists, leaky units of unknown slope, or "auto".

    Examples
    --------
    >>> requested_activation("leaky-relu"), requested_activation("power:1")
    ('leaky-relu', 'relu')
    """
    is_request = isinstance(text, str) and text in (SLOPE_UNKNOWN, UNKNOWN)
    return str(text) if is_request else parse_activation(text).name


def is_unknown(text: str | Activation) -> bool:
    """Whether a request is for an activation that is to be found."""
    return isinstance(text, str) and text == UNKNOWN


def is_slope_unknown(text: str | Activation) -> bool:
    """Whether a request is for leaky units whose slope is to be found."""
    return isinstance(text, str) and text == SLOPE_UNKNOWN


def is_rectifier(text: str | Activation) -> bool:
    """Whether a request is for ReLU units."""
    return not is_slope_unknown(text) and parse_activation(text) == _RELU


def register_activation(
    name: str,
    function: Callable[[Any], Any],
    derivative: Callable[[Any], Any],
    inverse: Callable[[Any], Any] | None = None,
) -> Activation:
    """Add an activation under a name, which networks, files and `planted.recover` then know.

    The derivative is compared with differences of the function, and the symmetry ``f(-t) = sign f(t) + constant + slope t``
    is looked for, on [-40, 40]. With an inverse the activation is rectified: the function for t > 0, where it must rise from
    zero, and zero elsewhere; it is looked at on (0, 6]. Such units are also recovered by ``"joint-diagonalisation"``
    (appendix 9.1 of [BJW18]_). A file of a network holds the name alone: whoever loads it registers the function first.

    Parameters
    ----------
    name : str
        Letters, digits, ``-`` and ``_``; none of the names that exist. Registering a name again replaces its function.
    function, derivative : callable
        The activation and its derivative, elementwise on arrays.
    inverse : callable, optional
        The inverse of the function for t > 0, of a rectified activation.

    Returns
    -------
    Activation
        The activation, which may be used in place of its name.

    Examples
    --------
    >>> import planted
    >>> sine = planted.register_activation("sine", np.sin, np.cos)
    >>> planted.TwoLayerNetwork(W=[[2.0]], b=[0.5], A=[[1.0]], activation="sine").activation.mirror.sign
    -1.0
    >>> rising = planted.register_activation("rectified-expm1", np.expm1, np.exp, inverse=np.log1p)
    >>> rising(np.array([-1.0, 0.0, 1.0])).round(3)
    array([0.   , 0.   , 1.718])
    """
    is_name = isinstance(name, str) and name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    if not is_name or len(name) > LONGEST_NAME:
        raise BadInputError(f"name={name!r}; expected letters, digits, '-' and '_'")
    if name in _ALIASES or name in _HOMOGENEOUS or name in _KNOWN or name in ("leaky-relu", "power", "auto"):
        raise BadInputError(f"name={name!r} is the name of an activation that exists")
    curve, fault = measure_curve(function, derivative, inverse)
    if curve is None:
        raise BadInputError(f"activation {name!r}: {fault}")
    _REGISTERED[name] = CurvedActivation(name, 0, 0.0, 0.0, curve)
    return _REGISTERED[name]


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
