"""
A table
=======

A data frame with names and columns of different units: fit, read the loadings, project, keep the model.
"""

# %%
# The data: 2000 days of weather at one place, made from three hidden causes (the season, pressure systems, wind).
import numpy as np
import pandas as pd

import vrpca

rng = np.random.default_rng(0)
days = np.arange(2000)
season, pressure, wind = np.sin(2 * np.pi * days / 365), rng.standard_normal(2000), rng.standard_normal(2000)
noise = rng.standard_normal((2000, 6)) * 0.3
table = pd.DataFrame(
    {
        "temperature": 10 + 8 * (season + noise[:, 0]),
        "sunshine": 5 + 3 * (season + 0.5 * pressure + noise[:, 1]),
        "pressure": 1013 + 9 * (pressure + noise[:, 2]),
        "rain": 2 - 1.5 * (pressure + noise[:, 3]),
        "gusts": 40 + 15 * (wind + noise[:, 4]),
        "waves": 2 + 0.7 * (wind + noise[:, 5]),
    }
)

# %%
# Units differ, so ``scale=True`` divides every column by its standard deviation. Centring is the default. Neither makes
# a copy of the table.
model = vrpca.PCA(n_components=3, scale=True, random_state=0).fit(table)
print(model.explained_variance_ratio_.round(3))
print(model.certificate_)

# %%
# The certificate says how far from optimal these components can be. Here it is ``exact``: with six columns, the solver
# ``gram`` knows all eigenvalues. ``solver_reason_`` says why it was chosen.
print(model.solver_, "-", model.solver_reason_)

# %%
# Loadings, with the names of the columns: each component is one of the causes, or a mixture of two.
loadings = pd.DataFrame(model.components_.T, index=model.feature_names_in_, columns=["PC1", "PC2", "PC3"])
loadings.round(2)

# %%
# Scores, as a data frame if you ask for it the way of scikit-learn.
scores = model.set_output(transform="pandas").transform(table)
scores.head(3)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
loadings.plot.barh(ax=axes[0], title="Loadings")
axes[1].scatter(scores.iloc[:, 0], scores.iloc[:, 1], c=season, s=6, cmap="coolwarm")
axes[1].set(xlabel="PC1", ylabel="PC2", title="Days, coloured by season")
plt.show()

# %%
# A fraction in place of a number: as many components as explain 90% of the variance.
print(vrpca.PCA(n_components=0.9, scale=True).fit(table).n_components_)

# %%
# A model is one ``.npz`` file with no pickle in it. The command line reads and writes the same files:
# ``vrpca fit table.csv -k 3 --scale --out model.npz``.
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    vrpca.save(model, Path(folder) / "model.npz")
    again = vrpca.load(Path(folder) / "model.npz")
print(np.array_equal(again.components_, model.components_))
