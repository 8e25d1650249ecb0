"""
How many samples are enough?
============================

Each sample of a network with m outputs brings m equations. Below the *information limit*, where equations and
unknowns are equal in number, nothing can work. How far above it does recovery begin, and does the answer say
when there are too few samples?
"""

# %%
# One network, more and more samples
# ----------------------------------

import matplotlib.pyplot as plt
import numpy as np

import planted

d, k, m = 6, 4, 4
truth = planted.simulate.teacher(d, k, m, activity=(0.3, 0.7), law="exponential", random_state=3)
limit = planted.simulate.information_limit(d, k, m)
sizes = [9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 32, 48, 64]
rows = []
print(f"information limit: {limit:g} samples")
for n in sizes:
    data = planted.simulate.dataset(n, truth, law="exponential", random_state=2)
    recovery = planted.recover(
        data.X, data.Y, n_hidden=k, method="complementarity", max_starts=400, random_state=0
    )
    error = np.inf if recovery.network is None else planted.parameter_error(recovery.network, truth)
    rows.append((n, error, recovery.outcome))
    print(f"{n:3d}  {recovery.outcome.name:16s} error {error:8.1e}  {recovery.detail}")

# %%
# What the outcome is worth
# -------------------------
# ``RECOVERED`` is never said of a wrong network here. The converse is not so: there are sample sizes at which
# the network found is right and the claim is withheld, because a unit was seen too rarely on one side to be
# checked.

wrong_claims = [n for n, error, outcome in rows if outcome is planted.Outcome.RECOVERED and error > 1e-9]
silent = [n for n, error, outcome in rows if outcome is not planted.Outcome.RECOVERED and error < 1e-9]
first = min(n for n, _, outcome in rows if outcome is planted.Outcome.RECOVERED)
print("claimed but wrong:", wrong_claims)
print("right but not claimed:", silent)
print(f"first claim at {first} samples, {first / limit:.1f} times the limit")
assert not wrong_claims

figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
colours = plt.get_cmap("tab10")
for index, outcome in enumerate(dict.fromkeys(outcome for _, _, outcome in rows)):
    points = [(n, max(error, 1e-16)) for n, error, other in rows if other is outcome and np.isfinite(error)]
    axes.loglog(*zip(*points, strict=True), "o", color=colours(index), label=outcome.name)
axes.axvline(limit, color="grey", ls="--")
axes.text(limit * 0.99, 1e-9, "information limit", rotation=90, ha="right", va="center", color="grey")
axes.set_xticks([10, 16, 24, 32, 48, 64], labels=["10", "16", "24", "32", "48", "64"])
axes.minorticks_off()
axes.set(xlabel="samples", ylabel="largest error of a weight", title="Error and outcome against samples")
axes.legend()
plt.show()
