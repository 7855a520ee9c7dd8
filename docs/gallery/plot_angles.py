"""
Which components can be trusted
===============================

Certified angles of single components: small where a gap sets a component apart, large where two variances nearly agree.
"""

import matplotlib.pyplot as plt
import numpy as np

import vrpca

deviations = np.r_[6, 5, 3.001, 3, 2, 1.5, np.full(194, 0.5)]
rng = np.random.default_rng(0)
X = np.linalg.qr(rng.standard_normal((3000, 200)))[0] * deviations
model = vrpca.PCA(6, solver="krylov", center=False, tol=1e-9, random_state=0).fit(X)

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.bar(np.arange(1, 7), model.certificate_.angles)
axes.set(yscale="log", xlabel="component", ylabel="bound on the sine of its angle")
axes.set_title("Components 3 and 4 have nearly the same variance")
plt.show()
