"""Damaged files: data and models as bytes, what happens to bytes, and archives that were never right."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Rng = np.random.Generator
HEADER = 128  # bytes of the header of a small .npy file

# ------------------------------------------------------------------------------------------------------ bytes


def npy(X: np.ndarray) -> bytes:
    """A .npy file."""
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def npz(arrays: dict[str, Any], compressed: bool = False) -> bytes:
    """A .npz file; objects are pickled."""
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def sparse_npz(X: Any, compressed: bool) -> bytes:
    """What `scipy.sparse.save_npz` writes."""
    file = io.BytesIO()
    sp.save_npz(file, X, compressed)
    return file.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def flip_bits(rng: Rng, data: bytes) -> bytes:
    return _flipped(rng, data, len(data))


def flip_header(rng: Rng, data: bytes) -> bytes:
    return _flipped(rng, data, min(HEADER, len(data)))


def flip_end(rng: Rng, data: bytes) -> bytes:
    """Bits of the last bytes: the directory of a zip archive."""
    return _flipped(rng, data[::-1], min(4 * HEADER, len(data)))[::-1]


def _flipped(rng: Rng, data: bytes, within: int) -> bytes:
    out = bytearray(data)
    for place in rng.integers(0, within, int(rng.integers(1, 9))):
        out[place] ^= 1 << int(rng.integers(8))
    return bytes(out)


def truncate(rng: Rng, data: bytes) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def zero_a_part(rng: Rng, data: bytes) -> bytes:
    start, length = int(rng.integers(len(data))), int(rng.integers(1, 200))
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def insert(rng: Rng, data: bytes) -> bytes:
    start = int(rng.integers(len(data)))
    return data[:start] + rng.bytes(int(rng.integers(1, 50))) + data[start:]


def append(rng: Rng, data: bytes) -> bytes:
    return data + rng.bytes(int(rng.integers(1, 50)))


BYTES: dict[str, Callable[[Rng, bytes], bytes]] = {
    "flipped bits": flip_bits,
    "flipped bits in the header": flip_header,
    "flipped bits at the end": flip_end,
    "truncated": truncate,
    "a part is zero": zero_a_part,
    "bytes inserted": insert,
    "bytes appended": append,
}

# ---------------------------------------------------------------------------------------------------- .npy headers

SHAPES = (
    "(30,)",
    "(30, 6, 1)",
    "(0, 6)",
    "(10000000000, 6)",
    "(-30, 6)",
    "(30, -6)",
    "(31, 6)",
    "30",
    "()",
    "(3e1, 6)",
)
SHAPES += ("(True, 6)", "('30', 6)", "(" * 200, "(30, 999999999999999999999)", "__import__('os')")
TYPES = ("|O", "<c16", "<U2", "|V8", ">f8", "<f2", "<f16", "<M8[s]", "|b1", "<i8", "x", "", "(2,)<f4", "<f99")


def header(shape: str = "(30, 6)", descr: str = "'<f8'", order: str = "False", version: bytes = b"\x01\x00") -> bytes:
    """The header of a .npy file with any text in its fields."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".ljust(HEADER - 11) + "\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()


def npy_with_odd_header(rng: Rng, X: np.ndarray) -> tuple[str, bytes]:
    """The numbers of X after a header that does not fit, and what is odd about the header."""
    kind = int(rng.integers(5))
    if kind == 0:
        shape = str(rng.choice(SHAPES))
        return f"shape {shape[:20]}", header(shape) + X.tobytes()
    if kind == 1:
        descr = str(rng.choice(TYPES))
        return f"type {descr}", header(descr=repr(descr)) + X.tobytes()
    if kind == 2:
        order = str(rng.choice(["1", "None", "'yes'", "[]"]))
        return f"order {order}", header(order=order) + X.tobytes()
    if kind == 3:
        version = bytes(rng.choice([[9, 9], [0, 0], [2, 0], [3, 0]]).astype(np.uint8))
        return f"version {version!r}", header(version=version) + X.tobytes()
    descr = str(rng.choice(["None", "[('a', '<f8')]", "{}", "5", "[('a', 'O')]"]))
    return f"type {descr}", header(descr=descr) + X.tobytes()


# -------------------------------------------------------------------------------------------------------- archives


