"""
Bound and truth
===============

The certificate is an upper bound. It follows the true suboptimality at a small distance.
"""

import matplotlib.pyplot as plt
import numpy as np

import vrpca

X = np.random.default_rng(0).standard_normal((3000, 300)) / np.arange(1, 301) ** 0.7
k = 5
best = (np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:k] ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
history = vrpca.PCA(k, solver="krylov", tol=1e-13, random_state=0).fit(X).history_

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
passes = [record.passes for record in history]
axes.semilogy(passes, [record.bound for record in history], "o-", label="certified")
axes.semilogy(passes, [max(1 - record.objective / best, 1e-16) for record in history], "s--", label="true")
axes.set(xlabel="passes over the data", ylabel="suboptimality")
axes.legend()
plt.show()
