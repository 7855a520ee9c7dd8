"""Single cells: principal components of an AnnData object, written where scanpy's `pp.pca` writes them."""

from __future__ import annotations

from enum import Enum
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.extras import needs
from vrpca.data.open import as_source
from vrpca.data.selected import SelectedColumns
from vrpca.decomposition import Decomposition, Request, decompose
from vrpca.errors import DataError, DataTypeError, OptionError
from vrpca.options import SolveOptions, shown
from vrpca.scores import scores

MOST_BY_DEFAULT = 50  # components, as in scanpy


class Default(Enum):
    """What `mask_var` is if nothing is said."""

    HIGHLY_VARIABLE = "the column 'highly_variable' of adata.var, if there is one"


def pca(
    adata: Any,
    n_comps: int | float | None = None,
    *,
    layer: str | None = None,
    mask_var: Any = Default.HIGHLY_VARIABLE,
    zero_center: bool = True,
    scale: bool = False,
    dtype: str | np.dtype = "float32",
    key_added: str | None = None,
    copy: bool = False,
    **options: Unpack[SolveOptions],
) -> Any:
    """Principal components of the cells, in place of ``scanpy.pp.pca``.

    Sparse data stay sparse. Data in a file (``anndata.read_h5ad(path, backed="r")``) are read block by block.

    Parameters
    ----------
    adata : anndata.AnnData
        Cells in rows, genes in columns: normalised and logarithmised counts, as a rule.
    n_comps : int or float, optional
        Number of components; a fraction in (0, 1) for as many as explain that part of the variance. By default 50, or
        one less than there are cells or genes where there are fewer.
    layer : str, optional
        The element of `adata.layers` to take in place of X.
    mask_var : str or array of bool, optional
        Which genes to take: the name of a column of `adata.var`, or one truth value per gene. By default the column
        ``"highly_variable"``, if there is one; None for all genes.
    zero_center : bool
        Subtract the genes' means, implicitly.
    scale : bool
        Divide by the genes' deviations, implicitly: ``scanpy.pp.scale`` would make the data dense.
    dtype : str or dtype
        The type of the cells' coordinates.
    key_added : str, optional
        A name for all three results, in place of scanpy's three.
    copy : bool
        Return a copy of `adata` with the results, and leave `adata` as it is.
    **options
        As for `vrpca.PCA`: `tol`, `angle_tol`, `memory_limit`, `n_threads`, `verbose`, ... `random_state` is 0 unless
        it is given.

    Returns
    -------
    anndata.AnnData or None
        The copy, with ``copy=True``. These are set:

        ``.obsm["X_pca"]`` : coordinates of the cells
        ``.varm["PCs"]`` : loadings, a column per component; zeros for genes that are left out
        ``.uns["pca"]["variance"]``, ``.uns["pca"]["variance_ratio"]`` : the variances, and parts of the whole
        ``.uns["pca"]["params"]`` : what was asked for
        ``.uns["pca"]["certificate"]`` : how accurate that is: ``suboptimality``, its ``kind``, ``converged``, ...

    Examples
    --------
    In place of ``sc.pp.pca(adata, n_comps=50)``::

        vrpca.anndata.pca(adata, n_comps=50)
        sc.pp.neighbors(adata)
    """
    _check_kind(adata)
    adata = adata.copy() if copy else adata
    mask, mask_name = _mask(adata, mask_var)
    source = _source(adata, layer, mask, options.get("memory_limit") is not None)
    k = _components(n_comps, source.shape)
    options = {"random_state": 0, **options}
    request = Request(source, k, zero_center, scale, compute_u=False, variances=not zero_center, k_name="n_comps")
    found = decompose(request, options)
    projected = scores(source, found.Vt, found.mean, found.scale).astype(dtype, copy=False)
    _write(adata, found, projected, mask, key_added)
    said = {"params": _parameters(zero_center, scale, mask_name, layer), **_variances(found)}
    adata.uns[key_added or "pca"] = said | {"certificate": _certificate(found)}
    return adata if copy else None


