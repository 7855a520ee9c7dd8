"""Principal components and truncated SVD of large matrices, to the accuracy asked for, with a certificate."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vrpca import anndata
from vrpca.certificate import Certificate
from vrpca.data.files import open_data
from vrpca.data.source import Source
from vrpca.decomposition import Decomposition, pca, svd
from vrpca.errors import DataError, Interrupted, OptionError
from vrpca.estimators import PCA, TruncatedSVD
from vrpca.history import Record, Status
from vrpca.info import Info, info
from vrpca.model_io import load, save
from vrpca.options import SolverName, Theory
from vrpca.versions import show_versions

if TYPE_CHECKING:
    from vrpca import check, plot, report

__version__ = "0.1.0"

__all__ = [
    "PCA",
    "Certificate",
    "DataError",
    "Decomposition",
    "Info",
    "Interrupted",
    "OptionError",
    "Record",
    "SolverName",
    "Source",
    "Status",
    "Theory",
    "TruncatedSVD",
    "anndata",
    "check",
    "info",
    "load",
    "open_data",
    "pca",
    "plot",
    "report",
    "save",
    "show_versions",
    "svd",
]

_MODULES = ("check", "plot", "report")  # imported when they are asked for


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"vrpca.{name}")
    raise AttributeError(f"module 'vrpca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
