"""The guides' Python code runs as it stands, from the first block to the last."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import vrpca

DOCS = Path(__file__).resolve().parent.parent / "docs"


def run(guide, tmp_path, monkeypatch):
    """The names that the blocks of a guide leave, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, guide, "exec"), names)
    return names


def test_coming_from_sklearn(tmp_path, monkeypatch):
    assert run("scikit-learn.md", tmp_path, monkeypatch)["pca"].converged_


def test_single_cells(tmp_path, monkeypatch):
    pytest.importorskip("anndata", reason="anndata is not installed: pip install 'vrpca[anndata]'")
    names = run("single-cell.md", tmp_path, monkeypatch)
    assert names["adata"].obsm["X_pca"].shape == names["cells"].obsm["X_pca"].shape == (400, 10)
    assert names["cells"].uns["pca"]["params"]["use_highly_variable"]
    names["cells"].file.close()


def test_genotypes(tmp_path, monkeypatch):
    names = run("genotypes.md", tmp_path, monkeypatch)
    first = names["scores"][:, 0]
    assert (first[:30] > 0).all() != (first[30:] > 0).all(), "the first component tells the two groups apart"
    counts = names["data"].transposed()
    assert names["ancestry"].converged_ and counts.shape == (500, 60)
    np.testing.assert_allclose(names["alone"][0], names["scores"][7], atol=1e-4)
    by_hand = names["scaled"](names["genotypes"].astype(float), names["ancestry"].allele_frequencies_)
    from_array = vrpca.PCA(4, random_state=0).fit(by_hand)
    np.testing.assert_allclose(from_array.singular_values_, names["ancestry"].singular_values_, rtol=1e-5)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(names["ancestry"].transform(by_hand), names["scores"], atol=1e-4)
    np.testing.assert_allclose(
        names["others"], names["from_array"].transform(names["scaled"](names["counts"], names["p"]))[:5], atol=1e-4
    )


def test_text(tmp_path, monkeypatch, capsys):
    names = run("text.md", tmp_path, monkeypatch)
    assert names["vectors"].shape == (180, 3) and names["svd"].converged_ and names["centred"].converged_
    groups = names["vectors"].reshape(3, 60, 3)
    within = min((group @ group.T).min() for group in groups)
    across = max((groups[i] @ groups[j].T).max() for i, j in ((0, 1), (0, 2), (1, 2)))
    assert within > across, "documents of a topic are closer to each other than to others"
