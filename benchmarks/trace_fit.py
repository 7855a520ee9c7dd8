"""How far a reader has to walk: the files and functions that one fit visits, and how often it moves between files.

    python benchmarks/trace_fit.py [-k K] [--solver NAME] [--sparse] [--files]

One ``PCA(5, solver="accelerated", random_state=0).fit(X)`` on generated data, 5000 x 400 in float32, is traced with
`sys.setprofile`. A change of file is a call or a return that moves execution from one file of the package to another.
Frames outside the package are ignored: a callback from scipy counts as a call by whoever called scipy. So are worker
threads. Comprehensions are no functions of their own. A first fit, which is not traced, does all imports.

Only the public interface is used, so that any installed version can be traced: run this file with its Python.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp

import vrpca

PACKAGE = str(Path(vrpca.__file__).parent)
ROWS, FEATURES = 5000, 400
SHOWN = 15  # of the changes of file
DENSITY = 0.05  # of the sparse data: 20 entries per row, as in short texts
PARTS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # frames of comprehensions, which belong to a function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", type=int, default=5, help="number of components")
    parser.add_argument("--solver", default="accelerated")
    parser.add_argument("--sparse", action="store_true", help="CSR data in place of dense data")
    parser.add_argument("--files", action="store_true", help="also print the calls of each file, and the usual changes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a solver may need more passes than it gets
    X = data(options.sparse)
    fit(X, options.k, options.solver)
    trace = Trace()
    sys.setprofile(trace)
    try:
        fit(X, options.k, options.solver)
    finally:
        sys.setprofile(None)
    kind = "CSR" if options.sparse else "dense"
    print(f"PCA({options.k}, solver={options.solver!r}).fit(X), {kind} {ROWS} x {FEATURES}, vrpca in {PACKAGE}")
    print(f"{len(trace.files)} files, {len(trace.functions)} functions, {trace.moves.total()} changes of file")
    if options.files:
        for file, calls in trace.files.most_common():
            functions = sum(where == file for where, _, _ in trace.functions)
            print(f"  {short(file):32} {functions:4} functions {calls:6} calls")
        for (before, after), count in trace.moves.most_common(SHOWN):
            print(f"  {count:6} times {short(before)} -> {short(after)}")


def short(file: str) -> str:
    """The name of a file within the package."""
    return str(Path(file).relative_to(PACKAGE))


def data(sparse: bool) -> Any:
    """Gaussian entries, columns of decreasing size, so that every solver finds its way quickly."""
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(1 + np.arange(FEATURES, dtype=np.float32))
    X = rng.standard_normal((ROWS, FEATURES), dtype=np.float32) * scale
    return sp.csr_matrix(X * (rng.random(X.shape) < DENSITY)) if sparse else X


def fit(X: Any, k: int, solver: str) -> None:
    """What is traced."""
    vrpca.PCA(k, solver=solver, random_state=0).fit(X)


class Trace:
    """Counts what happens while it is the profile function of a thread.

    Attributes
    ----------
    files : Counter
        Calls per file of the package.
    functions : set
        The functions that were called: file, first line and name.
    moves : Counter
        Changes of file, by the two files.
    """

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.functions: set[tuple[str, int, str]] = set()
        self.moves: Counter[tuple[str, str]] = Counter()
        self.file = ""  # where control is, or was when it left the package

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take in a call or a return; resuming a generator and its yields count as such."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            if code.co_name not in PARTS:
                self.files[code.co_filename] += 1
                self.functions.add((code.co_filename, code.co_firstlineno, code.co_name))
            self._move(code.co_filename)
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None:
            self._move(caller.f_code.co_filename)

    def _move(self, file: str) -> None:
        if self.file and file != self.file:
            self.moves[self.file, file] += 1
        self.file = file


if __name__ == "__main__":
    main()
