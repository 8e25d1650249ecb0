"""
From which dose on does something happen, if age matters too?
=============================================================

A trial with 160 people: below a threshold the dose does nothing, above it the response rises, and the response falls with
age all the time. Where is the threshold, how sure is that, and is there one at all?
"""

# %%
# The trial
# ---------
# The noise is as large as what three units of dose above the threshold do.

import importlib.util

import matplotlib.pyplot as plt
import numpy as np

import planted

THRESHOLD, EFFECT, AGEING = 5.5, 0.8, -0.06

rng = np.random.default_rng(2)
dose, age = rng.uniform(0, 10, 160), rng.uniform(20, 80, 160)
response = 12 + AGEING * age + EFFECT * np.maximum(dose - THRESHOLD, 0) + 0.8 * rng.standard_normal(160)

trial = planted.recover(np.column_stack([dose, age]), response, random_state=0)
table = planted.kinks(trial, features=["dose", "age"], targets=["response"])
print(table)
(kink,) = table
slope, error = trial.network.B[0, 1], trial.uncertainty.standard_errors["B"][0, 1]
print(f"slope of age {slope:.3f} ± {1.96 * error:.3f}")
assert kink.column == "dose" and kink.low < THRESHOLD < kink.high
assert abs(slope - AGEING) < 3 * error

# %%
# Beside pwlf and piecewise-regression
# ------------------------------------
# Both know one input only, so that age has to be taken out before, by a straight line. They are told that there is one kink;
# where they are not installed, this is left out.

plain = response - np.polyval(np.polyfit(age, response, 1), age)
places = {"planted": kink.place}
if importlib.util.find_spec("pwlf") is not None:
    import pwlf

    places["pwlf"] = float(pwlf.PiecewiseLinFit(dose, plain, seed=0).fitfast(2)[1])
if importlib.util.find_spec("piecewise_regression") is not None:
    import piecewise_regression

    fit = piecewise_regression.Fit(dose, plain, n_breakpoints=1)
    places["piecewise-regression"] = fit.get_results()["estimates"]["breakpoint1"]["estimate"]
for name, place in places.items():
    print(f"{name:22s} threshold {place:.2f}, {abs(place - THRESHOLD):.2f} from the truth")

# %%
# No threshold at all
# -------------------
# The same trial without an effect: a straight line, and no kink.

nothing = response - EFFECT * np.maximum(dose - THRESHOLD, 0)
without = planted.recover(dose[:, None], nothing, random_state=0)
print(without.detail)
print(planted.kinks(without, features=["dose"], targets=["response"]))
assert len(planted.kinks(without)) == 0

# %%
# The response along the dose, age taken out
# ------------------------------------------

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(
    dose, response - slope * (age - age.mean()), ".", markersize=5, alpha=0.6, label="people, at the mean age"
)
line = np.column_stack([np.linspace(0, 10, 200), np.full(200, age.mean())])
axes.plot(line[:, 0], trial.network(line)[:, 0], color="black", label="fit")
axes.axvspan(kink.low, kink.high, color="tab:orange", alpha=0.2, label="95 % interval of the threshold")
axes.axvline(kink.place, color="tab:orange", linestyle="--")
axes.set(xlabel="dose", ylabel="response")
axes.legend()
plt.show()
