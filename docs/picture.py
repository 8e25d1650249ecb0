"""Draw the picture of the start page: every weight of a planted network, as planted and as scikit-learn find it.

    python docs/picture.py

writes `docs/picture.svg` and, for pages on a dark ground, `docs/picture-dark.svg`; neither has a ground of its own. The
network has 12 inputs, 20 units and 24 outputs, as in `planted demo`; both see the same 500 samples, and only scikit-learn
is told the number of units.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "planted"
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402
from sklearn.neural_network import MLPRegressor  # noqa: E402

import planted  # noqa: E402
from planted.networks import match_units  # noqa: E402


def main() -> None:
    data = planted.simulate.dataset(
        500, n_features=12, n_hidden=20, n_outputs=24, law="exponential", activity=(0.3, 0.7), random_state=1
    )
    found = planted.recover(data.X, data.Y, random_state=0).network
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rival = MLPRegressor(hidden_layer_sizes=(20,), solver="lbfgs", max_iter=2000, random_state=0).fit(
            data.X, data.Y
        )
    networks = {
        "found by planted": found,
        "found by MLPRegressor (L-BFGS)": planted.import_network(rival),
    }
    for name, ink, dots, line in (
        ("picture.svg", "#1d2420", "#14684a", "#9aa59f"),
        ("picture-dark.svg", "#d6ddd9", "#5fc79a", "#6d7772"),
    ):
        colours = dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
        )
        with matplotlib.rc_context(colours):
            draw(data.network, networks, Path(__file__).with_name(name), dots=dots, line=line)


def draw(
    planted_one: planted.TwoLayerNetwork,
    networks: dict[str, planted.TwoLayerNetwork],
    file: Path,
    *,
    dots: str,
    line: str,
) -> None:
    """Draw the weights of networks against those that were planted."""
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), sharey=True)
    for axis, (title, network) in zip(axes, networks.items(), strict=True):
        matching = match_units(network, planted_one)
        truth, other = matching.truth.W, matching.network.W[matching.permutation]
        axis.plot([-1, 1], [-1, 1], color=line, linewidth=1, zorder=1)
        axis.plot(truth.ravel(), other.ravel(), "o", markersize=3, color=dots, alpha=0.75)
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("weight that was planted")
        axis.set_xlim(-1.05, 1.05)
        axis.set_ylim(-1.05, 1.05)
    axes[0].set_ylabel("weight that was found")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None}, transparent=True)
    plt.close(figure)


if __name__ == "__main__":
    main()
