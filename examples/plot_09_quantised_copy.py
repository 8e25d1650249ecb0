"""
Is the copy on the device still the same function?
==================================================

A network is stored in single precision, or its weights are rounded to a few bits. ``planted.compare`` decides
on the parameters whether the two are the same function everywhere, and if not, which units moved and at which
input it shows.
"""

# %%
# A reference and its copies
# --------------------------

import matplotlib.pyplot as plt
import numpy as np

import planted

reference = planted.simulate.teacher(6, 10, 2, bias=(-0.5, 0.5), random_state=0).canonical()


def rounded(bits):
    """Return the reference with every array rounded to a grid of so many bits."""
    arrays = {}
    for name in "WbAc":
        values = getattr(reference, name)
        step = (np.abs(values).max() or 1.0) / (2 ** (bits - 1) - 1)
        arrays[name] = np.round(values / step) * step
    return planted.TwoLayerNetwork(**arrays)


single = planted.TwoLayerNetwork(
    **{name: getattr(reference, name).astype(np.float32).astype(float) for name in "WbAc"}
)

# %%
# Equal up to what?
# -----------------
# Single precision is not equality, and the default tolerance says so. With a tolerance that fits single
# precision the copy passes; one rounded to 8 bits does not.

for name, copy, tol in [
    ("single precision", single, 1e-9),
    ("single precision", single, 1e-5),
    ("8 bits", rounded(8), 1e-5),
]:
    answer = planted.compare(reference, copy, tol=tol, random_state=0)
    print(f"{name}, tolerance {tol:g}: equal {answer.is_equal}. {answer.detail}")

# %%
# One unit damaged
# ----------------
# Change the bias of one unit only: the comparison names it, and the witness is an input on which the outputs
# differ.

biases = reference.b.copy()
biases[3] += 0.01
damaged = planted.TwoLayerNetwork(W=reference.W, b=biases, A=reference.A, c=reference.c)
answer = planted.compare(reference, damaged, random_state=0)
print("units that differ (reference, copy):", answer.units)
print("witness:", np.round(answer.witness, 3))
gap = np.abs(reference(answer.witness[None]) - damaged(answer.witness[None])).max()
print("difference there:", gap, "as reported:", answer.difference)
assert answer.units == ((3, 3),)

# %%
# How many bits are needed?
# -------------------------
# The reported difference is the largest that was seen, not a bound; beside it stands the largest difference
# on a fresh sample of inputs.

probe = planted.simulate.inputs(20000, 6, random_state=1)
spread = reference(probe).std()
bits = np.arange(4, 21, 2)
seen = [planted.compare(reference, rounded(int(b)), random_state=0).difference / spread for b in bits]
fresh = [np.abs(reference(probe) - rounded(int(b))(probe)).max() / spread for b in bits]
for b, first, second in zip(bits, seen, fresh, strict=True):
    print(f"{b:2d} bits: at the witness {first:.1e}, largest on fresh inputs {second:.1e}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogy(bits, fresh, "o-", label="largest on fresh inputs")
left.semilogy(bits, seen, "s--", label="at the witness")
left.set(xlabel="bits per weight", ylabel="difference / spread of the outputs", title="Rounded copies")
left.legend()
way = np.linspace(-2, 2, 401)
path = (
    way[:, None] * reference.W[3]
)  # rows of W have unit length: the place is the pre-activation minus the bias
right.plot(way, damaged(path) - reference(path), label=["output 0", "output 1"])
right.axvline(-reference.b[3], color="grey", ls="--", lw=0.8)
right.set(
    xlabel="place along the unit's own direction",
    ylabel="change of the outputs",
    title="Across the damaged unit",
)
right.legend()
plt.show()
