"""
How accurate is my PCA?
=======================

Most solvers return *some* answer. This one says how good it is; the same question can be asked about models of others.
"""

# %%
# The data: a slowly falling spectrum, as text, genotypes and embeddings have it. Randomized solvers find it hard.
import numpy as np
import sklearn.decomposition
from scipy.linalg import svdvals

import vrpca
from vrpca.check import check

rng = np.random.default_rng(0)
n, d, k = 3000, 600, 20
X = rng.standard_normal((n, d)) * (1 + 2 * np.exp(-np.arange(d) / 40))

# %%
# The yardstick is the suboptimality: 1 - (variance explained) / (the most that k components can explain).
best = (svdvals(X - X.mean(axis=0))[:k] ** 2).sum()


def suboptimality(components):
    """The truth, which takes a full decomposition."""
    q = np.linalg.qr(components.T)[0]
    return 1 - (((X - X.mean(axis=0)) @ q) ** 2).sum() / best


theirs = sklearn.decomposition.PCA(k, svd_solver="randomized", random_state=0).fit(X)
ours = vrpca.PCA(k, tol=1e-6, random_state=0).fit(X)
print(f"scikit-learn, randomized: true suboptimality {suboptimality(theirs.components_):.1e}; it says nothing")
print(f"vrpca, tol=1e-6:          true suboptimality {suboptimality(ours.components_):.1e}; it says")
print(ours.certificate_)

# %%
# Single components suffer more than their sum: here is how far each direction is off, as the sine of its angle.
import matplotlib.pyplot as plt

truth = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:k]
figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, components in {"scikit-learn, randomized": theirs.components_, "vrpca, tol=1e-6": ours.components_}.items():
    cosines = np.minimum(np.abs((components * truth).sum(axis=1)), 1)
    axes.semilogy(np.arange(1, k + 1), np.sqrt(1 - cosines**2), "o-", markersize=4, label=name)
axes.set(xlabel="component", ylabel="sine of the angle to the truth")
axes.legend()
plt.show()

# %%
# `vrpca.check.check` (on the command line: ``vrpca check model.npz data.npy``) looks at the data anew. It takes nothing
# from the model but its components, and has three verdicts: proven, wrong, and not proven within the passes allowed.
found = check(ours, X)
print(found.verdict, f"- bound {found.certificate.suboptimality:.1e} after {found.n_passes:.0f} passes")

# %%
# A model of somebody else is checked by putting its components into one of ours.
foreign = vrpca.PCA(k, tol=1e-6, random_state=0).fit(X)
foreign.components_ = theirs.components_
found = check(foreign, X)
print(found.verdict, f"- its suboptimality is at least {found.at_least:.1e}")
