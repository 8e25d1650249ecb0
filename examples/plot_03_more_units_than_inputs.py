"""
One output and more units than inputs: do restarts of gradient training find it?
================================================================================

With a single output there are no moments of the outputs to take apart, and with more units than inputs most
theorems stop. A search is left. Two searches are compared on the same noiseless data: the restarts of
scikit-learn's ``MLPRegressor``, of the true width, and ``method="restarts"``, which fits kinks without signs,
prunes, and orients the units at the end.
"""

# %%
# The problem
# -----------

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import planted

d, k = 4, 7
data = planted.simulate.dataset(600, n_features=d, n_hidden=k, activity=(0.25, 0.75), random_state=4)
target = data.Y[:, 0]


def relative_residual(prediction):
    """Return the root mean square residual in standard deviations of the output."""
    return float(np.sqrt(np.mean((np.ravel(prediction) - target) ** 2)) / target.std())


# %%
# scikit-learn, twelve starts
# ---------------------------
# L-BFGS without weight decay, with a generous limit of iterations. Some starts end at that limit; the warning
# is silenced because every start is shown.

rivals = []
started = time.perf_counter()
for seed in range(12):
    model = MLPRegressor(
        hidden_layer_sizes=(k,),
        solver="lbfgs",
        alpha=0.0,
        max_iter=1500,
        max_fun=20000,
        tol=1e-12,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, target)
    error = planted.parameter_error(planted.import_network(model), data.network)
    rivals.append((relative_residual(model.predict(data.X)), error))
rival_seconds = time.perf_counter() - started

# %%
# planted, twelve seeds
# ---------------------

ours = []
started = time.perf_counter()
for seed in range(12):
    recovery = planted.recover(data.X, data.Y, n_hidden=k, method="restarts", random_state=seed)
    error = planted.parameter_error(recovery.network, data.network)
    ours.append((relative_residual(recovery.network(data.X)), error))
    print(
        f"seed {seed:2d}: {recovery.outcome.name}, {recovery.stats['restarts']} start(s), largest error {error:.1e}"
    )
our_seconds = time.perf_counter() - started

# %%
# What came out
# -------------
# A small residual is not a recovered network: the horizontal axis is what a training log would show, the
# vertical one is what was wanted.

rivals, ours = np.array(rivals), np.array(ours)
print(
    f"MLPRegressor: right in {np.sum(rivals[:, 1] < 1e-3)} of {len(rivals)}, best residual {rivals[:, 0].min():.1e}"
)
print(
    f"planted:      right in {np.sum(ours[:, 1] < 1e-9)} of {len(ours)}, worst residual {ours[:, 0].max():.1e}"
)
print(f"seconds for all starts: {rival_seconds:.1f} and {our_seconds:.1f}")

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axes.loglog(rivals[:, 0], rivals[:, 1], "s", label="MLPRegressor, one point per start")
axes.loglog(ours[:, 0], ours[:, 1], "o", label="planted, one point per seed")
axes.set(
    xlabel="residual, in output standard deviations",
    ylabel="largest error of a weight",
    title=f"{k} units, {d} inputs, one output",
)
axes.legend(loc="center")
plt.show()
