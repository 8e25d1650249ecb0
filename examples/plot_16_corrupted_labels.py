"""
Corrupted labels: which of them are wrong?
==========================================

A logger sometimes writes nonsense: in a fifth of all cells the label has nothing to do with the inputs. Nobody marked
them. There are more outputs than hidden units, so the true labels of all rows lie in a space of few dimensions, and what
does not is suspicious. The network behind the true labels then settles every single cell.
"""

# %%
# A table with wrong cells
# ------------------------
# Four hidden units, thirty outputs, a fifth of the cells replaced. Least squares, told the number of units, is pulled
# away by the wrong cells.

import matplotlib.pyplot as plt
import numpy as np

import planted
from planted.simulate import SparseNoise

data = planted.simulate.dataset(
    1000,
    n_features=8,
    n_hidden=4,
    n_outputs=30,
    noise=SparseNoise(fraction=0.2, amplitude=3.0),
    activity=(0.3, 0.7),
    random_state=0,
)
is_wrong = data.Y_clean != data.Y
plain = planted.recover(data.X, data.Y, 4, method="complementarity", noise="present", random_state=1)
print(f"wrong cells: {is_wrong.sum():,} of {is_wrong.size:,}")
print(
    f"least squares: {plain.outcome.name}, error {planted.parameter_error(plain.network, data.network):.2g}"
)

# %%
# Recovered despite them
# ----------------------
# The number of units is not given.

recovery = planted.recover(data.X, data.Y, method="gross-errors", random_state=1)
print(recovery.outcome.name, f"error {planted.parameter_error(recovery.network, data.network):.1e}")
print(recovery.detail)

# %%
# Every wrong cell, and no other
# ------------------------------

table = planted.outliers(recovery.network, data.X, data.Y)
print(table)
mask = table.mask()
print(f"missed: {(is_wrong & ~mask).sum()}, false: {(mask & ~is_wrong).sum()}")

# %%
# Left: residuals of the network, sorted by size; the right cells end at rounding error. Right: flagged cells of the first
# sixty rows.

residuals = np.sort(np.abs(data.Y - recovery.network(data.X)).ravel())
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.semilogy(np.arange(residuals.size) / residuals.size, np.maximum(residuals, 1e-17))
left.set(xlabel="share of cells", ylabel="absolute residual", title="Two kinds of cells")
right.imshow(mask[:60].T, aspect="auto", cmap="Greys", interpolation="nearest")
right.set(xlabel="row", ylabel="output", title="Flagged cells")
figure.tight_layout()
plt.show()

# %%
# What cannot be told
# -------------------
# With as many units as outputs every table has a network's rank, and nothing is suspicious. The answer is then a refusal,
# not a network.

square = planted.simulate.dataset(
    1000,
    n_features=8,
    n_hidden=4,
    n_outputs=4,
    noise=SparseNoise(0.1, 3.0),
    activity=(0.3, 0.7),
    random_state=0,
)
refusal = planted.recover(square.X, square.Y, 4, method="gross-errors", random_state=1)
print(refusal.outcome.name, "-", refusal.detail)
