"""
What did scikit-learn train? Asking instead of looking
======================================================

Someone hands over a fitted regressor as a black box: it answers questions, and that is all.
``planted.identify`` chooses what to ask and reads the network back. How many questions does it take, and how
exact is the answer?
"""

# %%
# The black box
# -------------

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import planted

table = load_diabetes()
X = StandardScaler().fit_transform(table.data)
y = (table.target - table.target.mean()) / table.target.std()
box = MLPRegressor(hidden_layer_sizes=(8,), max_iter=300, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # how well it was trained does not matter here
    box.fit(X, y)

# %%
# Questions and answers
# ---------------------
# Only ``box.predict`` is called. The log of questions is kept here to draw it.

asked = []


def oracle(rows):
    """Answer, and remember what was asked."""
    asked.append(np.array(rows))
    return box.predict(rows)


recovery = planted.identify(oracle, n_features=10, random_state=0)
print(recovery)
assert recovery.outcome is planted.Outcome.RECOVERED

# %%
# Now look
# --------
# The weights inside the box are used for the first time, to check.

truth = planted.import_network(box)
unknowns = truth.W.size + truth.b.size + truth.A.size - truth.n_hidden + truth.c.size
print(recovery.stats["queries"], "questions for", unknowns, "unknowns")
print("largest error of a weight:", planted.parameter_error(recovery.network, truth))

# %%
# A line through input space meets every unit's hyperplane once; the slope of the answers jumps there.

line = np.linspace(-12, 12, 4000)[:, None]
direction = np.random.default_rng(5).standard_normal((1, 10))
direction /= np.linalg.norm(direction)
slopes = np.gradient(box.predict(line @ direction), line[:, 0])
network = recovery.network
breaks = -network.b / (network.W @ direction[0])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(line[:, 0], slopes)
for place in breaks[np.abs(breaks) < 12]:
    left.axvline(place, color="tab:orange", ls="--", lw=1)
left.set(
    xlabel="place on the line", ylabel="slope of the answers", title="Dashed: breaks foretold by the copy"
)
distances = np.concatenate([np.linalg.norm(rows, axis=1) for rows in asked])
right.hist(np.log10(distances[distances > 0]), bins=40)
right.set(
    xlabel="log10 of the distance from the origin", ylabel="questions", title="Where the questions were asked"
)
plt.show()
