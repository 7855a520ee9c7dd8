"""One import for all implementations: the instruction sets agree, and the package runs on the NumPy twin alone."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from helpers import eps, run_python
from vrpca.kernels import _native as native
from vrpca.kernels import reference

EPOCHS = """
import json, sys
import numpy as np
sys.path[:0] = {path!r}
from kernel_cases import make_case, snapshot, to, draw_order
from vrpca.kernels import _native as native

found = {{}}
for kind in ("dense", "csr32", "csr64"):
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(5)
        case = make_case(rng, 65, 19, kind, dtype, (True,) * 4)
        W0, U0, P0, theta = snapshot(case, 5, rng)
        W0, U0, P0 = to(dtype, W0, U0, P0)
        w0, u0, p0 = to(dtype, W0[:, 0], U0[:, 0], P0[:, 0])
        order, rows = draw_order(rng, 65, 100), case.rows(native)
        U, P, norms = np.zeros_like(W0), np.zeros_like(P0), np.zeros(65)
        w, B, G, O = w0.copy(), W0.copy(), W0.copy(), W0.copy()
        native.product(rows, W0, U, P, 2)
        native.row_norms(rows, norms)
        _, mean, M2 = native.moments(rows, None, 1.0, 2)
        native.vr_vector(rows, w, w0, u0, p0, None, None, order, 0.05, None)
        native.vr_block(rows, B, W0, native.vr_panel(rows, U0), P0, theta, order, 0.02, None)
        native.vr_gram_schmidt(rows, G, U0, P0, order, 0.02, None)
        native.oja_block(rows, O, order, np.full(100, 0.02), None)
        A, first, squares = np.zeros((19, 19)), np.zeros(19), np.zeros(19)
        if kind == "dense":
            native.gram(rows, A, first, squares, 2)
        every = dict(A=A, first=first, squares=squares, U=U, P=P, norms=norms, mean=mean, M2=M2, w=w, B=B, G=G, O=O)
        for name, value in every.items():
            found[f"{{kind}} {{np.dtype(dtype)}} {{name}}"] = value.astype(float).ravel().tolist()
print(json.dumps([native.instruction_set(), found]))
"""


def epochs(**environment):
    here = os.path.dirname(__file__)
    ended = run_python(EPOCHS.format(path=[here, os.path.dirname(here)]), **environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_baseline_instruction_set_agrees_with_the_best_one():
    name, baseline = epochs(VRPCA_ISA="baseline")
    assert name == "baseline"
    best, found = epochs(VRPCA_ISA="")
    assert best == native.instruction_set() or os.environ.get("VRPCA_ISA")  # this process may run on a lesser one
    if platform.machine() != "x86_64":
        assert best == "baseline"
    for key, values in baseline.items():
        unit = eps(np.float64 if "float64" in key or key.split()[-1] in ("mean", "M2") else np.float32)
        scale = max(1.0, np.abs(values).max())
        np.testing.assert_allclose(found[key], values, rtol=0, atol=500 * unit * scale, err_msg=key)


@pytest.mark.parametrize("name", ["avx2", "avx512"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has several instruction sets")
@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("nm")), reason="needs a compiler and nm")
def test_instruction_sets_share_no_function(tmp_path, name):
    """The linker keeps one copy of a shared function, and an old processor could not run the copy of a newer one.

    Without optimisation nothing is inlined, so that all functions are seen.
    """
    source = Path(__file__).parents[2] / "src/vrpca/kernels/native" / f"kernels_{name}.cpp"
    compiled = tmp_path / "kernels.o"
    flags = ["-std=c++17", "-O0", "-w", "-mavx2", "-mfma", "-fopenmp-simd"]
    flags += ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw"] if name == "avx512" else []
    subprocess.run(["c++", *flags, "-c", str(source), "-o", str(compiled)], check=True)
    symbols = subprocess.run(
        ["nm", "-C", "--defined-only", str(compiled)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(symbols) > 100
    assert [symbol for symbol in symbols if f"vrpca::{name}::" not in symbol] == []


def test_an_instruction_set_that_cannot_be_had_is_an_error():
    ended = run_python("import vrpca", VRPCA_ISA="mmx")
    assert ended.returncode and "VRPCA_ISA='mmx' cannot be used" in ended.stderr


def test_every_kernel_has_a_twin():
    public = {name for name in dir(native) if not name.startswith("_") and name.islower()}
    assert public <= set(dir(reference))


FIT = """
import json, sys, warnings
import numpy as np, scipy.sparse as sp
import vrpca
from vrpca import kernels

rng = np.random.default_rng(3)
X = rng.standard_normal((120, 15)) * np.geomspace(3, 0.3, 15) + 1
X *= rng.random(X.shape) < 0.7
found = {"set": kernels.instruction_set()}
for name, data in dict(dense=X, sparse=sp.csr_array(X)).items():
    for k, options in {"1": {}, "2": {}, "2d": {"deflate": True}, "2g": {"control": "difference"},
                       "1n": {"sampling": "norm"}}.items():
        model = vrpca.PCA(int(k[0]), solver="vr", tol=1e-4, random_state=0, n_threads=1, **options).fit(data)
        assert model.solver_ == "vr"
        found[name + k] = [model.components_.tolist(), model.explained_variance_.tolist(), model.n_passes_]
    found["mean"] = model.mean_.tolist()
print(json.dumps(found))
"""


def fit(**environment):
    ended = run_python(FIT, **environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_package_gives_the_same_fit_on_either_implementation():
    compiled, plain = fit(VRPCA_KERNELS="native"), fit(VRPCA_KERNELS="reference")
    assert plain.pop("set") == "reference"
    assert compiled.pop("set") == native.instruction_set()
    np.testing.assert_allclose(compiled.pop("mean"), plain.pop("mean"), rtol=1e-13)
    for key, (components, variance, passes) in plain.items():
        np.testing.assert_allclose(compiled[key][0], components, rtol=0, atol=1e-9, err_msg=key)
        np.testing.assert_allclose(compiled[key][1], variance, rtol=1e-10, err_msg=key)
        assert compiled[key][2] == passes, key


@pytest.mark.parametrize("value", ["nonsense", ""])
def test_an_unknown_implementation_is_a_clear_import_error(value):
    ended = run_python("import vrpca", VRPCA_KERNELS=value)
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError") and repr(value) in last and "'native' or 'reference'" in last


def test_missing_compiled_kernels_name_the_remedy():
    code = "import sys; sys.modules['vrpca.kernels._native'] = None; import vrpca"
    ended = run_python(code, VRPCA_KERNELS="native")
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError") and "VRPCA_KERNELS=reference" in last
