"""Data in files. Pickles are never read.

A new format is a module here with a function `open_matrix(path)`, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from vrpca.data.files.origin import GZIP, LocalFile
from vrpca.data.files.paths import PICKLED, as_path, damage_reported, open_file
from vrpca.data.files.remote import Location, is_address
from vrpca.data.files.shards import files_of, is_pattern, open_shards
from vrpca.data.source import Source
from vrpca.data.unloaded import Contents
from vrpca.errors import DataError, OptionError

Opener = Callable[[Path, str | None], Any]  # opens a file, with a scaling
PICKLE = b"\x80"  # the first byte of a pickle
SIGNATURE = 16  # bytes that tell the format: the longest signature has 14


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
    loaded: bool = False  # whether files are loaded whole: `contents` and `in_parts` of the module tell of them before


FORMATS = (
    Format("npy", (".npy",), b"\x93NUMPY"),
    Format("npz", (".npz",), b"PK", loaded=True),
    Format("delimited", (".csv", ".tsv", ".csv.gz", ".tsv.gz"), remote=True),
    Format("matrix_market", (".mtx", ".mtx.gz"), b"%%MatrixMarket", remote=True, options=("limited",)),
    Format("svmlight", (".svmlight", ".libsvm", ".svm"), remote=True, options=("limited",)),
    Format("parquet", (".parquet",), b"PAR1", remote=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), b"ARROW1", remote=True),
    Format("hdf5", (".h5", ".hdf5", ".h5ad"), b"\x89HDF\r\n\x1a\n", named=True),
    Format("zarr_store", (".zarr",), None, (".zarray", ".zgroup", "zarr.json"), named=True, remote=True),
    Format("bed", (".bed",), b"\x6c\x1b", options=("scaling",)),
)


def open_data(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, scaling: str | None = None) -> Any:
    """Open a matrix that is in a file, or in several.

    What a file is shows in its first bytes, else in the ending of its name. ``path::name`` names one of several
    matrices in a file or store: ``counts.h5ad::layers/raw``. Addresses such as ``s3://bucket/data.parquet`` are read
    through fsspec, where the format allows it: Parquet, Arrow, zarr and text.

    Parameters
    ----------
    path : str or path, or a list of them
        A file, a folder of files, a pattern such as ``"data/part-*.npy"``, or a list of files. Several files are one
        matrix, one below the other; those of folders and patterns in natural order.

        - ``.npy`` (`numpy.save`): mapped, or read block by block where it is large.
        - ``.npz``: a sparse matrix (`scipy.sparse.save_npz`) or a dense one: the array named ``"X"``, else the only
          array with two dimensions.
        - ``.csv``, ``.tsv``, ``.mtx`` (MatrixMarket), ``.svmlight``, ``.libsvm``: converted once, into binary files
          that are kept in the folder ``$VRPCA_CACHE``, else ``~/.cache/vrpca``. All but the last two may be compressed
          with gzip.
        - ``.parquet``, ``.arrow``, ``.feather``: columns of numbers, or one column of lists of a fixed size. The index
          of pandas, or else one leading column of text, names the rows.
        - ``.h5``, ``.hdf5``, ``.zarr``: the only matrix, or the one that is named.
        - ``.h5ad``: X or the matrix that is named, dense, CSR or CSC.
        - ``.bed`` (PLINK), with ``.bim`` and ``.fam`` beside it: genotypes 0, 1 and 2; the variant's mean where a
          genotype is not known.
    scaling : "genotype", optional
        For ``.bed`` files: divide every variant by ``sqrt(2 p (1 - p))``, with the frequency p of its allele. What
        a model is applied to need not be opened so again: it is scaled by the frequencies of the fit.

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
    return _opened(path, scaling, open_one)


def open_limited(path: Any, scaling: str | None = None) -> Any:
    """Open data where memory is limited: converted text stays on disk, and so does each of several files."""
    return _opened(path, scaling, _open_one_limited)


