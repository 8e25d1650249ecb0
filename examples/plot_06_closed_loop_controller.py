"""
Which controller is steering?
=============================

A plant is steered by a small ReLU network that nobody documented. All there is are logs: states and the
actions taken. In closed loop the states are anything but random – the controller itself decides where they go
– and no input law can be assumed. Can the controller be read from the log?
"""

# %%
# A cart with a saturated controller
# ----------------------------------
# Position and speed obey a double integrator. The controller is a saturated linear law, written as two ReLU
# units, and a third unit that acts beyond a slanted line.

import matplotlib.pyplot as plt
import numpy as np

import planted

step = 0.1
F = np.array([[1.0, step], [0.0, 1.0]])
G = np.array([[0.5 * step**2], [step]])
controller = planted.TwoLayerNetwork(
    W=[[-1.0, -1.5], [-1.0, -1.5], [1.0, -0.5]], b=[1.0, -1.0, -1.5], A=[[1.0, -1.0, -0.7]], c=[-1.0]
)


def drive(network, starts, steps):
    """Return the states, of shape (steps, runs, 2), and the actions in closed loop."""
    state, states, actions = starts, [], []
    for _ in range(steps):
        action = network(state)
        states.append(state)
        actions.append(action)
        state = state @ F.T + action @ G.T
    return np.array(states), np.array(actions)


starts = np.random.default_rng(0).uniform(-3, 3, size=(12, 2))
states, actions = drive(controller, starts, 60)
X, Y = states.reshape(-1, 2), actions.reshape(-1, 1)
print(len(X), "logged pairs from", len(starts), "runs")

# %%
# From the log to the controller
# ------------------------------
# Neither the number of units nor anything about the states is told.

recovery = planted.recover(X, Y, random_state=0)
print(recovery)
print("largest error of a weight:", planted.parameter_error(recovery.network, controller))
assert recovery.outcome is planted.Outcome.RECOVERED

# %%
# The two units of the saturation share one direction. With sensor noise on the actions the weights come with
# standard errors instead.

noisy = Y + 0.02 * np.random.default_rng(1).standard_normal(Y.shape)
estimate = planted.recover(X, noisy, random_state=0)
print(estimate.outcome.name, "with", estimate.network.n_hidden, "units.", estimate.detail)
if estimate.network.n_hidden == controller.n_hidden:
    print("largest error of a weight with noise:", planted.parameter_error(estimate.network, controller))

# %%
# The proof of a controller is in the driving
# -------------------------------------------
# From a start that is not in the log, the recovered network steers as the original does.

start = np.array([[-4.5, 2.0]])
original, _ = drive(controller, start, 90)
copy, _ = drive(recovery.network, start, 90)
print("largest difference of the two trajectories:", np.abs(original - copy).max())

figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
p, v = np.meshgrid(np.linspace(-7.5, 5, 300), np.linspace(-4, 4, 300))
surface = recovery.network(np.column_stack([p.ravel(), v.ravel()])).reshape(p.shape)
colours = axes.contourf(p, v, surface, levels=20, cmap="RdBu_r", alpha=0.6)
axes.plot(X[:, 0], X[:, 1], ".", ms=2, color="0.3", label="logged states")
for row, bias in zip(recovery.network.W, recovery.network.b, strict=True):
    axes.contour(p, v, row[0] * p + row[1] * v + bias, levels=[0.0], colors="k", linewidths=1)
axes.plot(original[:, 0, 0], original[:, 0, 1], "-", lw=4, color="tab:orange", label="original, new start")
axes.plot(copy[:, 0, 0], copy[:, 0, 1], "--", color="k", label="recovered, new start")
axes.set(xlabel="position", ylabel="speed", title="Recovered control law; lines: where units switch")
axes.legend(loc="upper right")
figure.colorbar(colours, label="action")
plt.show()
