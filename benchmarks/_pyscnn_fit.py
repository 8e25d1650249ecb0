"""Fit pyscnn's convex form of a ReLU network to X and y of an .npz and store its units; `peers` runs this elsewhere.

pyscnn lives in an environment of its own: this file needs NumPy and pyscnn alone.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scnn.optimize import optimize
from scnn.regularizers import NeuronGL1


def main(source: str, target: str, neurons: str, penalty: str, seed: str) -> None:
    with np.load(source, allow_pickle=False) as data:
        X, y = data["X"], data["y"]
    began = time.process_time()
    regularizer = NeuronGL1(float(penalty))
    model, _ = optimize("relu", int(neurons), X, y, regularizer=regularizer, bias=True, seed=int(seed))
    W, b, A = (np.asarray(part, dtype=float) for part in model.parameters)
    np.savez(target, W=W, b=b, A=A, cpu=time.process_time() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