def _opened(path: Any, scaling: str | None, open_one: Opener) -> Any:
    """Open what a path, a list of paths or an address stands for; `open_one` opens a file."""
    part = partial(_open_part, open_one)
    if not isinstance(path, str | os.PathLike):
        _check_one(scaling)
        return open_shards([as_path(each) for each in path], part)
    if is_address(path):
        return _checked(path, _open_address(str(path), scaling, open_one is _open_one_limited))
    path = as_path(path)
    try:
        several = (path.is_dir() and _folder_format(path) is None) or is_pattern(path)
    except OSError as error:  # a name that is too long, say
        raise DataError(f"{path} cannot be read ({error.strerror}): name a data file that can.") from error
    if several:
        _check_one(scaling)
        return open_shards(files_of(path), part)
    return _checked(path, open_one(path, scaling))


def _check_one(scaling: str | None) -> None:
    """Raise if several files are to be scaled: each of them has frequencies of its own."""
    if scaling is not None:
        raise OptionError(f"scaling={scaling!r} is for one .bed file, not for several: merge them with plink first.")


def _open_part(open_one: Opener, path: Path) -> Any:
    """Open one of several files. Where memory is limited, none of them may have to be loaded."""
    if open_one is not _open_one_limited:
        return open_one(path, None)
    found = in_parts(path)
    if found is None and contents(path) is not None:
        raise DataError(
            f"{path} has to be loaded whole, so memory_limit cannot be kept with several such files. Write them "
            "without compression, as scipy.sparse.save_npz(path, X.tocsr(), compressed=False) or numpy.save do."
        )
    return open_one(path, None) if found is None else found


def contents(path: Any) -> Contents | None:
    """What the headers of a file say that would be loaded whole; None for what is mapped, or read block by block."""
    found: Contents | None = _before_loading(path, "contents")
    return found


def in_parts(path: Any) -> Source | None:
    """A file that would be loaded whole as a source that is read block by block, where that is possible; else None."""
    found: Source | None = _before_loading(path, "in_parts")
    return found


def _before_loading(path: Any, function: str) -> Any:
    """Call a function of the format's module, if the path is that of a file that would be loaded."""
    if not isinstance(path, str | os.PathLike) or is_address(path) or not os.path.isfile(as_path(path)):
        return None
    path = as_path(path)
    form = _format_of(path)
    if not form.loaded:
        return None
    with damage_reported(path, "is truncated or damaged", "Write or copy it again"):
        return vars(import_module(f"vrpca.data.files.{form.module}"))[function](path)


def open_one(path: Path, scaling: str | None = None) -> Any:
    """Open one file; the matrix may have no rows."""
    path, name = split_name(path)
    return _open(_format_of(path), path, name, scaling)


def _open_one_limited(path: Path, scaling: str | None = None) -> Any:
    """Open one file where memory is limited."""
    path, name = split_name(path)
    return _open(_format_of(path), path, name, scaling, limited=True)


def _open(form: Format, path: Path | Location, name: str | None, scaling: str | None, limited: bool = False) -> Any:
    arguments: dict[str, Any] = {"limited": True} if limited and "limited" in form.options else {}
    if name is not None:
        if not form.named:
            raise DataError(f"{path} holds one matrix only: leave out ::{name}.")
        arguments["name"] = name
    if scaling is not None:
        if "scaling" not in form.options:
            raise OptionError(
                f"scaling={scaling!r} is for .bed files, not for {path}. For genotypes of another kind see "
                'docs/genotypes.md, "Genotypes in an array"; PCA(scale=True) divides columns by their deviations.'
            )
        arguments["scaling"] = scaling
    what, remedy = "is truncated or damaged", "Write or copy it again"
    if isinstance(path, Location):  # every protocol has errors of its own
        what = "cannot be read"
        remedy = "Check the address and the rights to it, install what is missing, or copy the file"
    with damage_reported(path, what, remedy):
        return import_module(f"vrpca.data.files.{form.module}").open_matrix(path, **arguments)


