"""Random streams: one for each purpose, so that no two purposes ever share their numbers.

A seed given by the user is turned into independent generators with `numpy.random.SeedSequence`. Data and
solvers live in different domains of the spawn key, so a data set simulated with ``random_state=0`` and a
solver started with ``random_state=0`` still draw unrelated numbers. Streams are addressed by position: asking
for more of them leaves the earlier ones as they were. Nothing here is global, and no `SeedSequence` handed in
is changed. A `numpy.random.Generator` handed in is advanced by one draw for each call.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Seed
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["copy_stream", "data_streams", "seed_entropy", "seed_root", "solver_streams"]

# Spawn keys of the two domains: the ASCII codes of "data" and "solv", far from the small numbers that
# `SeedSequence.spawn` hands out, so that children spawned by a user cannot coincide with them.
DATA_DOMAIN = 0x64617461
SOLVER_DOMAIN = 0x736F6C76


def data_streams(seed: Seed, n: int) -> tuple[np.random.Generator, ...]:
    """Return ``n`` independent generators for simulating data.

    `seed`: where the randomness comes from; None takes fresh entropy from the system.
    """
    return _spawn_streams(seed, n, DATA_DOMAIN)


def solver_streams(seed: Seed, n: int) -> tuple[np.random.Generator, ...]:
    """Return ``n`` independent generators for a solver, unrelated to the data streams of the same seed.

    `seed`: where the randomness comes from; None takes fresh entropy from the system.
    """
    return _spawn_streams(seed, n, SOLVER_DOMAIN)


def seed_entropy(seed: Seed) -> int | None:
    """Return the integer that makes the same streams again, for the provenance of a result.

    The result: none if no integer would do: no seed was given, a generator in an unknown state, or a seed sequence
    that was itself spawned from another.
    """
    _check_seed(seed)
    if isinstance(seed, np.random.SeedSequence):
        return seed.entropy if isinstance(seed.entropy, int) and not seed.spawn_key else None
    if seed is None or isinstance(seed, np.random.Generator):
        return None
    return int(seed)


def seed_root(seed: Seed) -> np.random.SeedSequence:
    """Return a seed sequence that gives the streams of a seed, again and again.

    A generator is advanced once, here; the streams made from it directly would be others each time.

    Examples
    --------
    >>> root = seed_root(np.random.default_rng(0))
    >>> bool(solver_streams(root, 2)[1].random() == solver_streams(root, 2)[1].random())
    True
    """
    _check_seed(seed)
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        # 128 bits, as many as SeedSequence takes from the system when it is given nothing.
        return np.random.SeedSequence([int(word) for word in seed.integers(0, 2**32, size=4)])
    return np.random.SeedSequence(None if seed is None else int(seed))


def copy_stream(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator in the same state, independent of the first."""
    twin = np.random.default_rng(0)
    twin.bit_generator.state = rng.bit_generator.state
    return twin


def _spawn_streams(seed: Seed, n: int, domain: int) -> tuple[np.random.Generator, ...]:
    """Spawn ``n`` generators below the key ``domain``."""
    if n < 0:
        raise BadInputError(f"n={n} streams were asked for; expected zero or more")
    parent = seed_root(seed)
    root = np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, domain))
    return tuple(np.random.default_rng(child) for child in root.spawn(n))


def _check_seed(seed: object) -> None:
    """Refuse what is no seed."""
    if seed is None or isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer):
        raise BadInputTypeError(
            f"random_state is of type {type(seed).__name__}; expected an integer, None, "
            "a numpy.random.Generator or a numpy.random.SeedSequence"
        )
    if seed < 0:
        raise BadInputError(f"random_state={seed} is negative; expected an integer of zero or more")
