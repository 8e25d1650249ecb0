"""
When the data cannot tell: what is said instead?
================================================

A unit that is off on every sample left no trace. A unit that is on in every sample is a linear function like
any other. Inputs with few values meet few sides of a hyperplane. The samples may then be reproduced and the
network still be unknown. Does the answer say so, and why?
"""

# %%
# Five data sets from nearly the same network
# -------------------------------------------
# The reasons number the units in the order of the network found, which need not be that of the planted one.

import matplotlib.pyplot as plt
import numpy as np

import planted

rng = np.random.default_rng(0)
W, A = rng.standard_normal((3, 3)), rng.standard_normal((4, 3))
normal = rng.standard_normal((300, 3))
binary = rng.choice([-1.0, 1.0], size=(300, 3))
plain = [0.1, -0.2, 0.3]
cases = {
    "all units on and off": (normal, plain),
    "unit 2 never on": (normal, [0.1, -0.2, -50.0]),
    "unit 2 always on": (normal, [0.1, -0.2, 50.0]),
    "binary inputs": (binary, plain),
    "twelve samples": (normal[:12], plain),
}

answers = {}
for name, (X, b) in cases.items():
    network = planted.TwoLayerNetwork(W=W, b=b, A=A)
    recovery = planted.recover(
        X, network(X), n_hidden=3, method="complementarity", max_starts=400, random_state=0
    )
    answers[name] = network, recovery
    print(f"{name}: {recovery.outcome.name}\n  {recovery.detail}\n  {recovery.outcome.advice}")

# %%
# Reproduced, and yet not claimed
# -------------------------------
# The first data set is the only one whose network is claimed. For the others the network found reproduces the
# samples it was given as well – the residual is what a training log would show – but on other inputs it need
# not agree with the planted one. It may, too: right and not claimed is the price of claiming only what the
# samples can show.

claimed = [name for name, (_, recovery) in answers.items() if recovery.outcome is planted.Outcome.RECOVERED]
assert claimed == ["all units on and off"]

fresh = 40 * rng.standard_normal((2000, 3))
residuals, gaps = [], []
for name, (network, recovery) in answers.items():
    X = cases[name][0]
    residuals.append(np.abs(recovery.network(X) - network(X)).max() / network(X).std())
    gaps.append(np.abs(recovery.network(fresh) - network(fresh)).max() / network(fresh).std())
    print(f"{name:22s} on the samples {residuals[-1]:.1e}, far from them {gaps[-1]:.1e}")

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
positions = np.arange(len(answers))
axes.barh(positions + 0.2, np.maximum(residuals, 1e-17), height=0.4, label="on the samples")
axes.barh(positions - 0.2, np.maximum(gaps, 1e-17), height=0.4, label="far from the samples")
axes.set_xscale("log")
axes.set_yticks(positions, labels=[f"{name}\n{answer.outcome.name}" for name, (_, answer) in answers.items()])
axes.invert_yaxis()
axes.set(xlabel="largest difference from the planted network, in output standard deviations")
axes.legend()
plt.show()
