"""
Dask
====

An array in chunks, wherever they are: every pass is one task per chunk, and only small matrices travel.
"""

# %%
# The data: 20 chunks that are made when they are needed. On a cluster each would be read where it lies; the code is the
# same with a `dask.distributed.Client`.
import dask.array as da
import numpy as np

import vrpca

rng = np.random.default_rng(0)
mixing = rng.standard_normal((10, 300)) * np.geomspace(4, 1, 10)[:, None]


def chunk(seed):
    """One chunk of rows."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2000, 10)) @ mixing + rng.standard_normal((2000, 300))


from dask import delayed

X = da.concatenate([da.from_delayed(delayed(chunk)(seed), (2000, 300), float) for seed in range(20)])
print(X.shape, X.numblocks)

# %%
# The same estimator as for data in memory.
model = vrpca.PCA(n_components=5, random_state=0).fit(X)
print(model.certificate_)
print(f"{model.n_passes_:.2f} passes, solver {model.solver_}")

# %%
# The scores are a dask array, too: nothing is computed before you ask.
scores = model.transform(X)
print(type(scores).__module__, scores.shape)
print(np.asarray(scores[:2]).round(2))
