"""Data sets of a planted world, and the number of samples below which none can be solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planted._threads import one_thread_inside
from planted._typing import Array, Seed
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.simulate._inputs import resolve_law
from planted.simulate._laws import InputLaw
from planted.simulate._noises import Noise, resolve_noise
from planted.simulate._roles import check_size, world_streams
from planted.simulate._teachers import TeacherPlan, draw_teacher

__all__ = ["Dataset", "dataset", "information_limit"]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples of a planted network, with everything that made them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    Y : ndarray of shape (n, m)
        Outputs, noise included.
    Y_clean : ndarray of shape (n, m)
        Outputs of the network, ``network(X)``.
    network : TwoLayerNetwork
        The planted network.
    law : InputLaw
        The law of the inputs; `inputs` draws more from it.
    noise : Noise
        The noise.
    """

    X: Array
    Y: Array
    Y_clean: Array
    network: TwoLayerNetwork
    law: InputLaw
    noise: Noise


@one_thread_inside
def dataset(
    n_samples: int,
    network: TwoLayerNetwork | None = None,
    *,
    law: str | InputLaw = "gaussian",
    noise: float | str | Noise = 0.0,
    random_state: Seed = None,
    n_features: int | None = None,
    n_hidden: int | None = None,
    n_outputs: int | None = None,
    **teacher_options: Any,
) -> Dataset:
    """Draw samples of a network; the network is drawn too if none is given.

    Parameters
    ----------
    n_samples : int
        Number of samples, n.
    network : TwoLayerNetwork, optional
        The network that makes the outputs; drawn with `teacher` if omitted.
    law : str or InputLaw, default="gaussian"
        Law of the inputs, as in `inputs`.
    noise : float, str or Noise, default=0
        Standard deviation of normal noise, or a name (gaussian, student-t, cauchy, sparse, heteroscedastic),
        or a noise object.
    random_state : int, SeedSequence, Generator or None
        Seed; inputs, teacher and noise have streams of their own.
    n_features, n_hidden, n_outputs : int, optional
        Shape of the network to draw; ``n_outputs`` is 1 if omitted.
    **teacher_options : Any
        Further options of `teacher`, such as ``activity=(0.3, 0.7)``.

    Returns
    -------
    Dataset
        Inputs, outputs, and what made them.

    Examples
    --------
    >>> data = dataset(50, n_features=4, n_hidden=2, noise=0.1, random_state=0)
    >>> data.Y.shape, bool((data.Y_clean == data.network(data.X)).all())
    ((50, 1), True)
    """
    rows = check_size("n_samples", n_samples)
    resolved_noise = resolve_noise(noise)
    width = _shape_given(network, n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs)
    if network is not None and teacher_options:
        option = next(iter(teacher_options))
        raise BadInputError(f"option {option!r} is for drawing a network, but one was given")
    plan = TeacherPlan.from_options(teacher_options)
    streams = world_streams(random_state)
    resolved_law = resolve_law(law, width, rng=streams.law, options={})
    if network is None:
        units = check_size("n_hidden", n_hidden)
        targets = 1 if n_outputs is None else n_outputs
        network = draw_teacher(plan, units, targets, law=resolved_law, streams=streams)
    X = resolved_law.sample(rows, streams.inputs)
    clean = network(X)
    errors = resolved_noise.sample(X, (rows, network.n_outputs), streams.noise)
    return Dataset(X, clean + errors, clean, network, resolved_law, resolved_noise)


def information_limit(n_features: int, n_hidden: int, n_outputs: int) -> float:
    """Return the number of samples at which there are as many equations as unknowns.

    A network with d inputs, k hidden units with biases, and m outputs without offset has ``k(d+1) + mk - k``
    degrees of freedom, since the scale of each unit is a gauge; a sample brings m equations.

    Parameters
    ----------
    n_features, n_hidden, n_outputs : int
        Inputs d, hidden units k and outputs m.

    Returns
    -------
    float
        ``(k(d+1) + mk - k) / m``.

    Examples
    --------
    >>> information_limit(10, 5, 5)
    15.0
    """
    d, k = check_size("n_features", n_features), check_size("n_hidden", n_hidden)
    m = check_size("n_outputs", n_outputs)
    return (k * (d + 1) + m * k - k) / m


def _shape_given(network: TwoLayerNetwork | None, **sizes: int | None) -> int:
    """Return the number of inputs; refuse sizes that are missing or contradict the network."""
    for name, size in sizes.items():
        if network is None and size is None and name != "n_outputs":
            raise BadInputError(f"{name} is missing; give a network, or n_features and n_hidden to draw one")
        if network is not None and size is not None and size != getattr(network, name):
            raise BadInputError(f"{name}={size} but the network has {name}={getattr(network, name)}")
    return check_size("n_features", network.n_features if network is not None else sizes["n_features"])
