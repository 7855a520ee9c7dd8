"""Peak memory of fits under a limit, against the limit and against the model of `vrpca.memory`.

    python benchmarks/memory.py [--gigabytes 1.0] [--only npy] [--limits 200MB 500MB] [--json table.json]

Every fit is a process of its own. Its peak is the resident memory that Linux reports (VmHWM), less what the
interpreter has after its imports. Pages of mapped files count. A fit must stay within its limit + 300 MB, or refuse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

SOLVERS = ("auto", "accelerated", "krylov", "gram", "power", "oja", "vr", "hybrid")
ALLOWANCE = 300e6  # bytes beside the limit
COLUMNS = ("data", "solver", "limit", "model", "peak", "model/peak", "passes", "seconds", "verdict")

CHILD = """
import json, sys, time, warnings
import numpy as np
import vrpca
from vrpca.cli.app import app  # everything that a command imports
from benchmark_sources import open_case
from vrpca import decomposition
warnings.simplefilter("ignore")
case, options = json.loads(sys.argv[1])
def memory(name):  # VmHWM is the peak of this process; ru_maxrss would include that of the process that started it
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
X = open_case(case)
np.linalg.eigh(np.eye(300))  # BLAS has its threads and buffers
needs = []
make_plan = decomposition.make_plan
def noted(*arguments):
    plan = make_plan(*arguments)
    needs.append(plan.need.bytes)
    return plan
decomposition.make_plan = noted
before, began = memory("VmRSS"), time.perf_counter()
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
try:
    found = vrpca.pca(X, compute_u=case.get("left", False), random_state=0, **options)
    result = {"solver": found.solver, "passes": found.n_passes}
except vrpca.OptionError as error:
    result = {"refused": str(error)}
