"""
Noisy outputs: are the standard errors honest?
==============================================

With noise no weight is exact. Every noisy recovery carries standard errors. If they are right, an interval of
1.96 of them to both sides holds the planted weight 95 times in a hundred. That can be counted.
"""

# %%
# Forty data sets from one network
# --------------------------------
# Data and solver use unrelated random streams. Every weight of every data set is compared with its own
# standard error.

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import planted
from planted.networks import match_units

RUNS = 40
truth = planted.simulate.teacher(3, 2, 2, outputs="magnitudes", activity=(0.35, 0.65), random_state=1)


def studentised_errors(recovery):
    """Return (estimate - truth) / standard error for every weight, units matched."""
    matching = match_units(recovery.network, truth)
    order, found, errors = matching.permutation, matching.network, recovery.uncertainty.standard_errors
    return np.concatenate(
        [
            ((found.W[order] - matching.truth.W) / errors["W"][order]).ravel(),
            (found.b[order] - matching.truth.b) / errors["b"][order],
            ((found.A[:, order] - matching.truth.A) / errors["A"][:, order]).ravel(),
        ]
    )


z, outcomes = [], []
for run in range(RUNS):
    data = planted.simulate.dataset(300, truth, noise=0.02, random_state=run)
    recovery = planted.recover(
        data.X, data.Y, n_hidden=2, method="complementarity", noise="present", n_restarts=3, random_state=1000
    )
    z.append(studentised_errors(recovery))
    outcomes.append(recovery.outcome.name)
z = np.array(z)

# %%
# The count
# ---------
# Weights of one data set are correlated, so the spread of the coverage is taken over data sets.

inside = np.abs(z) < stats.norm.ppf(0.975)
coverage = inside.mean()
doubt = inside.mean(axis=1).std(ddof=1) / np.sqrt(RUNS)
print(f"certified: {outcomes.count('RECOVERED')} of {RUNS}")
print(f"coverage of nominal 95 % intervals: {coverage:.1%}, standard error {doubt:.1%}, {z.size} weights")
print(f"standard deviation of the studentised errors: {z.std():.3f} (1 if the standard errors are right)")

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
grid = np.linspace(-4, 4, 200)
left.hist(z.ravel(), bins=30, range=(-4, 4), density=True, color="tab:blue", alpha=0.6)
left.plot(grid, stats.norm.pdf(grid), "k")
left.set(xlabel="error / standard error", ylabel="density", title="All weights; line: standard normal")
names = (
    [f"W{i}{j}" for i in range(2) for j in range(3)]
    + ["b0", "b1"]
    + [f"A{i}{j}" for i in range(2) for j in range(2)]
)
right.errorbar(names, inside.mean(axis=0), yerr=np.sqrt(0.95 * 0.05 / RUNS), fmt="o", capsize=3)
right.axhline(0.95, color="k", lw=0.8)
right.set(ylim=(0.75, 1.02), ylabel="fraction covered", title="Coverage weight by weight")
right.tick_params(axis="x", rotation=60)
plt.show()
