"""
A file that is larger than memory: what is held at a time?
==========================================================

``planted.RowBlocks`` is a source of row blocks that can be read several times: a memory map, a database, a
folder of files. The methods read it in passes and keep sums. Does memory really stay flat while the file
grows?
"""

# %%
# A source of blocks
# ------------------
# The generator is opened anew for every pass. A block is copied out of the file, used, and forgotten.

import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import planted

BLOCK = 4096
truth = planted.simulate.teacher(4, 3, 4, activity=(0.3, 0.7), law="exponential", random_state=3)


def write_table(path, rows):
    """Write inputs and outputs side by side, block by block."""
    rng = np.random.default_rng(1)
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, 8))
    for start in range(0, rows, BLOCK):
        X = rng.exponential(size=(min(BLOCK, rows - start), 4)) - 1.0
        table[start : start + BLOCK] = np.column_stack([X, truth(X)])
    table.flush()


def blocks_of(path):
    """Return the blocks of a table on disk."""

    def read():
        table = np.load(path, mmap_mode="r")
        for start in range(0, len(table), BLOCK):
            block = np.array(table[start : start + BLOCK])
            yield block[:, :4], block[:, 4:]

    return planted.RowBlocks(read)


# %%
# From a few thousand to a million rows
# -------------------------------------
# ``tracemalloc`` counts what Python and NumPy allocate. The samples are noiseless. A first small recovery is
# not counted, because it imports modules.

warm_up = planted.simulate.dataset(200, truth, law="exponential", random_state=4)
planted.recover(warm_up.X, warm_up.Y, n_hidden=3, method="complementarity", random_state=0)

sizes, files, peaks = [4_000, 20_000, 100_000, 500_000, 1_000_000], [], []
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "table.npy"
    for rows in sizes:
        write_table(path, rows)
        tracemalloc.start()
        started = time.perf_counter()
        recovery = planted.recover(blocks_of(path), n_hidden=3, method="complementarity", random_state=0)
        seconds = time.perf_counter() - started
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
        files.append(path.stat().st_size / 1e6)
        error = planted.parameter_error(recovery.network, truth)
        print(
            f"{rows:9,d} rows, file {files[-1]:5.1f} MB: peak {peaks[-1]:5.1f} MB, {seconds:4.1f} s, "
            f"{recovery.outcome.name}, largest error {error:.1e}"
        )
        assert recovery.outcome is planted.Outcome.RECOVERED

# %%
# The curve bends
# ---------------
# Up to some size everything is looked at closely; beyond it, a sample of bounded size is, and the rest is
# summed. The last two peaks differ by little while the file doubles.

print(f"file grew by {files[-1] / files[-2]:.2f}, peak by {peaks[-1] / peaks[-2]:.2f}")
assert peaks[-1] < 1.1 * peaks[-2]

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axes.loglog(sizes, files, "s--", color="grey", label="file")
axes.loglog(sizes, peaks, "o-", label="peak memory of the recovery")
axes.set(xlabel="rows", ylabel="MB", title="The file grows, memory does not")
axes.legend()
plt.show()
