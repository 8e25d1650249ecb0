"""
More rows than one process wants to read: does a cluster give the same network?
===============================================================================

Every sum over rows can be computed by the workers of a Dask cluster. Here the cluster is two processes of this
machine; with the address of a scheduler it is any cluster you have. What travels over the wire, and is the
answer really the same?
"""

# %%
# A folder of files
# -----------------
# Rows lie in three Parquet files of different lengths. Together they are one table.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import planted
from planted.io import write_table
from planted.moments import accumulate_normal
from planted.rows import pack_sums

INPUTS, OUTPUTS = [f"x{j}" for j in range(5)], [f"y{j}" for j in range(4)]


def write_folder(folder, truth):
    """Write 120,000 rows into three files."""
    rng = np.random.default_rng(2)
    for name, rows in (("a", 50_000), ("b", 10_000), ("c", 60_000)):
        X = rng.exponential(size=(rows, 5)) - 1.0
        values = np.hstack([X, truth(X)])
        write_table(Path(folder) / f"{name}.parquet", dict(zip(INPUTS + OUTPUTS, values.T, strict=True)))


# %%
# One process, then two workers
# -----------------------------
# ``planted.open_blocks`` looks at the heads of the files only. ``planted.on_cluster`` sends each worker the numbers
# of the parts it is to read, and merges the sums that come back in a fixed order. The condition on ``__name__`` is
# what Python asks of every script that starts processes.

if __name__ == "__main__":
    truth = planted.simulate.teacher(5, 3, 4, activity=(0.3, 0.7), law="exponential", random_state=3)
    options = {"n_hidden": 3, "method": "complementarity", "random_state": 0}
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, truth)
        rows = planted.open_blocks(folder, targets=OUTPUTS)
        alone = planted.recover(rows, **options)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
        with cluster, Client(cluster) as client:
            together = planted.recover(planted.on_cluster(rows, client), **options)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        sums = accumulate_normal(rows, truth)
    print(f"{together.outcome.name}, largest error {planted.parameter_error(together.network, truth):.1e}")
    is_same = all(np.array_equal(getattr(alone.network, n), getattr(together.network, n)) for n in "WbAc")
    print(f"bits of the two networks equal: {is_same}; passes over the rows: {together.stats['passes']}")
    assert is_same and together.outcome is planted.Outcome.RECOVERED

    # %%
    # What travels
    # ------------
    # Rows stay with the workers. The sums of the largest pass, those of the normal equations, take as much for
    # 10⁹ rows as for these.

    n_parts = rows.source.n_parts
    sent = n_parts * sum(array.nbytes for array in pack_sums(sums).values())
    print(f"{size / 1e6:.1f} MB of files, {n_parts} parts, {sent / 1e3:.1f} kB of sums in the largest pass")
    figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    bars = axes.barh(["files", "sums sent in a pass"], [size, sent], color=["grey", "tab:blue"])
    axes.bar_label(bars, [f"{size / 1e6:.1f} MB", f"{sent / 1e3:.0f} kB"], padding=4)
    axes.set(xscale="log", xlabel="bytes", title="Rows stay, sums travel", xlim=(1e3, 1e8))
    plt.show()