def patched(data: bytes, offset: int, value: int, form: str = "<H") -> bytes:
    """A zip archive with a field changed in all headers.

    The field is at `offset` in the headers of members, and two bytes later in the directory.
    """
    out = bytearray(data)
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        place = data.find(signature)
        while place >= 0:
            struct.pack_into(form, out, place + offset + shift, value)
            place = data.find(signature, place + 4)
    return bytes(out)


def odd_zips(good: bytes) -> dict[str, bytes]:
    """A good archive with its headers changed, and one that is foreign."""
    return {
        "encrypted": patched(good, 6, 1),
        "unknown compression": patched(good, 8, 99),
        "compressed with what it is not": patched(good, 8, 12),
        "deflated, it says": patched(good, 8, 8),
        "needs a later version": patched(good, 4, 199),
        "other checksums": patched(good, 14, 12345, "<I"),
        "4 GB, the headers say": patched(good, 22, 2**32 - 16, "<I"),
        "4 GB compressed, the headers say": patched(good, 18, 2**32 - 16, "<I"),
        "foreign": zipped({"word/document.xml": b"<xml/>", "[Content_Types].xml": b"<xml/>"}),
        "empty": zipped({}),
    }


def odd_archives(X: np.ndarray) -> dict[str, bytes]:
    """Archives that are damaged, or hold no matrix that could be used."""
    good, csr = npz({"X": X}), sp.csr_array(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "format": b"csr"}
    ones = np.ones((2, 2))
    return {
        "declares 80 GB": zipped({"X.npy": header("(1000000000, 10)") + X.tobytes()}),
        "declares 80 GB of names": zipped({"X.npy": header("(1000000000, 10)", "'<U1'") + X.tobytes()}),
        "declares 10 to the 20 entries": zipped({"X.npy": header("(10000000000, 10000000000)") + X.tobytes()}),
        **odd_zips(good),
        "a folder": zipped({"X.npy/": b""}),
        "text for an array": zipped({"X.npy": b"1,2\n3,4\n"}),
        "nothing for an array": zipped({"X.npy": b""}),
        "objects": npz({"X": np.array([[1, "a"], [None, {}]], dtype=object)}),
        "one dimension": npz({"X": np.arange(5.0)}),
        "no dimension": npz({"X": 3.0}),
        "two matrices": npz({"a": ones, "b": ones}),
        "complex": npz({"X": X + 1j}),
        "text": npz({"X": X.astype(str)}),
        "dates": npz({"X": np.zeros((3, 2), "M8[s]")}),
        "NaN": npz({"X": X * np.nan}),
        "records": npz({"X": np.zeros((3, 2), [("a", float)])}),
        "no rows": npz({"X": X[:0]}),
        **{f"sparse without {name}": npz({n: p for n, p in parts.items() if n != name}) for name in parts},
        **{f"sparse, {what}": npz(parts | change) for what, change in _sparse_changes(csr).items()},
    }


