"""What a type checker makes of a user's script: mypy --strict finds nothing, sees our classes, and catches slips."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: pip install 'vrpca[lint]'")
CACHE = Path(__file__).parents[1] / ".mypy_cache"  # that of `make lint`: a second run takes seconds

SCRIPT = """
import numpy as np
import vrpca

X = np.random.default_rng(0).standard_normal((100, 5))


def components(X: np.ndarray, solver: vrpca.SolverName = "auto") -> np.ndarray:
    return vrpca.PCA(2, solver=solver, tol=1e-6, n_threads=-1).fit(X).components_


def stop(record: vrpca.Record) -> bool:
    return record.passes > 3


model = vrpca.PCA("mle", whiten=True, random_state=0, callback=stop).fit(X, sample_weight=np.ones(100))
scores = model.fit_transform(X)
log_likelihood: float = model.score(X)
found = vrpca.pca(X, 0.9, certificate="probabilistic", cost="time")
U, s, Vt = vrpca.svd(X, 2, compute_u=True)
if not found.converged:
    print(found.status.value, found.certificate.suboptimality, found.history[-1].bound)
vrpca.save(model, "model.npz")
vrpca.save(found, "found.npz")
print(U @ np.diag(s) @ Vt, scores, vrpca.info(X, 2).solver, vrpca.open_data("x.npy"))
"""

REVEALED = {
    "vrpca.PCA(2).fit(X)": "vrpca.estimators.PCA",
    "vrpca.TruncatedSVD(2).fit(X)": "vrpca.estimators.TruncatedSVD",
    "vrpca.PCA(2).fit_transform(X)": "numpy.ndarray",
    "vrpca.PCA(2).fit(X).transform(X)": "numpy.ndarray",
    "vrpca.PCA(2).fit(X).components_": "numpy.ndarray",
    "vrpca.PCA(2).fit(X).certificate_": "vrpca.certificate.Certificate",
    "vrpca.PCA(2).fit(X).n_components_": "int",
    "vrpca.PCA(2).fit(X).score(X)": "float",
    "vrpca.svd(X, 2)": "vrpca.decomposition.Decomposition",
    "list(vrpca.svd(X, 2))": "list[numpy.ndarray",
}
SLIPS = {
    'vrpca.PCA(2, solver="fast")': "solver",
    'vrpca.PCA(n_components="most")': "n_components",
    'vrpca.svd(X, 2, cost="none")': "cost",
    "vrpca.svd(X, 2, tolerance=1)": "tolerance",
    'vrpca.pca(X, 2, tol="small")': "tol",
}


@pytest.fixture
def checked(tmp_path):
    """The lines that mypy --strict prints for a script."""

    def run(code: str) -> list[str]:
        (tmp_path / "script.py").write_text(code)
        command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", "--cache-dir", str(CACHE)]
        found = subprocess.run([*command, "script.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
        return found.stdout.splitlines() + found.stderr.splitlines()

    return run


def test_a_script_passes(checked):
    assert checked(SCRIPT) == ["Success: no issues found in 1 source file"]


def test_types_are_known_and_slips_are_caught(checked):
    lines = [
        "import numpy as np",
        "import vrpca",
        "X = np.zeros((9, 3))",
        *(f"reveal_type({call})" for call in REVEALED),
    ]
    found = checked("\n".join([*lines, *SLIPS]))
    for number, expected in enumerate(REVEALED.values(), start=4):
        assert any(f":{number}: note: Revealed type is" in line and expected in line for line in found), found
    for number, expected in enumerate(SLIPS.values(), start=4 + len(REVEALED)):
        assert any(f":{number}: error:" in line and expected in line for line in found), found
