"""
Choosing tol and certificate
============================

What the tolerance means, what accuracy costs, how to ask for directions instead of variance, and the kinds of proof.
"""

# %%
# The data: a slowly falling power law, 3000 x 800.
import matplotlib.pyplot as plt
import numpy as np

import vrpca

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 800)) / np.arange(1, 801) ** 0.4
options = {"n_components": 8, "solver": "accelerated", "random_state": 0}

# %%
# Accuracy is cheap
# -----------------
# The run stops when its certificate is below ``tol``. Each pass gains about as many digits as the one before, so that
# the number of passes grows with the number of digits, not with 1/tol.
accurate = vrpca.PCA(tol=1e-11, **options).fit(X)
bounds = np.array([record.bound for record in accurate.history_])
passes = np.array([record.passes for record in accurate.history_])
for tol in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10):
    print(f"tol={tol:g} after {passes[bounds <= tol][0]:.1f} passes")
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.semilogy(passes, bounds, "o-")
axes.set(xlabel="passes over the data", ylabel="certified suboptimality")
plt.show()

# %%
# A rule of thumb:
#
# ============================================  ==========================================
# what you need                                 what to ask for
# ============================================  ==========================================
# a picture, features for a classifier          ``tol=1e-3``
# variances to a few digits, reports            ``tol=1e-6``
# the default: like an exact solver             ``tol=1e-8``
# single components, compared between runs      ``angle_tol=1e-6``
# a statement that holds but for a probability  ``certificate="probabilistic"``
# ============================================  ==========================================

# %%
# Directions
# ----------
# Suboptimality is quadratic in the angles. ``tol`` leaves a sine of about the square root of ``tol`` times the sum of
# the eigenvalues, over the gap: 1e-4 at ``tol=1e-8`` if the gap is as large as that sum, a degree and more where gaps
# are small. ``angle_tol`` goes on until every certified angle is small enough.
for asked in ({"tol": 1e-8}, {"angle_tol": 1e-8}):
    model = vrpca.PCA(**options, **asked).fit(X)
    print(asked, f"{model.n_passes_:.1f} passes, largest angle {model.certificate_.angles.max():.1e}")

# %%
# Kinds
# -----
# ``estimated`` costs nothing extra; ``probabilistic`` searches for what was missed from fresh random vectors, which
# takes further passes; ``exact`` comes with the solver ``gram``, which knows the whole spectrum.
for extra in ({}, {"certificate": "probabilistic"}, {"solver": "gram"}):
    model = vrpca.PCA(**(options | extra)).fit(X)
    print(f"{model.certificate_.kind:14} {model.certificate_.suboptimality:.1e} after {model.n_passes_:.1f} passes")

# %%
# Not reached
# -----------
# Too few passes, or a tolerance below the rounding of float32: a warning says why, and the certificate is as true as
# ever.
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = vrpca.PCA(max_passes=3, **options).fit(X)
print(model.converged_, f"{model.certificate_.suboptimality:.1e}")
print(caught[0].message)