result |= {"peak": memory("VmHWM") - before, "need": max(needs, default=0), "seconds": time.perf_counter() - began}
print(json.dumps(result))
"""

SOURCES = '''
import numpy as np, scipy.sparse as sp
from pathlib import Path
from vrpca.data.files.base import SparseFile

class PlainSparse(SparseFile):
    """A CSR matrix whose parts lie in three .npy files."""

    def __init__(self, folder):
        folder = Path(folder)
        self.indices, self.values = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indices", "data"))
        indptr, shape = np.load(folder / "indptr.npy"), tuple(np.load(folder / "shape.npy").tolist())
        super().__init__([folder / "data.npy"], shape, self.values.dtype, indptr)

    def read_entries(self, start, stop):
        def read(X):
            return np.fromfile(X.filename, X.dtype, stop - start, offset=X.offset + start * X.itemsize)
        return read(self.indices), read(self.values)

def open_case(case):
    kind, path = case["kind"], case["path"]
    if kind == "sparse file":
        return PlainSparse(path)
    return np.load(path, mmap_mode="r") if kind.startswith("map") else path
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the data")
    parser.add_argument("--limits", nargs="*", default=["200MB", "500MB", "1GB"])
    parser.add_argument("--solvers", nargs="*", default=SOLVERS)
    parser.add_argument("--only", default="", help="data whose names contain this")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--max-passes", type=float, default=12, help="enough to fill what is kept")
    parser.add_argument("--folder", type=Path, help="where the data are made; a temporary folder by default")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        (folder / "benchmark_sources.py").write_text(SOURCES)
        rows = [
            row
            for case in cases(folder, arguments.gigabytes)
            if arguments.only in case["name"]
            for row in measure(folder, case, arguments)
        ]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    sys.exit(any(row["verdict"].startswith("ABOVE") for row in rows))


def cases(folder: Path, gigabytes: float) -> list[dict[str, Any]]:
    """Data sets, by what is read and how: they are made when they are asked for."""
    return [
        {"name": "npy", "kind": "path", "make": dense, "args": (gigabytes, 1000, "C")},
        {"name": "npy wide", "kind": "path", "make": dense, "args": (gigabytes, 100_000, "C")},
        {"name": "npy Fortran order", "kind": "path", "make": dense, "args": (gigabytes, 1000, "F")},
        {"name": "npy integers", "kind": "path", "make": dense, "args": (gigabytes, 1000, "C", np.int16)},
        {"name": "map", "kind": "map", "make": dense, "args": (gigabytes, 1000, "C")},
        {"name": "npy, with U", "kind": "path", "left": True, "make": dense, "args": (gigabytes, 100, "C")},
        {"name": "sparse file", "kind": "sparse file", "make": sparse, "args": (gigabytes, 20_000, False)},
        {
            "name": "sparse file, long rows",
            "kind": "sparse file",
            "make": sparse,
            "args": (gigabytes, 1_000_000, False),
        },
        {"name": "parquet", "kind": "path", "make": parquet, "args": (gigabytes, 200)},
        {"name": "hdf5", "kind": "path", "make": hdf5, "args": (gigabytes, 1000)},
        {"name": "npz", "kind": "path", "make": sparse, "args": (min(gigabytes, 0.3), 20_000, True)},
    ]


def dense(folder: Path, gigabytes: float, d: int, order: str, dtype: Any = np.float32) -> str:
    n = int(gigabytes * 1e9 / d / np.dtype(dtype).itemsize)
    path, rng = folder / f"{d}{order}{np.dtype(dtype)}.npy", np.random.default_rng(0)
    if not path.exists():
        X = np.lib.format.open_memmap(path, "w+", dtype, (n, d), fortran_order=order == "F")
        scales = np.arange(1, d + 1) ** -0.5
        rows = max(1, 2**24 // d)
        for start in range(0, n, rows):
            part = rng.standard_normal((min(rows, n - start), d), dtype=np.float32) * scales
            X[start : start + rows] = part if np.dtype(dtype).kind == "f" else 100 * part
    return str(path)


def parquet(folder: Path, gigabytes: float, d: int) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, rng, rows = folder / "X.parquet", np.random.default_rng(0), 100_000
    if not path.exists():
        names = [f"x{j}" for j in range(d)]
        with pq.ParquetWriter(path, pa.schema([(name, pa.float32()) for name in names])) as file:
            for _ in range(max(1, int(gigabytes * 1e9 / 4 / d / rows))):
                part = rng.standard_normal((d, rows), dtype=np.float32)
                file.write_table(pa.table(dict(zip(names, part, strict=True))), row_group_size=rows)
    return str(path)


def hdf5(folder: Path, gigabytes: float, d: int) -> str:
    import h5py

    path, rng, rows = folder / "X.h5", np.random.default_rng(0), 10_000
    if not path.exists():
        n = max(1, int(gigabytes * 1e9 / 4 / d / rows)) * rows
        with h5py.File(path, "w") as file:
            X = file.create_dataset("X", (n, d), np.float32, chunks=(1000, d), compression="lzf")
            for start in range(0, n, rows):
                X[start : start + rows] = rng.standard_normal((rows, d), dtype=np.float32)
    return str(path)


def sparse(folder: Path, gigabytes: float, d: int, archive: bool) -> str:
    entries, per_row, rng = int(gigabytes * 1e9 / 8), 100, np.random.default_rng(0)
    n = entries // per_row
    path = folder / f"sparse{d}{archive}"
    if not path.exists():
        indices = np.sort((d * rng.random((n, per_row), dtype=np.float32) ** 3).astype(np.int32) % d, axis=1)
        values = rng.random(indices.size, dtype=np.float32)
        X = sp.csr_array((values, indices.ravel(), np.arange(n + 1, dtype=np.int64) * per_row), shape=(n, d))
        if archive:
            sp.save_npz(path.with_suffix(".npz"), X)
        else:
            path.mkdir()
            for name, part in (("data", X.data), ("indices", X.indices), ("indptr", X.indptr), ("shape", X.shape)):
                np.save(path / f"{name}.npy", part)
    return str(path.with_suffix(".npz") if archive else path)


def measure(folder: Path, case: dict[str, Any], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    path = case["make"](folder, *case["args"])
    rows = []
    for solver in arguments.solvers:
        for limit in arguments.limits:
            options = {"k": arguments.k, "solver": solver, "tol": arguments.tol, "max_passes": arguments.max_passes}
            options["memory_limit"] = None if limit == "none" else limit
            given = {"kind": case["kind"], "path": path, "left": case.get("left", False)}
            rows.append({"data": case["name"], "solver": solver, "limit": limit} | child(folder, given, options))
            print("  ".join(f"{rows[-1].get(name, '')!s:<{max(9, len(name))}}" for name in COLUMNS), flush=True)
    return rows


def child(folder: Path, case: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    from vrpca.memory import as_bytes

    command = [sys.executable, "-c", CHILD, json.dumps([case, options])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return {"verdict": "ABOVE nothing: it failed", "error": done.stderr[-2000:]}
    found = json.loads(done.stdout)
    peak, need = found["peak"], found["need"]
    row = {"model": f"{need / 1e6:.0f}", "peak": f"{peak / 1e6:.0f}", "seconds": f"{found['seconds']:.1f}"}
    if "refused" in found:
        return row | {"verdict": f"refused: {found['refused'].partition(': ')[2]}"}
    row |= {"model/peak": f"{need / max(peak, 1):.2f}", "passes": f"{found['passes']:.2f} {found['solver']}"}
    if need < peak - ALLOWANCE:
        return row | {"verdict": "ABOVE the model"}
    above = options["memory_limit"] is not None and peak > as_bytes(options["memory_limit"]) + ALLOWANCE
    return row | {"verdict": "ABOVE the limit" if above else "ok"}


if __name__ == "__main__":
    main()
