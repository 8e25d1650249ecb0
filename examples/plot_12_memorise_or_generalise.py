"""
Every label reproduced: learnt, or learnt by heart?
===================================================

``planted.memorize`` finds a quadratic network that reproduces every label it is given. Here the labels come
from a teacher with three units. Two solvers memorise the same samples perfectly. Do both know the teacher?
"""

# %%
# One teacher, two ways to memorise
# ---------------------------------
# ``direct`` takes the solution of least norm, with as many units as there are inputs; ``low-rank`` adds one
# unit at a time and stops as soon as the labels are reproduced.

import matplotlib.pyplot as plt
import numpy as np

import planted

d = 30
rng = np.random.default_rng(0)
teacher = planted.TwoLayerNetwork(
    W=rng.standard_normal((3, d)) / np.sqrt(d), A=[[1.0, 1.0, -1.0]], activation="quadratic"
)
fresh = rng.standard_normal((4000, d))
level = np.mean(teacher(fresh) ** 2)

sizes = [45, 60, 75, 90, 105, 120, 150, 200, 300, 450]
losses, errors = {}, {}
for n in sizes:
    X = rng.standard_normal((n, d))
    for solver in ("direct", "low-rank"):
        memory = planted.memorize(X, teacher(X)[:, 0], solver=solver, random_state=0)
        error = np.mean((memory.network(fresh) - teacher(fresh)) ** 2) / level
        losses.setdefault(solver, []).append(memory.loss)
        errors.setdefault(solver, []).append(error)
        print(
            f"{solver:9s} {n:4d} samples: {memory.outcome.name}, loss {memory.loss:.0e}, "
            f"{memory.network.n_hidden:2d} units, error on new inputs {error:.1e}"
        )

# %%
# The loss does not tell them apart
# ---------------------------------
# Both reproduce the labels. On new inputs ``direct`` knows little until the samples fill the space of
# quadratic forms, and ``low-rank`` has the teacher once the samples clearly outnumber the free weights of
# three units (the dashed line). Below that, the small network is wrong on new inputs however small its loss.
# The number of samples decides, not the fit.

unknowns = 3 * d - 3
full = d * (d + 1) // 2
print(f"free weights of three units: {unknowns}; dimensions of quadratic forms: {full}")
print(
    "first size from which low-rank is right:",
    next(n for n, e in zip(sizes, errors["low-rank"], strict=True) if e < 1e-9),
)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharex=True)
for solver in losses:
    left.semilogy(sizes, losses[solver], "o-", ms=4, label=solver)
    right.semilogy(sizes, errors[solver], "o-", ms=4, label=solver)
left.set(xlabel="samples", ylabel="loss on the labels given", title="Memorised", ylim=(1e-33, 1e2))
right.set(xlabel="samples", ylabel="relative error on new inputs", title="Generalised?", ylim=(1e-33, 1e2))
for axes in (left, right):
    axes.axvline(unknowns, color="grey", ls="--", lw=0.8)
    axes.legend()
plt.show()

# %%
# Labels without a teacher
# ------------------------
# Random labels are memorised just as well, and of course teach nothing.

X = rng.standard_normal((200, d))
memory = planted.memorize(X, rng.standard_normal(200), random_state=0)
print(memory.outcome.name, f"loss {memory.loss:.0e};", memory.outcome.advice)
