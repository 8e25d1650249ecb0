"""
Skewed inputs: which network made these numbers?
================================================

Inputs are exponential: skewed, far from normal, nothing a moment method could lean on. A network with eight
hidden units and biases made the outputs. Can every weight be had back, and how do we know that no other
network would have done as well?
"""

# %%
# The data
# --------
# The solver sees ``X`` and ``Y`` alone. The network is kept aside to check the answer.

import matplotlib.pyplot as plt
import numpy as np

import planted
from planted.checks import Check
from planted.networks import match_units

data = planted.simulate.dataset(
    400, n_features=6, n_hidden=8, n_outputs=10, law="exponential", activity=(0.3, 0.7), random_state=1
)
recovery = planted.recover(data.X, data.Y, random_state=0)
print(recovery)

# %%
# The proof of uniqueness
# -----------------------
# Two lines of the evidence belong to a theorem: if the null space of a linear system made from the
# samples has as many dimensions as there are units, then no other network of this width reproduces the
# samples. The dimension, and the singular value that separates the null space from the rest, are measured.

assert recovery.outcome is planted.Outcome.RECOVERED
for line in (*recovery.find(Check.NULL_SPACE), *recovery.find(Check.NULL_SPACE_GAP)):
    print(f"{line.name}: {line.measured:.3g}, needed {line.comparison} {line.required:.3g}")
print(recovery.detail)

# %%
# Weight by weight
# ----------------
# Units have no order and a positive factor may move through the ReLU, so units are matched first. Weights
# without any error are drawn at 1e-18.

matching = match_units(recovery.network, data.network)
found = matching.network
order = matching.permutation
pairs = [
    ("hidden weights", found.W[order], matching.truth.W),
    ("biases", found.b[order], matching.truth.b),
    ("output weights", found.A[:, order], matching.truth.A),
]
print("largest error of any weight:", planted.parameter_error(recovery.network, data.network))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, estimate, truth in pairs:
    left.plot(truth.ravel(), estimate.ravel(), "o", ms=4, label=name)
    right.semilogy(np.abs(truth).ravel(), np.abs(estimate - truth).ravel() + 1e-18, "o", ms=4, label=name)
left.axline((0, 0), slope=1, color="grey", lw=0.8)
left.set(xlabel="planted weight", ylabel="recovered weight", title="All weights, matched")
left.legend()
right.axhline(np.finfo(float).eps, color="grey", lw=0.8)
right.set(
    xlabel="size of the planted weight", ylabel="absolute error", title="Errors; line: machine precision"
)
plt.show()
