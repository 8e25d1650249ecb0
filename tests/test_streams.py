"""Random streams: reproducible, independent by purpose, and without side effects."""

from __future__ import annotations

import numpy as np
import pytest

from planted._streams import data_streams, seed_entropy, solver_streams
from planted.outcomes import BadInputError, BadInputTypeError


def draws(streams):
    return [tuple(stream.integers(0, 2**63, size=8)) for stream in streams]


@pytest.mark.parametrize("streams", [data_streams, solver_streams])
@pytest.mark.parametrize("seed", [0, 12345678901234567890, np.int64(3), np.random.SeedSequence(5)])
def test_equal_seeds_give_equal_bits(streams, seed):
    assert draws(streams(seed, 3)) == draws(streams(seed, 3))


@pytest.mark.parametrize("seed", [0, 1, 2**40, np.random.SeedSequence(0)])
def test_data_and_solver_streams_of_one_seed_never_coincide(seed):
    everything = draws(data_streams(seed, 20)) + draws(solver_streams(seed, 20))
    assert len(set(everything)) == 40


def test_streams_keep_their_place_when_more_are_asked_for():
    assert draws(data_streams(4, 2)) == draws(data_streams(4, 7))[:2]


def test_different_seeds_give_different_streams():
    assert len(set(draws([data_streams(seed, 1)[0] for seed in range(50)]))) == 50


def test_no_seed_is_fresh_every_time():
    assert draws(data_streams(None, 1)) != draws(data_streams(None, 1))


def test_a_seed_sequence_is_not_changed_and_its_children_differ():
    sequence = np.random.SeedSequence(9)
    data_streams(sequence, 3)
    assert sequence.n_children_spawned == 0
    children = sequence.spawn(3)
    streams = [data_streams(child, 1)[0] for child in children]
    own = [np.random.default_rng(child) for child in children]
    assert len(set(draws([*streams, *own, *data_streams(sequence, 3)]))) == 9


def test_an_integer_and_its_seed_sequence_are_the_same_seed():
    assert draws(data_streams(6, 2)) == draws(data_streams(np.random.SeedSequence(6), 2))


def test_a_generator_gives_reproducible_and_ever_new_streams():
    rng, again = np.random.default_rng(1), np.random.default_rng(1)
    first, second = draws(data_streams(rng, 2)), draws(data_streams(rng, 2))
    assert first == draws(data_streams(again, 2))
    assert not set(first) & set(second)


def test_data_and_solver_streams_differ_for_generators_in_one_state():
    data = draws(data_streams(np.random.default_rng(1), 5))
    assert not set(data) & set(draws(solver_streams(np.random.default_rng(1), 5)))


def test_the_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the point is that nobody touches it
    data_streams(None, 3)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_entropy_is_the_integer_that_makes_the_streams_again():
    for seed in (0, 2**70, np.random.SeedSequence(8), np.random.SeedSequence()):
        assert draws(data_streams(seed_entropy(seed), 2)) == draws(data_streams(seed, 2))


@pytest.mark.parametrize(
    "seed",
    [None, np.random.default_rng(0), np.random.SeedSequence(1).spawn(1)[0], np.random.SeedSequence([1, 2])],
)
def test_entropy_is_none_where_no_integer_would_do(seed):
    assert seed_entropy(seed) is None


@pytest.mark.parametrize("function", [lambda seed: data_streams(seed, 1), seed_entropy])
def test_bad_seeds_are_refused(function):
    with pytest.raises(BadInputError, match=r"random_state=-1 is negative"):
        function(-1)
    for seed in ("0", 1.0, True, np.bool_(False), [1]):
        with pytest.raises(BadInputTypeError, match=f"random_state is of type {type(seed).__name__}"):
            function(seed)


def test_a_negative_number_of_streams_is_refused():
    with pytest.raises(BadInputError, match="n=-2 streams"):
        data_streams(0, -2)