def _check_kind(adata: Any) -> None:
    AnnData = needs("anndata", "anndata", "An AnnData object").AnnData
    if not isinstance(adata, AnnData):
        raise DataTypeError(
            f"vrpca.anndata.pca takes an AnnData object, not a {type(adata).__name__}: pass arrays and sparse matrices "
            "to vrpca.pca or vrpca.PCA."
        )
    if adata.isbacked and adata.is_view:
        raise DataTypeError(
            "adata is a part of an AnnData object in a file. Pass the whole object with mask_var=, or a copy in "
            "memory: adata.to_memory()."
        )


def _mask(adata: Any, mask_var: Any) -> tuple[np.ndarray | None, str | None]:
    """Which genes are taken, and the name of the column that says so; None for all genes, or for an array."""
    if mask_var is Default.HIGHLY_VARIABLE:
        mask_var = "highly_variable" if "highly_variable" in adata.var else None
    if mask_var is None:
        return None, None
    name = mask_var if isinstance(mask_var, str) else None
    if name is not None and name not in adata.var:
        there = ", ".join(map(repr, adata.var.columns)) or "none"
        raise OptionError(f"mask_var={name!r} is no column of adata.var: there are {there}.")
    mask = np.asarray(mask_var if name is None else adata.var[name])
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise OptionError(
            f"mask_var must hold {adata.n_vars} truth values, one per gene, but has type {mask.dtype} and shape "
            f"{mask.shape}."
        )
    if not mask.any():
        raise OptionError(f"mask_var={shown(mask_var)} leaves no gene: select some, or pass mask_var=None.")
    return mask, name


def _source(adata: Any, layer: str | None, mask: np.ndarray | None, limited: bool) -> Any:
    """The data as a source: X, or a layer, without the genes that are left out."""
    if layer is not None and layer not in adata.layers:
        there = ", ".join(map(repr, adata.layers)) or "none"
        raise OptionError(f"layer={layer!r} is none of adata.layers: there are {there}.")
    if layer is None and adata.X is None:
        raise DataError("adata has no X: name a layer, such as layer='counts'.")
    X = adata if layer is None else adata.layers[layer]
    if mask is None:
        return as_source(X, limited)
    if adata.isbacked and layer is None:
        return SelectedColumns(as_source(adata, limited), np.flatnonzero(mask))
    X = adata.X if layer is None else X
    return as_source((sp.csr_array(X) if sp.issparse(X) and X.format != "csc" else X)[:, mask], limited)


def _components(n_comps: int | float | None, shape: tuple[int, int]) -> int | float:
    """The number of components: as asked, or scanpy's default."""
    if n_comps is not None:
        return n_comps
    return max(1, min(MOST_BY_DEFAULT, min(shape) - 1))


def _write(adata: Any, found: Decomposition, projected: np.ndarray, mask: np.ndarray | None, key: str | None) -> None:
    loadings = found.Vt.T
    if mask is not None:
        loadings = np.zeros((adata.n_vars, len(found.s)), found.Vt.dtype)
        loadings[mask] = found.Vt.T
    adata.obsm[key or "X_pca"] = projected
    adata.varm[key or "PCs"] = np.ascontiguousarray(loadings)


def _parameters(zero_center: bool, scale: bool, mask_name: str | None, layer: str | None) -> dict[str, Any]:
    """What was asked for, in scanpy's words; `layer` and `scale` only where they were."""
    said = {"zero_center": zero_center, "use_highly_variable": mask_name == "highly_variable", "mask_var": mask_name}
    return said | ({} if layer is None else {"layer": layer}) | ({"scale": True} if scale else {})


def _variances(found: Decomposition) -> dict[str, np.ndarray]:
    """The variances as scikit-learn's PCA, or its TruncatedSVD, has them."""
    if found.score_variance is None or found.column_variance is None:
        variance = (found.s.astype(np.float64) / np.sqrt(max(found.n_samples - 1, 1))) ** 2
        ratio = found.explained_variance_ratio
    else:
        variance, ratio = found.score_variance, found.score_variance / (found.column_variance or np.inf)
    return {"variance": variance.astype(found.s.dtype), "variance_ratio": ratio.astype(found.s.dtype)}


def _certificate(found: Decomposition) -> dict[str, str | float | bool]:
    """How accurate the answer is, as a file can hold it."""
    return {
        "suboptimality": float(found.certificate.suboptimality),
        "kind": found.certificate.kind,
        "largest_angle": float(found.certificate.angles.max(initial=0.0)),
        "converged": found.converged,
        "solver": found.solver,
        "n_passes": float(found.n_passes),
    }
