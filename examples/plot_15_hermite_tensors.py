"""
Hermite tensors: how many samples do moments need?
==================================================

For normal inputs the Hermite coefficients of the output are tensors of the weights [ATV21]_. ``variant="paper"`` averages
them as published; regressing out low degrees first needs far fewer samples for the same error, and the refined
answer is exact.
"""

# %%
# One output, biases, the same data for all
# -----------------------------------------
# How far is each true direction from the nearest one found, up to sign? A unit that the moments do not show counts √2.

import matplotlib.pyplot as plt
import numpy as np

import planted

d, k = 5, 3
sizes = [1000, 4000, 16000]
ways = {
    "paper: plain averages": {"variant": "paper"},
    "degrees up to 2 regressed out": {"reduction": "quadratic", "refined": False},
    "degrees up to 4, one sweep": {"refined": False},
    "refined": {},
}


def direction_error(n, options):
    """Return the mean distance over the units of three networks."""
    distances = []
    for seed in range(3):
        data = planted.simulate.dataset(
            n, n_features=d, n_hidden=k, bias=(-1, 1), outputs="magnitudes", random_state=seed
        )
        answer = planted.recover(data.X, data.Y, k, method="hermite", random_state=100, **options)
        # An answer that predicts worse than a constant is refused: nothing was seen.
        seen = answer.stats.get("seen", {"W": []})["W"]
        rows = answer.network.W if answer.outcome is planted.Outcome.RECOVERED else seen
        cosines = np.abs(np.reshape(rows, (-1, d)) @ data.network.W.T).max(axis=0, initial=0.0)
        distances += list(np.sqrt(np.maximum(2 - 2 * cosines, 0.0)))
    return np.mean(distances)


for name, options in ways.items():
    errors = [max(direction_error(n, options), 1e-16) for n in sizes]
    print(f"{name:32s}", "  ".join(f"{n:,}: {error:.1e}" for n, error in zip(sizes, errors, strict=True)))
    plt.loglog(sizes, errors, "o-", label=name)
plt.xlabel("samples")
plt.ylabel("mean distance of a direction")
plt.legend()
plt.show()

# %%
# Signs that no data can tell
# ---------------------------
# Three units whose weighted rows sum to zero can be turned round together: the function stays the same. The record says
# so and holds the other network.

truth = planted.TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0], [-0.6, -0.8]], A=[[0.6, 0.8, 1.0]])
data = planted.simulate.dataset(3000, truth, random_state=1)
answer = planted.recover(data.X, data.Y, 3, method="hermite", random_state=100)
print(answer.detail)
other = planted.TwoLayerNetwork(**answer.stats["alternatives"][0])
print(other.is_equivalent(answer.network), np.abs(other.W + answer.network.W).max())
