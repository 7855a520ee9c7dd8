"""`vrpca.anndata.pca`: what scanpy's `pp.pca` would write, where it would write it, for data in memory and in files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.decomposition

import vrpca
from helpers import gather
from vrpca.data.open import as_source
from vrpca.data.selected import SelectedColumns

anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install 'vrpca[anndata]'")

RNG = np.random.default_rng(5)
# Counts of 120 cells with three programmes of genes, logarithmised: as single cells are, but small.
RATES = np.exp(RNG.standard_normal((120, 3)) @ RNG.standard_normal((3, 60)))
X = np.log1p(RNG.poisson(RATES)).astype(np.float32)
MASK = RNG.random(60) < 0.6
FORMS = {"dense": np.asarray, "csr": sp.csr_matrix, "csc": sp.csc_matrix, "csr_array": sp.csr_array}


def cells(form="csr", data=X):
    adata = anndata.AnnData(FORMS[form](data))
    adata.var["chosen"] = MASK
    return adata


def backed(tmp_path, form):
    path = tmp_path / f"{form}.h5ad"
    cells(form).write_h5ad(path)
    return anndata.read_h5ad(path, backed="r")


def assert_like_scanpy(adata, data, k, mask=None, keys=("X_pca", "PCs", "pca")):
    """scanpy calls scikit-learn's PCA, whose signs are decided by the loadings."""
    kept = data if mask is None else data[:, mask]
    theirs = sklearn.decomposition.PCA(k, svd_solver="full").fit(kept.astype(np.float64))
    in_obsm, in_varm, in_uns = keys
    scores, loadings, said = adata.obsm[in_obsm], adata.varm[in_varm], adata.uns[in_uns]
    assert scores.dtype == np.float32 and scores.shape == (len(data), k) and loadings.shape == (data.shape[1], k)
    np.testing.assert_allclose(scores, theirs.transform(kept), atol=2e-3)
    expected = np.zeros((data.shape[1], k))
    expected[slice(None) if mask is None else mask] = theirs.components_.T
    np.testing.assert_allclose(loadings, expected, atol=1e-3)
    np.testing.assert_allclose(said["variance"], theirs.explained_variance_, rtol=1e-5)
    np.testing.assert_allclose(said["variance_ratio"], theirs.explained_variance_ratio_, rtol=1e-5)
    assert said["certificate"]["converged"] and said["certificate"]["suboptimality"] <= 1e-8


@pytest.mark.parametrize("form", FORMS)
def test_in_memory(form):
    adata = cells(form)
    before = adata.X.copy()
    assert vrpca.anndata.pca(adata, n_comps=4) is None
    assert_like_scanpy(adata, X, 4)
    assert adata.uns["pca"]["params"] == {"zero_center": True, "use_highly_variable": False, "mask_var": None}
    assert type(adata.X) is type(before) and abs(adata.X - before).max() == 0


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["all genes", "some"])
@pytest.mark.parametrize("options", [{}, {"memory_limit": "200MB"}, {"solver": "krylov"}], ids=str)
def test_in_a_file(tmp_path, form, mask, options):
    adata = backed(tmp_path, form)
    vrpca.anndata.pca(adata, n_comps=4, mask_var=mask, **options)
    assert_like_scanpy(adata, X, 4, mask)
    assert adata.isbacked
    adata.file.close()


@pytest.mark.parametrize("form", FORMS)
def test_highly_variable_genes_are_the_default(form):
    adata = cells(form)
    adata.var["highly_variable"] = MASK
    vrpca.anndata.pca(adata, n_comps=3)
    assert_like_scanpy(adata, X, 3, MASK)
    params = adata.uns["pca"]["params"]
    assert params["use_highly_variable"] and params["mask_var"] == "highly_variable"
    vrpca.anndata.pca(adata, n_comps=3, mask_var=None)
    assert_like_scanpy(adata, X, 3)
    vrpca.anndata.pca(adata, n_comps=3, mask_var="chosen")
    assert_like_scanpy(adata, X, 3, MASK)
    assert not adata.uns["pca"]["params"]["use_highly_variable"]


