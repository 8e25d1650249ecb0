"""
Which tax brackets lie behind a table of incomes and taxes?
===========================================================

A tax schedule is a line that bends: nothing is due up to an allowance, and every bracket adds to the rate. The same
schedule is read back twice: from a table of taxes rounded to full euros, and by asking the calculator itself.
"""

# %%
# A table of rounded taxes
# ------------------------
# 400 people, incomes in thousands, taxes rounded to the euro. Nobody says how many brackets there are.

import matplotlib.pyplot as plt
import numpy as np

import planted

ALLOWANCE, SECOND, TOP = 11.6, 30.0, 66.8
RATES = (0.14, 0.24, 0.42)


def calculator(income):
    """Tax in thousands for incomes in thousands."""
    base = RATES[0] * np.maximum(income - ALLOWANCE, 0)
    return (
        base
        + (RATES[1] - RATES[0]) * np.maximum(income - SECOND, 0)
        + (RATES[2] - RATES[1]) * np.maximum(income - TOP, 0)
    )


rng = np.random.default_rng(0)
income = rng.lognormal(np.log(38), 0.55, 400)[:, None]
tax = np.round(calculator(income), 3)
found = planted.recover(income, tax, random_state=0)
table = planted.kinks(found, features=["income"], targets=["tax"])
print(found.outcome.name)
print(table)

places = [kink.place for kink in table]
assert np.allclose(places, [ALLOWANCE, SECOND, TOP], atol=0.02)
assert np.allclose(np.cumsum([kink.change[0] for kink in table]), RATES, atol=1e-4)

# %%
# Asking the calculator
# ---------------------
# Whoever may type incomes into the calculator needs no table: the brackets come back to rounding.

asked = planted.identify(calculator, n_features=1, box=(0.0, 200.0), random_state=0)
read = planted.kinks(asked, features=["income"], targets=["tax"])
print(f"{asked.outcome.name} after {asked.stats['queries']} questions")
print(read)
assert np.allclose(sorted(kink.place for kink in read), [ALLOWANCE, SECOND, TOP], rtol=0, atol=1e-9)

# %%
# The schedule, and what was read
# -------------------------------

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
line = np.linspace(0, 120, 500)[:, None]
shown = income[:, 0] < 120
axes.plot(income[shown, 0], tax[shown, 0], ".", markersize=4, alpha=0.5, label="rounded table")
axes.plot(line[:, 0], found.network(line)[:, 0], color="black", linewidth=1, label="recovered schedule")
for place in places:
    axes.axvline(place, color="tab:orange", linestyle="--", linewidth=1)
axes.set(xlabel="income, in thousands", ylabel="tax, in thousands")
axes.legend()
plt.show()
