"""What is installed, for reports of bugs: versions, kernels, threads and the libraries that extras bring."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import threadpoolctl

from vrpca import kernels
from vrpca.threads import n_threads

NEEDED = ("numpy", "scipy", "scikit-learn", "rich", "typer", "threadpoolctl")
EXTRAS: tuple[str, ...] = (
    "matplotlib",
    "altair",
    "vl-convert-python",
    "pandas",
    "polars",
    "pyarrow",
    "h5py",
    "zarr",
    "fsspec",
)
EXTRAS += ("anndata", "dask", "distributed")


def show_versions() -> None:
    """Print the versions of vrpca, of Python and of all libraries that it uses, and which kernels it runs on.

    Please add this to a report of a bug.

    Examples
    --------
    >>> import vrpca
    >>> vrpca.show_versions()  # doctest: +ELLIPSIS
    vrpca ...
    """
    for name, value in versions().items():
        print(f"{name:14} {value}")


def versions() -> dict[str, str]:
    """What `show_versions` prints."""
    found = {"vrpca": _version("vrpca"), "python": sys.version.split()[0], "platform": platform.platform()}
    found |= {"kernels": _kernels(), "threads": str(n_threads(None)), "BLAS": _blas()}
    return found | {name: _version(name) for name in NEEDED + EXTRAS}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _kernels() -> str:
    """Which kernels run, and why if they are not the compiled ones."""
    if kernels.implementation is not kernels.reference:
        return f"compiled ({kernels.instruction_set()})"
    asked = os.environ.get("VRPCA_KERNELS") == "reference"
    built = find_spec(kernels.NATIVE) is not None
    return f"NumPy ({'VRPCA_KERNELS=reference' if asked and built else 'built without a compiler'})"


def _blas() -> str:
    libraries = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    shown = {f"{each['internal_api']} {each['version']} ({each.get('architecture', '?')})" for each in libraries}
    return ", ".join(sorted(shown)) or "none found"
