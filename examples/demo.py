"""``make demo``: generate data, then fit, transform and check them with the installed command."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import scipy.sparse as sp

OUTPUT = Path("demo-output")
ROWS, FEATURES, TOPICS, DENSITY = 20_000, 2_000, 8, 0.02  # of the sparse data: every command takes seconds
FACTORS = 12  # rank of the dense data, before noise


def main() -> None:
    """Run the whole demonstration."""
    OUTPUT.mkdir(exist_ok=True)
    say("Data: a sparse table of documents and words, and a dense one of measurements")
    make_sparse(OUTPUT / "sparse.npz")
    make_dense(OUTPUT / "dense.npy")
    say("Sparse data, centred without becoming dense: the paper's algorithm, to 1e-8")
    run("fit sparse.npz -k 6 --solver vr --out sparse-model.npz --plot convergence.png")
    run("transform sparse-model.npz sparse.npz --out sparse-scores.npy")
    run("check sparse-model.npz sparse.npz")
    run("report sparse-model.npz sparse.npz --color topics.csv:topic --out report.html")
    say("Dense data from a memory map: as many components as explain 90 % of the variance")
    run("fit dense.npy -k 0.9 --out dense-model.npz")
    run("check dense-model.npz dense.npy")
    say("Six passes are too few for 1e-8: the fit and the check say so, and end with exit code 1")
    run("fit sparse.npz -k 6 --solver vr --max-passes 6 --quiet --out rough-model.npz", expected=1)
    run("check rough-model.npz sparse.npz", expected=1)
    say("Files")
    for path in sorted(OUTPUT.iterdir()):
        print(f"  {path!s:34} {path.stat().st_size / 2**20:8.2f} MB")


def make_sparse(path: Path) -> None:
    """Write a sparse matrix of documents. Half of the words of each belong to its topic, half are any words."""
    rng = np.random.default_rng(0)
    topic = rng.integers(TOPICS, size=ROWS)
    per_row = int(DENSITY * FEATURES)
    words = rng.integers(FEATURES, size=(ROWS, per_row))
    of_topic = topic[:, None] * (FEATURES // TOPICS) + rng.zipf(1.6, size=(ROWS, per_row)) % (FEATURES // TOPICS)
    columns = np.where(rng.random((ROWS, per_row)) < 0.5, of_topic, words)
    values = rng.gamma(2.0, size=ROWS * per_row).astype(np.float32)
    rows = np.repeat(np.arange(ROWS), per_row)
    X = sp.coo_array((values, (rows, columns.ravel())), shape=(ROWS, FEATURES)).tocsr()
    sp.save_npz(path, X, compressed=False)
    path.with_name("topics.csv").write_text("topic\n" + "\n".join(f"topic {j}" for j in topic) + "\n")
    print(f"  {path}: {ROWS} x {FEATURES}, sparse, {X.nnz / ROWS / FEATURES:.1%} of the entries are not zero")


def make_dense(path: Path) -> None:
    """Write a dense matrix of low rank plus noise."""
    rng = np.random.default_rng(1)
    n, d = ROWS // 2, FEATURES // 5
    factors = rng.standard_normal((n, FACTORS)) * np.geomspace(6, 1, FACTORS)
    X = factors @ rng.standard_normal((FACTORS, d)) + rng.standard_normal((n, d)) + 5
    np.save(path, X.astype(np.float32))
    print(f"  {path}: {n} x {d}, dense, rank {FACTORS} plus noise")


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def run(arguments: str, expected: int = 0) -> None:
    """Print a vrpca command, run it in the output folder, and check its exit code."""
    print(f"\n$ vrpca {arguments}", flush=True)
    command = shutil.which("vrpca", path=sysconfig.get_path("scripts"))
    if command is None:
        sys.exit("The vrpca command is not installed in this environment: run `make demo`.")
    code = subprocess.run([command, *shlex.split(arguments)], cwd=OUTPUT, check=False).returncode
    if code != expected:
        sys.exit(f"vrpca ended with exit code {code}; {expected} was expected.")


if __name__ == "__main__":
    main()
