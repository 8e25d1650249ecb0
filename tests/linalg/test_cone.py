"""Extreme rays of a cone, and single units by integer programs."""

import numpy as np
from scipy import linalg

from planted.linalg import ProgramStatus, column_space, extreme_ray, unit_in_subspace
from planted.simulate import dataset


def world(n=60, d=5, k=3, m=3, seed=0, **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


def columns_of(data):
    """The activations, columns of unit length."""
    H = np.maximum(data.X @ data.network.W.T, 0.0)
    return H / np.linalg.norm(H, axis=0)


# --- rays --------------------------------------------------------------------------------------------------------


def test_when_every_unit_is_alone_somewhere_the_units_are_the_only_rays():
    data = world(n=200)
    H, Q = columns_of(data), column_space(data.Y)[0]
    on = (data.X @ data.network.W.T > 0).astype(int)
    assert (on[on.sum(axis=1) == 1].sum(axis=0) > 0).all(), "every unit is alone on some sample"
    rng = np.random.default_rng(5)
    hit = set()
    for _ in range(20):
        ray = extreme_ray(Q, rng.standard_normal(3))
        assert ray.status is ProgramStatus.OPTIMAL
        h = Q @ ray.x
        cosines = H.T @ h / np.linalg.norm(h)
        assert cosines.max() > 1 - 1e-10
        hit.add(int(np.argmax(cosines)))
    assert hit == {0, 1, 2}


def test_a_space_without_non_negative_vectors_has_no_ray():
    Q = linalg.orth(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert extreme_ray(Q, np.array([1.0, -0.5])).status is ProgramStatus.INFEASIBLE


def test_an_integer_program_finds_a_unit_other_than_the_known_ones():
    data = world(n=30)
    H, Q = columns_of(data), column_space(data.Y)[0]
    known = Q.T @ H[:, :2]
    functional = linalg.null_space(known.T)[:, 0]
    for sign in (1.0, -1.0):
        answer = unit_in_subspace(data.X, Q * np.sqrt(30), sign * functional)
        if answer.status is ProgramStatus.OPTIMAL:
            break
    v = answer.x[:5]
    h = np.maximum(data.X @ v, 0.0)
    assert H[:, 2] @ h / np.linalg.norm(h) > 1 - 1e-6  # the solver's tolerance
