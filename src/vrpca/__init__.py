"""Principal components and truncated SVD of large matrices, to the accuracy asked for, with a certificate."""

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
    "info",
    "load",
    "open_data",
    "pca",
    "save",
    "show_versions",
    "svd",
]
