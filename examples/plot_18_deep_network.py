"""
What did this model learn? Two hidden layers, read back by asking
=================================================================

A network with two hidden layers answers questions, and that is all. ``planted.identify`` finds depth, widths and every
weight from the answers. What did it cost, layer by layer, and how exact is it?
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

import planted

X, y = load_diabetes(return_X_y=True)
X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
box = MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=100, random_state=1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # how well it was trained does not matter here
    box.fit(X, y)

# %%
# Questions and answers
# ---------------------
# Only ``box.predict`` is called. Progress tells which layer is being read.

asked, told = [0], []


def ask(rows):
    asked[0] += len(rows)
    return box.predict(rows)


recovery = planted.identify(ask, 10, random_state=0, progress=lambda what, _: told.append((asked[0], what)))
print(recovery.outcome.name, recovery.network)
for count, what in told:
    print(f"{count:6d} questions: {what}")

# %%
# Against the file
# ----------------
# The weights that scikit-learn holds, in the same form, are compared only now.

truth = planted.import_network(box)
print("largest error of a parameter:", planted.parameter_error(recovery.network, truth))

figure, axes = plt.subplots(1, 3, figsize=(9, 3))
pairs = zip(recovery.network.layers, truth.canonical().layers, axes, strict=True)
for place, ((W, _), (V, _), axis) in enumerate(pairs):
    axis.plot(V.ravel(), W.ravel(), ".")
    axis.axline((0, 0), slope=1, linewidth=0.5, color="grey")
    axis.set_title(("layer 1", "layer 2", "output")[place])
    axis.set_xlabel("weight in the file")
axes[0].set_ylabel("weight read back")
figure.tight_layout()
plt.show()

# %%
# The copy can be used without scikit-learn, for instance as a C header: ``planted.export_network(copy, "model.h")``.

copy = recovery.network.simplify()
print(copy.widths, "largest difference:", float(np.abs(copy(X)[:, 0] - box.predict(X)).max()))
