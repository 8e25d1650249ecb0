"""
How many hidden units are there?
================================

Nobody tells you the width. With one output it cannot be read off a rank either. ``method="restarts"`` goes up
and down a path of widths, looks at rows that were held out, and keeps the path in the record.
"""

# %%
# Without noise the path falls off a cliff
# ----------------------------------------

import matplotlib.pyplot as plt
import numpy as np

import planted

k = 6
truth = planted.simulate.teacher(4, k, outputs="magnitudes", activity=(0.3, 0.7), random_state=1)


def follow(network, noise):
    """Return the recovery from 800 samples of a network."""
    data = planted.simulate.dataset(800, network, noise=noise, random_state=9)
    recovery = planted.recover(data.X, data.Y, method="restarts", random_state=0)
    print(
        f"noise {noise:g}: {recovery.outcome.name} with {recovery.network.n_hidden} units, "
        f"{network.n_hidden} were planted.\n  {recovery.detail}"
    )
    return recovery


answers = {0.0: follow(truth, 0.0)}
assert answers[0.0].network.n_hidden == k

# %%
# The trace tells the whole walk: ``widen`` steps add units until nothing is left to explain, ``narrow`` steps
# take the least missed unit away.

for step in answers[0.0].trace:
    print(f"{step['start']:8s} {step['k']:3d} units, residual {step['residual']:.1e}")

# %%
# With noise the cliff becomes a bend
# -----------------------------------
# The choice is the smallest width that predicts held-out rows about as well as the best. With more noise it
# may fall below the planted width; then the evidence should say that something is missing.

answers |= {noise: follow(truth, noise) for noise in (0.1, 0.3)}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for noise, recovery in answers.items():
    path = sorted(
        (int(width), score) for width, score in recovery.stats["held_out_residual_by_width"].items()
    )
    widths, scores = np.array(path).T
    chosen = widths == recovery.network.n_hidden
    shapes = [(left, scores)] + [(right, scores / scores.min())] * (noise > 0)
    for axes, values in shapes:
        colour = {0.0: "tab:blue", 0.1: "tab:orange", 0.3: "tab:green"}[noise]
        axes.semilogy(widths, values, "o-", ms=4, color=colour, label=f"noise {noise:g}")
        axes.plot(widths[chosen], values[chosen], "o", ms=13, mfc="none", color=colour)
left.set(ylabel="residual on held-out rows", title="Path of widths; circles: chosen; dashed: planted")
right.set(ylabel="the same over its smallest value", title="The bends, closer")
right.set_yscale("linear")
for axes in (left, right):
    axes.axvline(k, color="grey", ls="--", lw=0.8)
    axes.set(xlabel="hidden units")
    axes.legend()
plt.show()

# %%
# What the path cannot see
# ------------------------
# All units above had output weights of like size. Here is a network whose two weakest units contribute much
# less than the noise, and no test of the residual can be relied on to find them. Read a claim made on noisy
# data as one about the units that stand out of the noise, and its width as a lower bound.

uneven = planted.simulate.teacher(4, 7, activity=(0.25, 0.75), random_state=4)
hidden = follow(uneven, 0.3)
sizes = np.sort(np.abs(uneven.canonical().A[0]))
print("sizes of the planted units:", np.round(sizes, 2), "beside noise of 0.3")
