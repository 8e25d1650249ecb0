"""
Symmetric inputs: the paper's algorithm and what refinement adds
================================================================

For inputs as likely as their negatives, without biases, moments alone determine the network [GKLW19]_.
``variant="paper"`` runs the published algorithm boxes, ``variant="efficient"`` starts from better moments,
refines on all rows and certifies. How many samples does each need for the same accuracy?
"""

# %%
# The same data for both
# ----------------------
# The paper's variant depends on random projections, and now and then one of them is bad: look at the largest
# errors.

import matplotlib.pyplot as plt
import numpy as np

import planted

d, k = 8, 4
truth = planted.simulate.teacher(d, k, k, hidden="orthonormal", outputs="orthonormal", random_state=3)
sizes = [100, 1000, 10000]


def errors_of(variant, noise, n):
    """Return the errors on three data sets, and how many were claimed as recovered."""
    errors, claims = [], 0
    for seed in range(3):
        data = planted.simulate.dataset(n, truth, noise=noise, random_state=seed)
        recovery = planted.recover(
            data.X, data.Y, n_hidden=k, method="symmetric-inputs", variant=variant, random_state=100
        )
        errors.append(planted.parameter_error(recovery.network, truth))
        claims += recovery.outcome is planted.Outcome.RECOVERED
    return errors, claims


curves = {}
for variant in ("paper", "efficient"):
    for noise in (0.0, 0.1):
        for n in sizes:
            errors, claims = errors_of(variant, noise, n)
            curves.setdefault((variant, noise), []).append(errors)
            print(
                f"{variant:9s} noise {noise:3g}, {n:6,d} samples: median error {np.median(errors):7.1e}, "
                f"largest {max(errors):7.1e}, recovered {claims} of {len(errors)}"
            )

# %%
# What the rows add to the moments
# --------------------------------
# Moments of samples err even when there is no noise, because the inputs themselves are random. Refinement uses
# the rows: the answer is exact without noise, and with noise its error falls by the root law.

medians = {key: np.median(errors, axis=1) for key, errors in curves.items()}
for noise in (0.0, 0.1):
    ratio = medians["paper", noise] / medians["efficient", noise]
    print(
        f"noise {noise:g}: median error of the paper's variant over ours: {', '.join(f'{r:.1e}' for r in ratio)}"
    )
for variant in ("paper", "efficient"):
    slope = np.polyfit(np.log(sizes), np.log(medians[variant, 0.1]), 1)[0]
    print(f"slope of the {variant} variant with noise: {slope:.2f} (-0.5 is the root law)")

figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
for (variant, noise), errors in medians.items():
    colour = "tab:orange" if variant == "paper" else "tab:blue"
    style = "o-" if noise else "s--"
    axes.loglog(sizes, errors, style, color=colour, label=f"{variant}, noise {noise:g}")
guide = 0.3 / np.sqrt(sizes)
axes.loglog(sizes, guide, color="grey", lw=0.8, label="root law")
axes.set(
    xlabel="samples", ylabel="largest error of a weight", title="Median of three data sets, two variants"
)
axes.legend(loc="center right")
plt.show()
