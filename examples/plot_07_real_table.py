"""
A real table: what if no network made the data?
===============================================

The diabetes table that comes with scikit-learn was made by patients, not by a network. A hinge regression – a
small sum of ReLU units – may still predict well, but nothing was planted. Does the answer say so, and is its
error honest?
"""

# %%
# A third of the rows is set aside
# --------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import planted

table = load_diabetes()
train, test, y_train, y_test = train_test_split(table.data, table.target, test_size=1 / 3, random_state=0)
recovery = planted.recover(train, y_train, method="restarts", random_state=0)
print(recovery)
assert recovery.outcome is not planted.Outcome.RECOVERED

# %%
# The error on rows nobody saw
# ----------------------------
# A straight line is the rival to beat. With so few rows the difference between the two has a standard error,
# which is printed too.

hinge = recovery.network(test)[:, 0]
line = LinearRegression().fit(train, y_train).predict(test)
level = np.mean((y_test - y_train.mean()) ** 2)
squares = {
    "mean": (y_test - y_train.mean()) ** 2,
    "linear": (y_test - line) ** 2,
    "hinges": (y_test - hinge) ** 2,
}
for name, values in squares.items():
    print(f"{name:7s} squared error / variance: {values.mean() / level:.3f}")
difference = (squares["hinges"] - squares["linear"]) / level
print(
    f"hinges minus linear: {difference.mean():+.3f}, standard error {difference.std(ddof=1) / len(test) ** 0.5:.3f}"
)

# %%
# What the units look at
# ----------------------
# The fitted units can be read, as a description of a predictor and not of nature.

network = recovery.network
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
effect = network.A[0][:, None] * network.W
positions = np.arange(len(table.feature_names))
height = 0.8 / network.n_hidden
for unit in range(network.n_hidden):
    left.barh(positions + unit * height, effect[unit], height=height, label=f"unit {unit}")
left.set_yticks(positions + 0.4 - height / 2, labels=table.feature_names)
left.set(xlabel="slope where the unit is on", title="Fitted units")
left.legend()
right.plot(hinge, y_test, ".", label=f"{recovery.outcome.name}: {network.n_hidden} unit(s)")
right.axline((150, 150), slope=1, color="grey", lw=0.8)
right.set(xlabel="predicted", ylabel="measured", title="Rows that were set aside")
right.legend()
plt.show()