def _sparse_changes(csr: Any) -> dict[str, dict[str, Any]]:
    rows, columns = csr.shape
    return {
        "indices too large": {"indices": csr.indices + columns},
        "indices negative": {"indices": csr.indices - 1},
        "indices too short": {"indices": csr.indices[:-3]},
        "indices are floats": {"indices": csr.indices.astype(float)},
        "indices are text": {"indices": csr.indices.astype(str)},
        "indptr falls": {"indptr": csr.indptr[::-1]},
        "indptr too short": {"indptr": csr.indptr[:-2]},
        "indptr too large": {"indptr": csr.indptr * 2},
        "indptr is 2d": {"indptr": csr.indptr[None]},
        "data too short": {"data": csr.data[:-3]},
        "data are 2d": {"data": csr.data[None]},
        "data are objects": {"data": csr.data.astype(object)},
        "data are complex": {"data": csr.data * 1j},
        "data are NaN": {"data": csr.data * np.nan},
        "format unknown": {"format": b"xyz"},
        "format is a number": {"format": 5},
        "format is coo": {"format": b"coo"},
        "shape negative": {"shape": (-rows, columns)},
        "shape of three": {"shape": (rows, columns, 1)},
        "shape too small": {"shape": (rows // 2, columns // 2)},
        "shape huge": {"shape": (10**12, columns)},
        "shape is text": {"shape": ("a", "b")},
    }


# ---------------------------------------------------------------------------------------------------------- models

ODD_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda a: a + 1j,
    "objects": lambda a: a.astype(object),
    "text": lambda a: a.astype(str),
    "empty": lambda a: a[:0],
    "one dimension more": lambda a: a[None],
    "flat": lambda a: np.float64(3.0),
    "one entry more": lambda a: np.concatenate([a, a[:1]]),
    "one entry less": lambda a: a[:-1],
    "columns missing": lambda a: a[..., :-1],
    "transposed": lambda a: np.ascontiguousarray(a.T),
    "NaN": lambda a: a * np.nan,
    "infinite": lambda a: a + np.inf,
    "whole numbers": lambda a: (10 * a).astype(int),
    "dates": lambda a: np.zeros(a.shape, "M8[s]"),
}
ODD_VALUES = (None, True, -1, 0, 1e400, "abc", "", [], [1], {}, {"a": 1}, 10**30, 0.5)
NEVER = ([1], {"a": 1})  # values that no parameter can have
NAMED = ("status", "kind", "model")  # entries for which only some words are right
ODD_TEXTS = ("", "{", "[]", "5", "null", '"text"', "[" * 100_000, '{"format": 1}', '{"format": "1"}', "{}", "\ud800")


def members(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a .npz file."""
    with np.load(io.BytesIO(data)) as archive:
        return {name: archive[name] for name in archive.files}


def odd_model(rng: Rng, data: bytes) -> tuple[str, bytes]:
    """A model file with one thing changed, and what was changed: its name, a colon, and the change."""
    arrays = members(data)
    metadata = arrays.pop("metadata")
    kind = int(rng.integers(6))
    if kind == 5:
        odd = odd_zips(data) | {"declares 80 GB": _bomb(arrays | {"metadata": metadata})}
        what = str(rng.choice(list(odd)))
        return f"archive: {what}", odd[what]
    if kind == 4:
        text = ODD_TEXTS[int(rng.integers(len(ODD_TEXTS)))]
        return f"metadata: {text[:12]!r}", npz(
            arrays | {"metadata": np.asarray(text.encode("utf-8", "replace").decode())}
        )
    if kind == 3:
        return odd_metadata(rng, arrays, json.loads(str(metadata)))
    names = sorted(name for name in arrays if name != "feature_names_in_")
    name = str(rng.choice(names))
    if kind == 0:
        return f"{name}: missing", npz({n: a for n, a in arrays.items() if n != name} | {"metadata": metadata})
    what = str(rng.choice(list(ODD_ARRAYS)))
    changed = arrays | {name: ODD_ARRAYS[what](arrays[name]), "metadata": metadata}
    return f"{name}: {what}", npz(changed)


def _bomb(arrays: dict[str, Any]) -> bytes:
    """The arrays as an archive in which the header of the components declares 80 GB."""
    contents = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    return zipped(contents | {"components_.npy": header("(1000000000, 10)")})


def _odd_values(name: str, value: Any, parameter: bool) -> list[Any]:
    """Values that can be told from right ones: of another kind than the value; of no kind for a parameter or None."""
    if parameter or value is None:
        return list(NEVER)
    return [odd for odd in ODD_VALUES if name in NAMED or _kind(odd) != _kind(value)]


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def odd_metadata(rng: Rng, arrays: dict[str, Any], metadata: dict[str, Any]) -> tuple[str, bytes]:
    """The model file with one entry of the metadata, at any depth, missing or replaced by an odd value."""
    place, path = metadata, []
    while True:
        name = str(rng.choice(sorted(place)))
        path.append(name)
        if not (isinstance(place[name], dict) and place[name] and rng.random() < 0.7):
            break
        place = place[name]
    if rng.random() < 0.3:
        del place[name]
        what = f"{'.'.join(path)}: missing"
    else:
        odd = _odd_values(name, place[name], "parameters" in path[:-1])
        place[name] = odd[int(rng.integers(len(odd)))]
        what = f"{'.'.join(path)}: {place[name]!r}"
    return what, npz(arrays | {"metadata": np.asarray(json.dumps(metadata))})
