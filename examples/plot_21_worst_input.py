"""
How far is the int8 copy from the network, and for which picture?
=================================================================

A network that reads handwritten digits is rounded to 8 bits. On test pictures the two agree well. What is the largest
difference on *all* pictures, and which one shows it? ``planted.compare`` with a box returns both ends: a picture, and a
bound that no picture exceeds.
"""

# %%
# A network and its int8 copy
# ---------------------------

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import planted

X, y = load_digits(return_X_y=True)
X = X / 16
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of iterations that end before the loss is flat
    model = MLPClassifier((12,), max_iter=100, random_state=0).fit(X, y)
(W, A), (b, c) = model.coefs_, model.intercepts_
network = planted.TwoLayerNetwork(W.T, b, A.T, c)


def int8(weights):
    """Round to 255 equal steps."""
    step = np.abs(weights).max() / 127
    return np.round(weights / step) * step


copy = planted.TwoLayerNetwork(int8(network.W), network.b, int8(network.A), network.c)

# %%
# The largest difference on all pictures
# --------------------------------------
# Grey values are between 0 and 1. Real digits show a smaller difference, and so do random pictures: neither looks where
# the rounding of all weights adds up.

rng = np.random.default_rng(0)
answer = planted.compare(network, copy, box=(0, 1), random_state=0, budget_seconds=60)
seen = np.abs(network(X) - copy(X)).max()
drawn = np.abs(network(Z := rng.random((100_000, 64))) - copy(Z)).max()
print(f"digits of the data set {seen:.3f}, random pictures {drawn:.3f}")
print(f"found {answer.difference:.4f}, proved at most {answer.bound:.4f}")
assert answer.difference <= answer.bound <= 1.05 * answer.difference

# %%
# The picture that shows it
# -------------------------

closest = X[np.abs(network(X) - copy(X)).max(axis=1).argmax()]
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2))
for axis, picture, title in [
    (axes[0], closest, f"worst digit: {seen:.3f}"),
    (axes[1], answer.witness, f"worst of all pictures: {answer.difference:.3f}"),
]:
    axis.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    axis.set(title=title, xticks=[], yticks=[])
axes[2].bar(np.arange(10), answer.bounds, color="0.85", label="proved")
axes[2].bar(np.arange(10), answer.differences, width=0.4, label="found")
axes[2].set(xlabel="output", title="largest difference", xticks=np.arange(10))
axes[2].legend()
figure.tight_layout()
plt.show()

# %%
# A conversion, proved
# --------------------
# The ONNX file in single precision differs by less than 1e-5 on every picture, not only on those that were tried.

with TemporaryDirectory() as folder:
    path = Path(folder) / "digits.onnx"
    planted.export_network(network, path, precision="float32")
    converted = planted.compare(network, path, box=(0, 1), tol=1e-5, random_state=0)
print(converted.detail)
assert converted.is_equal
