"""
Spurious minima, seen
=====================

Gradient descent on the squared error can end at a point from which every direction leads up, and which is not the planted
network. Landscape design [GLM18]_ changes the objective so that this cannot happen. Both landscapes can be looked at.
"""

# %%
# The same start on two landscapes
# --------------------------------
# Sixteen orthonormal units, all output weights one, exact expectations over normal inputs: no sampling error
# is involved. From the same random rows the squared risk ends above zero, the designed objective f' at zero.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import planted
from planted.diagnostics import classify_point, landscape_slice
from planted.methods.landscape._descent import descend, random_rows
from planted.methods.landscape.objectives import population_objective

d = 16
truth = planted.TwoLayerNetwork(np.eye(d), A=np.ones((1, d)))
risk = population_objective("l2", truth.W, truth.A[0])
designed = population_objective("f'", truth.W, truth.A[0])
for seed in range(20):
    start = random_rows(d, d, np.random.default_rng(seed))
    stuck = descend(risk, start, np.ones(d))
    if stuck.value > 1e-6:
        break
free = descend(designed, start, np.ones(d))
print(f"seed {seed}: squared risk ends at {stuck.value:.4f}, f' at {free.value:.1e}")

# %%
# Is it a minimum?
# ----------------
# The gradient vanishes and no eigenvalue of the whole Hessian is negative; descending from the truth ends
# lower. Some rows point away from the unit they are nearest to: since max(t, 0) - max(-t, 0) = t, the others
# can make up for most of a wrong sign by leaning a little, and none of them can turn back alone. The designed
# objective is even in every row and cannot make this mistake; signs are read off the linear part of y
# afterwards.

point = classify_point((stuck.W, stuck.a), risk, truth=truth)
print(
    f"{point.kind}: gradient {point.gradient_norm:.1e}, smallest eigenvalue {point.smallest_eigenvalue:.3f}"
)
cosines = stuck.W @ truth.W.T
order = linear_sum_assignment(-np.abs(cosines))[1]
nearest = cosines[np.arange(d), order]
print(f"{(nearest < 0).sum()} of {d} rows point away from their unit")
print(
    "the designed landscape at the end of its own descent:",
    classify_point((free.W, free.a), designed, truth=truth).kind,
)

# %%
# What lies between
# -----------------
# Values on the segment from the stuck network to the planted one, units matched, and on the plane through
# both and the start. To f' a row and its negative are the same, so there the segment ends at the truth up to
# signs.

signs = np.sign(nearest)[:, None]
lines = {
    "squared risk": landscape_slice((stuck.W, stuck.a), risk, [(truth.W[order], np.ones(d))]),
    "f'": landscape_slice((stuck.W, stuck.a), designed, [(signs * truth.W[order], np.ones(d))]),
}
plane = landscape_slice(
    (stuck.W, stuck.a), risk, [(truth.W[order], np.ones(d)), (start, np.ones(d))], span=(-0.3, 1.3), steps=33
)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, line in lines.items():
    axes[0].plot(line.positions, line.values / line.values.max(), label=name)
    print(f"{name}: {line.values[10]:.3g} at the stuck network, rises by {line.barrier:.3g} on the way")
axes[0].axvline(0, color="grey", lw=0.8)
axes[0].axvline(1, color="grey", lw=0.8)
axes[0].set(xlabel="0: stuck network, 1: planted network", ylabel="objective, relative", title="A segment")
axes[0].legend()
levels = np.geomspace(max(plane.values.min(), 1e-3), plane.values.max(), 18)
axes[1].contour(plane.positions, plane.other_positions, plane.values.T, levels=levels, cmap="viridis")
axes[1].plot([0, 1, 0], [0, 0, 1], "k.", ms=9)
for text, place in (("stuck", (0, 0)), ("planted", (1, 0)), ("start", (0, 1))):
    axes[1].annotate(text, place, textcoords="offset points", xytext=(5, 5))
axes[1].set(
    xlabel="towards the planted network", ylabel="towards the start", title="The plane through three networks"
)
plt.show()
