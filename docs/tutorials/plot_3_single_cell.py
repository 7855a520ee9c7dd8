"""
Single cells
============

Counts of genes in cells: sparse, to be centred without becoming dense, fifty components.
"""

# %%
# The data: 4000 cells of five types, 2000 genes. Each type has marker genes; every cell has a depth of its own.
import numpy as np
import scipy.sparse as sp

import vrpca

rng = np.random.default_rng(0)
cells, genes, types = 4000, 2000, 5
kind = rng.integers(types, size=cells)
rates = rng.gamma(0.3, 0.3, size=(types, genes)) * (rng.random((types, genes)) < 0.1) * 8 + rng.gamma(0.3, 0.2, genes)
counts = sp.csr_array(rng.poisson(rates[kind] * rng.lognormal(0, 0.4, (cells, 1))).astype(np.float32))
print(f"{counts.nnz / cells / genes:.1%} of the entries are not zero")

# %%
# The usual preparation: the same depth for every cell, then logarithms. Zeros stay zeros.
depth = np.asarray(counts.sum(axis=1)).ravel()
X = (sp.diags_array(np.median(depth) / depth) @ counts).tocsr()
X.data = np.log1p(X.data).astype(np.float32)

# %%
# Fifty components of the centred matrix. A dense copy would take
print(f"{cells * genes * 4 / 1e6:.0f} MB; the sparse matrix has {X.data.nbytes * 2 / 1e6:.0f} MB")
model = vrpca.PCA(n_components=50, tol=1e-6, random_state=0).fit(X)
print(model.certificate_)
print(f"{model.n_passes_:.1f} passes, solver {model.solver_}")

# %%
# How many components carry structure? The types are in the first four; the rest is noise.
import matplotlib.pyplot as plt

scores = model.transform(X)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].semilogy(np.arange(1, 51), model.explained_variance_, "o-", markersize=3)
axes[0].set(xlabel="component", ylabel="variance", title="Scree")
axes[1].scatter(scores[:, 0], scores[:, 1], c=kind, s=4, cmap="tab10")
axes[1].set(xlabel="PC1", ylabel="PC2", title="Cells, coloured by type")
plt.show()

# %%
# AnnData, and files
# ------------------
# ``vrpca.anndata.pca(adata)`` takes the place of scanpy's ``pp.pca``: :doc:`/single-cell`.
#
# ``vrpca.PCA(50).fit("cells.h5ad")`` reads X of an AnnData file block by block, and ``"cells.h5ad::layers/counts"`` a
# layer. On the command line: ``vrpca fit cells.h5ad -k 50 --out model.npz``. :doc:`/files` has the details.