def test_layers_and_names_of_results():
    adata = cells(data=np.zeros_like(X))
    adata.layers["log"] = sp.csr_matrix(X)
    found = vrpca.anndata.pca(adata, 3, layer="log", key_added="mine", copy=True, mask_var=MASK)
    assert not adata.obsm and not adata.varm and not adata.uns
    assert_like_scanpy(found, X, 3, MASK, ("mine", "mine", "mine"))
    assert found.uns["mine"]["params"]["layer"] == "log"


def test_without_centring_it_is_a_truncated_svd():
    adata = cells()
    vrpca.anndata.pca(adata, 3, zero_center=False)
    theirs = sklearn.decomposition.TruncatedSVD(3, algorithm="arpack").fit(X.astype(np.float64))
    np.testing.assert_allclose(np.abs(adata.obsm["X_pca"]), np.abs(theirs.transform(X)), atol=2e-3)
    np.testing.assert_allclose(adata.uns["pca"]["variance"], theirs.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(adata.uns["pca"]["variance_ratio"], theirs.explained_variance_ratio_, rtol=1e-4)


def test_scaling_keeps_sparse_data_sparse():
    adata = cells()
    vrpca.anndata.pca(adata, 3, scale=True)
    theirs = vrpca.PCA(3, scale=True, random_state=0).fit(X)
    np.testing.assert_allclose(adata.obsm["X_pca"], theirs.transform(X), atol=1e-3)
    assert adata.uns["pca"]["params"]["scale"] is True


def test_the_default_number_and_fractions():
    adata = cells(data=X[:8])
    vrpca.anndata.pca(adata)
    assert adata.obsm["X_pca"].shape == (8, 7)
    adata = cells()
    vrpca.anndata.pca(adata)
    assert adata.obsm["X_pca"].shape == (120, 50)
    vrpca.anndata.pca(adata, 0.5, dtype="float64")
    assert adata.uns["pca"]["variance_ratio"].sum() >= 0.5 and adata.obsm["X_pca"].dtype == np.float64


def test_results_are_written_to_files(tmp_path):
    adata = cells()
    vrpca.anndata.pca(adata, 3, mask_var="chosen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(again.obsm["X_pca"], adata.obsm["X_pca"])
    assert again.uns["pca"]["certificate"]["kind"] == adata.uns["pca"]["certificate"]["kind"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "raw"}, "layer='raw' is none of adata.layers: there are none"),
        ({"mask_var": "none"}, "mask_var='none' is no column of adata.var: there are 'chosen'"),
        ({"mask_var": np.ones(3, bool)}, r"mask_var must hold 60 truth values.*shape \(3,\)"),
        ({"mask_var": np.arange(60)}, "mask_var must hold 60 truth values.*int64"),
        ({"mask_var": np.zeros(60, bool)}, "leaves no gene"),
        ({"n_comps": 61}, r"n_comps=61 must be between 1 and min\(n_samples, n_features\)=60"),
        ({"tol": -1}, "tol=-1"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    adata = cells()
    with pytest.raises(vrpca.OptionError, match=message):
        vrpca.anndata.pca(adata, **({"n_comps": 3} | options))
    assert not adata.obsm and not adata.uns


def test_other_things_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"takes an AnnData object, not a ndarray: pass arrays.*vrpca.PCA"):
        vrpca.anndata.pca(X)
    with pytest.raises(vrpca.DataError, match="adata has no X: name a layer"):
        vrpca.anndata.pca(anndata.AnnData(obs={"a": [1, 2]}))
    part = backed(tmp_path, "csr")[:, :20]
    with pytest.raises(TypeError, match=r"part of an AnnData object in a file.*mask_var=.*to_memory"):
        vrpca.anndata.pca(part, 3)
    with pytest.raises(TypeError, match="no option 'svd_solver' here"):
        vrpca.anndata.pca(cells(), 3, svd_solver="arpack")


@pytest.mark.parametrize("form", FORMS)
def test_selected_columns_are_those(form):
    kept = np.flatnonzero(MASK)
    source = SelectedColumns(as_source(FORMS[form](X)), kept)
    np.testing.assert_array_equal(gather(source), X[:, kept])
    np.testing.assert_array_equal(gather(source.transposed()), X[:, kept].T)
    np.testing.assert_array_equal(gather(source.transposed().transposed()), X[:, kept])
    assert 0 < source.entries <= X[:, kept].size
