"""Teachers: random two-layer networks to be found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Array, Seed
from planted.networks import Activation, TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError
from planted.simulate._inputs import resolve_law
from planted.simulate._laws import InputLaw
from planted.simulate._roles import WorldStreams, build_named, check_number, check_size, world_streams
from planted.simulate._weights import (
    Conditioned,
    GaussianEntries,
    Magnitudes,
    NearParallel,
    Orthonormal,
    UnitRows,
    WeightDesign,
)

__all__ = ["TeacherPlan", "draw_teacher", "perturb_teacher", "teacher"]

# Rows on which the activity of a unit is measured: a fraction of one half is then known to 0.0035.
POOL_SIZE = 20_000

_HIDDEN: Mapping[str, type] = {
    "random": UnitRows,
    "orthonormal": Orthonormal,
    "conditioned": Conditioned,
    "near-parallel": NearParallel,
}
_OUTPUTS: Mapping[str, type] = {
    "random": GaussianEntries,
    "orthonormal": Orthonormal,
    "conditioned": Conditioned,
    "magnitudes": Magnitudes,
}


@one_thread_inside
def teacher(
    n_features: int,
    n_hidden: int,
    n_outputs: int = 1,
    *,
    hidden: str | WeightDesign = "random",
    outputs: str | WeightDesign = "random",
    signs: str = "mixed",
    bias: tuple[float, float] | None = None,
    activity: tuple[float, float] | None = None,
    law: str | InputLaw = "gaussian",
    activation: str | Activation = "relu",
    affine: bool | float = False,
    random_state: Seed = None,
    **options: float,
) -> TwoLayerNetwork:
    """Draw a network to be found again.

    Parameters
    ----------
    n_features, n_hidden, n_outputs : int
        Inputs d, hidden units k and outputs m.
    hidden : str or WeightDesign, default="random"
        Hidden weights: ``"random"`` unit rows, ``"orthonormal"`` rows (needs k <= d), ``"conditioned"`` or
        ``"near-parallel"`` pairs of units; or an object, such as ``Conditioned(50)``.
    outputs : str or WeightDesign, default="random"
        Output weights: ``"random"`` standard normal entries, ``"orthonormal"``, ``"conditioned"`` or
        ``"magnitudes"`` uniform in [0.5, 1.5]; or an object.
    signs : {"mixed", "same"}, default="mixed"
        Whether output weights keep their random signs or are all made positive.
    bias : (low, high), optional
        Biases uniform in that range; zero if omitted.
    activity : (low, high), optional
        Instead of ``bias``: every unit is active on a fraction of the law's inputs drawn uniformly from that
        range, measured on 20,000 rows drawn for the purpose.
    law : str or InputLaw, default="gaussian"
        The law to which ``activity`` refers.
    activation : str or Activation, default="relu"
        Activation of the hidden units.
    affine : bool or float, default=False
        Whether the teacher has a linear part B and an offset c, with normal entries. A number is their size: at 1 a row
        of B is about as long as the output weight of one unit.
    random_state : int, SeedSequence, Generator or None
        Seed.
    **options : float
        Options of the designs given by name: ``condition`` for ``"conditioned"``, ``angle`` in degrees for
        ``"near-parallel"``, ``low`` and ``high`` for ``"magnitudes"``.

    Returns
    -------
    TwoLayerNetwork
        The teacher, with offset c = 0 and no linear part unless ``affine``.

    Examples
    --------
    >>> net = teacher(6, 4, 4, hidden="conditioned", condition=20, activity=(0.3, 0.7), random_state=0)
    >>> print(round(float(np.linalg.cond(net.W)), 9))
    20.0
    """
    plan = TeacherPlan(hidden, outputs, signs, bias, activity, activation, affine, options)
    streams = world_streams(random_state)
    resolved = resolve_law(law, n_features, rng=streams.law, options={})
    return draw_teacher(plan, n_hidden, n_outputs, law=resolved, streams=streams)


def perturb_teacher(network: TwoLayerNetwork, scale: float, *, random_state: Seed = None) -> TwoLayerNetwork:
    """Add independent normal noise to the hidden weights, as smoothed analysis does.

    Parameters
    ----------
    network : TwoLayerNetwork
        The network to perturb; it is not changed.
    scale : float
        Standard deviation of the noise on every entry of W: rho in Theorem 9 of [GKLW19]_, tau/sqrt(d) in
        the smoothed analysis of [ATV21]_.
    random_state : int, SeedSequence, Generator or None
        Seed.

    Returns
    -------
    TwoLayerNetwork
        The same network with perturbed hidden weights; biases and output weights are kept.

    Examples
    --------
    >>> net = TwoLayerNetwork(W=[[1.0, 0.0], [1.0, 0.0]], A=[[1.0, 1.0]])
    >>> perturbed = perturb_teacher(net, 0.1, random_state=0)
    >>> print(np.linalg.matrix_rank(net.W), np.linalg.matrix_rank(perturbed.W))
    1 2
    """
    std = check_number("scale", scale)
    rng = world_streams(random_state).perturbation
    weights = network.W + std * rng.standard_normal(network.W.shape)
    return replace(network, W=weights)


@dataclass(frozen=True)
class TeacherPlan:
    """How to draw a teacher; the fields are the parameters of `teacher`, ``options`` those of its designs."""

    hidden: str | WeightDesign = "random"
    outputs: str | WeightDesign = "random"
    signs: str = "mixed"
    bias: tuple[float, float] | None = None
    activity: tuple[float, float] | None = None
    activation: str | Activation = "relu"
    affine: bool | float = False
    options: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.signs not in ("mixed", "same"):
            raise BadInputError(f"unknown signs {self.signs!r}; known are 'mixed', 'same'")
        if self.bias is not None and self.activity is not None:
            raise BadInputError("bias and activity both place the biases; give one of them")
        known = [*_options_of(self.hidden, _HIDDEN), *_options_of(self.outputs, _OUTPUTS)]
        for option in self.options:
            if option not in known:
                expected = ", ".join(map(repr, known)) or "no options"
                raise BadInputError(
                    f"unknown option {option!r} of a teacher with hidden={self.hidden!r} and "
                    f"outputs={self.outputs!r}; these designs take {expected}"
                )

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> TeacherPlan:
        """Sort the keyword options of a teacher into a plan."""
        own = {item.name for item in fields(TeacherPlan)} - {"options"}
        plan = {name: options[name] for name in own & set(options)}
        return TeacherPlan(**plan, options={name: options[name] for name in options if name not in own})


def draw_teacher(
    plan: TeacherPlan, n_hidden: int, n_outputs: int, *, law: InputLaw, streams: WorldStreams
) -> TwoLayerNetwork:
    """Draw the teacher of a plan, with the inputs of ``law``, from the streams of a world."""
    k, m = check_size("n_hidden", n_hidden), check_size("n_outputs", n_outputs)
    hidden = _resolve_design("hidden", plan.hidden, _HIDDEN, options=plan.options)
    if isinstance(hidden, Orthonormal) and k > law.n_features:
        raise BadInputError(
            f"n_hidden={k} orthonormal rows do not fit in n_features={law.n_features} dimensions"
        )
    weights = hidden.draw((k, law.n_features), streams.hidden)
    outputs = _resolve_design("outputs", plan.outputs, _OUTPUTS, options=plan.options)
    output_weights = outputs.draw((m, k), streams.outputs)
    if plan.signs == "same":
        output_weights = _make_positive(output_weights, outputs)
    biases = np.zeros(k)
    if plan.bias is not None:
        low, high = _check_range("bias", plan.bias)
        biases = streams.biases.uniform(low, high, k)
    elif plan.activity is not None:
        low, high = _check_range("activity", plan.activity)
        if low <= 0.0 or high >= 1.0:
            raise BadInputError(
                f"activity=({low:g}, {high:g}); expected fractions between 0 and 1, both excluded"
            )
        fractions = streams.biases.uniform(low, high, k)
        biases = _place_biases(weights, fractions, law.sample(POOL_SIZE, streams.pool))
    network = TwoLayerNetwork(weights, biases, output_weights, activation=plan.activation)
    size = check_number("affine", float(plan.affine))
    if not size:
        return network
    # The rows of B are as long as the output weights of one unit are on average.
    scale = size * np.sqrt((output_weights**2).mean() / law.n_features)
    drawn = streams.linear.standard_normal((m, law.n_features + 1))
    return replace(network, B=scale * drawn[:, :-1], c=scale * drawn[:, -1])


def _options_of(design: object, table: Mapping[str, type]) -> list[str]:
    """Return the options that a design given by name takes; one given as an object takes none."""
    return (
        [item.name for item in fields(table[design])] if isinstance(design, str) and design in table else []
    )


def _resolve_design(
    kind: str, design: str | WeightDesign, table: Mapping[str, type], *, options: Mapping[str, float]
) -> WeightDesign:
    """Return the design object that ``design`` stands for, with those options that are its own."""
    if isinstance(design, WeightDesign) and not isinstance(design, type):
        return design
    known = _options_of(design, table)
    own = {name: value for name, value in options.items() if name in known}
    named: WeightDesign = build_named(kind, design, table, options=own)
    return named


def _make_positive(output_weights: Array, design: WeightDesign) -> Array:
    """Take absolute values, unless that would break what the design promises."""
    if isinstance(design, Orthonormal | Conditioned) and min(output_weights.shape) > 1:
        m, k = output_weights.shape
        raise BadInputError(
            f"signs='same' cannot keep a {m} x {k} matrix orthonormal or conditioned; "
            "use outputs='random' or 'magnitudes'"
        )
    return np.abs(output_weights)


def _check_range(name: str, bounds: object) -> tuple[float, float]:
    """Return a pair of finite numbers, the lower one first."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise BadInputTypeError(f"{name}={bounds!r}; expected a pair (low, high)")
    low = check_number(f"{name}[0]", bounds[0], least=-np.inf)
    return low, check_number(f"{name}[1]", bounds[1], least=low)


def _place_biases(weights: Array, fractions: Array, pool: Array) -> Array:
    """Return biases that put unit i on for the fraction ``fractions[i]`` of the rows of ``pool``.

    The hyperplane lies midway between two rows. A law with atoms need not allow every fraction; one that is
    missed by more than the pool's own uncertainty, 4 binomial standard errors, is refused.
    """
    sorted_projections = np.sort(pool @ weights.T, axis=0)
    n = len(pool)
    n_off = np.clip(np.rint(n * (1.0 - fractions)).astype(int), 1, n - 1)
    units = np.arange(len(weights))
    biases = -(sorted_projections[n_off - 1, units] + sorted_projections[n_off, units]) / 2
    attained = (sorted_projections + biases > 0).mean(axis=0)
    missed = np.abs(attained - fractions) - 4 * np.sqrt(fractions * (1 - fractions) / n) - 1.0 / n
    worst = int(np.argmax(missed))
    if missed[worst] > 0:
        raise BadInputError(
            f"unit {worst} cannot be active on a fraction {fractions[worst]:.3f} of these inputs, "
            f"the nearest tried is {attained[worst]:.3f}: the law has atoms; choose another law, "
            "hidden weights or random_state"
        )
    return np.asarray(biases, dtype=np.float64)
