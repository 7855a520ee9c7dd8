"""
Solvers side by side
====================

How the certified suboptimality of every solver falls with each pass over the data.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import vrpca

X = np.random.default_rng(0).standard_normal((4000, 200)) * np.geomspace(2, 0.2, 200)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for solver in ("oja", "power", "vr", "hybrid", "krylov", "accelerated"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some do not converge within 25 passes: that is what is shown
        history = vrpca.PCA(1, solver=solver, tol=1e-12, max_passes=25, random_state=0).fit(X).history_
    axes.semilogy([r.passes for r in history], [r.bound for r in history], "o-", markersize=3, label=solver)
axes.set(xlabel="passes over the data", ylabel="certified suboptimality", title="One component of a 4000 x 200 matrix")
axes.legend()
plt.show()