def split_name(path: Path) -> tuple[Path, str | None]:
    """The path of a file, and the name of the matrix in it, if the path has both.

    >>> split_name(Path("data.h5::group/X"))[1]
    'group/X'
    """
    whole, mark, name = str(path).rpartition("::")
    return (Path(whole), name) if mark and whole and name and not os.path.exists(path) else (path, None)


def _open_address(address: str, scaling: str | None, limited: bool) -> Any:
    """Open what lies at an address. A store is known by its ending: ``.zarr``."""
    whole, mark, name = address.rpartition("::")
    place = Location(whole if mark and name else address)
    zarr = next(form for form in FORMATS if form.members)
    is_store = place.address.rstrip("/").endswith(zarr.endings) or f"{zarr.endings[0]}/" in place.address
    form = zarr if is_store else _format_at(place)
    if not form.remote:
        endings = ", ".join(ending for form in FORMATS if form.remote for ending in form.endings)
        raise DataError(f"{place} cannot be read from where it is, only {endings} can: copy it to this machine.")
    return _open(form, place, name if mark and name else None, scaling, limited)


def _format_at(place: Location) -> Format:
    """The format of a file elsewhere: by its first bytes, else by its ending."""
    start, named = place.first_bytes(SIGNATURE), _by_ending(place.address)
    form = _by_signature(start)
    if form is None and named is not None and (named.signature is None or start.startswith(GZIP)):
        form = named
    if start and form is not None:
        return form
    raise _unknown(place, start, named)


def _checked(path: str | os.PathLike[str], X: Any) -> Any:
    """The matrix; an error that names the file where there is nothing in it."""
    if len(X.shape) == 2 and 0 in X.shape:
        count, what = (X.shape[0], "sample") if X.shape[0] == 0 else (X.shape[1], "feature")
        raise DataError(f"{path} has {count} {what}s (shape {X.shape}): there is nothing to decompose. Write it again.")
    return X


def _format_of(path: Path) -> Format:
    """The format of a file: by its first bytes, else by its ending."""
    named = _by_ending(path.name)
    folder = _folder_format(path) if path.is_dir() else None
    if folder is not None:
        return folder
    with open_file(path, "data") as file:
        start = file.read(SIGNATURE)
    packed = start.startswith(GZIP)
    if packed:
        start = LocalFile(path).start(SIGNATURE)
    form = _by_signature(start)
    if form is None and named is not None and named.signature is None:
        form = named
    if start and form is not None and not start.startswith(PICKLE):
        if packed and not any(ending.endswith(".gz") for ending in form.endings):
            raise DataError(f"{path} is compressed with gzip: unpack it first (gunzip).")
        return form
    raise _unknown(path, start, named)


def _folder_format(path: Path) -> Format | None:
    """The format that the whole folder is in, if there is one."""
    return next((form for form in FORMATS if any((path / member).exists() for member in form.members)), None)


def _by_signature(start: bytes) -> Format | None:
    return next((form for form in FORMATS if form.signature and start.startswith(form.signature)), None)


def _by_ending(name: str) -> Format | None:
    return next((form for form in FORMATS if name.lower().endswith(form.endings)), None)


def _unknown(path: Path | Location, start: bytes, named: Format | None) -> DataError:
    """What to say of a file that cannot be read."""
    if not start:
        return DataError(f"{path} is empty: write the data again.")
    if start.startswith(PICKLE):
        return DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    if named is not None:
        return DataError(f"{path} is not a {named.endings[0]} file: it begins with {start[:8]!r}. Write it again.")
    endings = ", ".join(ending for form in FORMATS for ending in form.endings)
    return DataError(
        f"{path} is in no known format, by its first bytes and its name. Files are {endings}: write the data with "
        "numpy.save, numpy.savez or scipy.sparse.save_npz, or give text the right ending."
    )
