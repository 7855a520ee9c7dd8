"""Data in files. Pickles are never read.

A new format is a module here with a function `open_matrix(path)`, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from vrpca.data.files.paths import PICKLED, as_path, damage_reported, open_file
from vrpca.data.files.remote import Location, is_address
from vrpca.errors import DataError, OptionError

PICKLE = b"\x80"  # the first byte of a pickle


@dataclass(frozen=True)
class Format:
    """A format of files."""

    module: str  # the module here that opens it, imported when it is needed
    endings: tuple[str, ...]  # of file names
    signature: bytes | None = None  # the first bytes of all such files, if there are any: they count, not the name
    members: tuple[str, ...] = ()  # one of these is in the folder, where the format is a folder
    named: bool = False  # whether it may hold several matrices, each with a name
    remote: bool = False  # whether it can be read from an address
    options: tuple[str, ...] = ()  # keywords that `open_matrix` takes


FORMATS = (
    Format("npy", (".npy",), b"\x93NUMPY"),
    Format("npz", (".npz",), b"PK"),
    Format("parquet", (".parquet",), b"PAR1", remote=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), b"ARROW1", remote=True),
    Format("hdf5", (".h5", ".hdf5", ".h5ad"), b"\x89HDF\r\n\x1a\n", named=True),
    Format("zarr_store", (".zarr",), None, (".zarray", ".zgroup", "zarr.json"), named=True, remote=True),
    Format("bed", (".bed",), b"\x6c\x1b", options=("scaling",)),
)


def open_data(path: str | os.PathLike[str], *, scaling: str | None = None) -> Any:
    """Open a matrix that is in a file.

    What a file is shows in its first bytes, not in its name. ``path::name`` names one of several matrices in a file or
    store: ``counts.h5ad::layers/raw``. Addresses such as ``s3://bucket/data.parquet`` are read through fsspec, where
    the format allows it: Parquet, Arrow and zarr.

    Parameters
    ----------
    path : str or path
        - ``.npy`` (`numpy.save`): mapped, not read.
        - ``.npz``: a sparse matrix (`scipy.sparse.save_npz`) or a dense one: the array named ``"X"``, else the only
          array with two dimensions.
        - ``.parquet``, ``.arrow``, ``.feather``: columns of numbers, or one column of lists of a fixed size. The index
          of pandas, or else one leading column of text, names the rows.
        - ``.h5``, ``.hdf5``, ``.zarr``: the only matrix, or the one that is named.
        - ``.h5ad``: X or the matrix that is named, dense, CSR or CSC.
        - ``.bed`` (PLINK), with ``.bim`` and ``.fam`` beside it: genotypes 0, 1 and 2; the variant's mean where a
          genotype is not known.
    scaling : "genotype", optional
        For ``.bed`` files: divide every variant by ``sqrt(2 p (1 - p))``, with the frequency p of its allele.

    Returns
    -------
    numpy.memmap, numpy.ndarray, scipy sparse matrix or Source
        The data, not changed and not checked for NaN. A `Source` is read block by block.

    Examples
    --------
    >>> import numpy as np, tempfile, vrpca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/data.npy", np.eye(3))
    ...     vrpca.open_data(folder + "/data.npy").shape
    (3, 3)
    """
    if is_address(path):
        return _open_address(str(path), scaling)
    path, name = split_name(as_path(path))
    if os.path.isdir(path):
        form = _folder_format(path)
    else:
        with open_file(path, "data") as file:
            form = _format_of(path, file.read(8))
    return _open(form, path, name, scaling)


def _open(form: Format, path: Path | Location, name: str | None, scaling: str | None) -> Any:
    arguments: dict[str, Any] = {}
    if name is not None:
        if not form.named:
            raise DataError(f"{path} holds one matrix only: leave out ::{name}.")
        arguments["name"] = name
    if scaling is not None:
        if "scaling" not in form.options:
            raise OptionError(f"scaling={scaling!r} is for .bed files, not for {path}. PCA(scale=True) scales columns.")
        arguments["scaling"] = scaling
    with damage_reported(path, "is truncated or damaged", "Write or copy it again"):
        return import_module(f"vrpca.data.files.{form.module}").open_matrix(path, **arguments)


def split_name(path: Path) -> tuple[Path, str | None]:
    """The path of a file, and the name of the matrix in it, if the path has both.

    >>> split_name(Path("data.h5::group/X"))[1]
    'group/X'
    """
    whole, mark, name = str(path).rpartition("::")
    return (Path(whole), name) if mark and whole and name and not os.path.exists(path) else (path, None)


def _format_of(path: Path | Location, start: bytes) -> Format:
    """The format of a file that begins like this."""
    for form in FORMATS:
        if form.signature is not None and start.startswith(form.signature):
            return form
    if start.startswith(PICKLE):
        raise DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    *others, last = (ending for form in FORMATS for ending in form.endings)
    what = f"is not a {', '.join(others)} or {last} file" if start else "is empty"
    raise DataError(f"{path} {what}: write the data with numpy.save, numpy.savez or scipy.sparse.save_npz.")


def _folder_format(path: Path) -> Format:
    """The format of a folder."""
    for form in FORMATS:
        if any((path / member).exists() for member in form.members):
            return form
    raise DataError(f"{path} cannot be read: it is a folder, and no zarr store. Name a data file.")


def _open_address(address: str, scaling: str | None) -> Any:
    """Open what lies at an address. A store is known by its ending: ``.zarr``."""
    whole, mark, name = address.rpartition("::")
    place = Location(whole if mark and name else address)
    zarr = next(form for form in FORMATS if form.members)
    is_store = place.address.rstrip("/").endswith(zarr.endings) or f"{zarr.endings[0]}/" in place.address
    form = zarr if is_store else _format_of(place, place.first_bytes(8))
    if not form.remote:
        raise DataError(f"{place} cannot be read from an address ({form.endings[0]}): copy it to a local folder.")
    return _open(form, place, name if mark and name else None, scaling)
