"""
Data larger than memory
=======================

A file that is read block by block under a memory limit, a fit that survives being killed, and scores that go to a file.
"""

# %%
# The data: a file of 80 MB, written in pieces. Imagine it a thousand times as large: nothing below would change.
import tempfile
from pathlib import Path

import numpy as np

import vrpca

folder = Path(tempfile.mkdtemp())
n, d = 50_000, 400
rng = np.random.default_rng(0)
mixing = rng.standard_normal((12, d)) * np.geomspace(3, 0.5, 12)[:, None]
file = np.lib.format.open_memmap(folder / "data.npy", "w+", np.float32, (n, d))
for start in range(0, n, 10_000):
    file[start : start + 10_000] = rng.standard_normal((10_000, 12)) @ mixing + rng.standard_normal((10_000, d))
del file

# %%
# What would a fit do? `info` reads the header of this file alone, and says how much memory and how many passes it
# expects. (Text files are converted first, as for a fit.)
print(vrpca.info(folder / "data.npy", 5, memory_limit="30MB"))

# %%
# A fit that may take 30 MB. ``cost="reading"`` would save readings of the file for more arithmetic, as much as a disk
# leaves time for. It is the default for files that every pass reads from the disk: a ``.npy`` file of 1 GB or more
# under a limit, say. ``cost="passes"`` saves still more of them. Several files are one matrix: ``fit("part-*.npy")``.
model = vrpca.PCA(5, memory_limit="30MB", random_state=0).fit(folder / "data.npy")
print(model.certificate_)
print(f"{model.n_passes_:.2f} passes, solver {model.solver_}")

# %%
# A limit that cannot be kept is refused before any row is read, with the smallest one that would do.
try:
    vrpca.PCA(5, memory_limit="100kB").fit(folder / "data.npy")
except vrpca.OptionError as error:
    print(error)

# %%
# A checkpoint. Here the fit is cut short by a budget of two passes; the second fit goes on from the file, to the same
# bits as without a break.
import warnings

options = {"n_components": 5, "solver": "krylov", "tol": 1e-10, "random_state": 0, "checkpoint": folder / "fit.npz"}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that two passes were too few
    first = vrpca.PCA(**options, max_passes=2).fit(folder / "data.npy")
print(first.status_.name, f"after {first.n_passes_:.0f} passes; bound {first.certificate_.suboptimality:.1e}")
rest = vrpca.PCA(**options).fit(folder / "data.npy")
print(rest.status_.name, f"after {rest.n_passes_:.0f} passes in all; bound {rest.certificate_.suboptimality:.1e}")

# %%
# How the bound fell. Each record of the history is one step.
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.semilogy([r.passes for r in rest.history_], [r.bound for r in rest.history_], "o-", label="krylov")
axes.semilogy([r.passes for r in model.history_], [r.bound for r in model.history_], "s-", label=model.solver_)
axes.axhline(1e-8, color="gray", linestyle="--", label="default tol")
axes.set(xlabel="passes over the file", ylabel="certified suboptimality")
axes.legend()
plt.show()

# %%
# The same in the shell, where the scores need no memory either::
#
#     vrpca fit data.npy -k 5 --memory 30MB --checkpoint fit.npz --out model.npz
#     vrpca transform model.npz data.npy --out scores.npy
#     vrpca check model.npz data.npy
import shutil

shutil.rmtree(folder)
