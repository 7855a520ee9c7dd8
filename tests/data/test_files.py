"""Files as data: what opens, as what, and what every unusable file is told."""

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import run_python
from vrpca.data.files import open_data
from vrpca.data.files.paths import check_target, new_array, written_whole
from vrpca.data.open import as_source
from vrpca.errors import DataError


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 7)).astype(np.float32)


def test_npy_is_mapped_not_read(tmp_path, X):
    np.save(tmp_path / "a.npy", X)
    opened = open_data(tmp_path / "a.npy")
    assert isinstance(opened, np.memmap) and not opened.flags.writeable
    np.testing.assert_array_equal(opened, X)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz(tmp_path, X, format):
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(X).asformat(format))
    opened = open_data(tmp_path / "a.npz")
    assert sp.issparse(opened) and opened.dtype == np.float32
    np.testing.assert_array_equal(opened.toarray(), X)


def test_dense_npz_prefers_the_name_x(tmp_path, X):
    np.savez(tmp_path / "a.npz", other=np.zeros((3, 3)), X=X)
    np.testing.assert_array_equal(open_data(tmp_path / "a.npz"), X)


def test_dense_npz_takes_the_only_matrix(tmp_path, X):
    np.savez_compressed(tmp_path / "a.npz", y=np.zeros(30), table=X, cube=np.zeros((2, 2, 2)))
    np.testing.assert_array_equal(open_data(tmp_path / "a.npz"), X)


def test_the_content_counts_not_the_name(tmp_path, X):
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "no-suffix")
    np.testing.assert_array_equal(open_data(tmp_path / "no-suffix"), X)


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_as_source_takes_paths(tmp_path, X, kind):
    np.save(tmp_path / "a.npy", X)
    source = as_source(kind(tmp_path / "a.npy"))
    ((start, block),) = source.blocks()
    assert start == 0
    np.testing.assert_array_equal(block, X)


def test_several_matrices_are_listed(tmp_path, X):
    np.savez(tmp_path / "a.npz", train=X, test=X)
    with pytest.raises(DataError, match=r"train, test.*name the data X"):
        open_data(tmp_path / "a.npz")


def test_no_matrix_at_all(tmp_path):
    np.savez(tmp_path / "a.npz", y=np.zeros(3))
    with pytest.raises(DataError, match=r"arrays y, of which 0 have two dimensions"):
        open_data(tmp_path / "a.npz")


def write_missing(path, X):
    pass


def write_empty(path, X):
    path.write_bytes(b"")


def write_text(path, X):
    path.write_text("1,2,3\n4,5,6\n")


def write_pickle(path, X):
    path.write_bytes(pickle.dumps(X))


def write_object_array(path, X):
    with path.open("wb") as file:
        np.save(file, np.array([["a", 1], [None, 2]], dtype=object), allow_pickle=True)


def write_object_archive(path, X):
    with path.open("wb") as file:
        np.savez(file, X=np.array([["a", 1], [None, 2]], dtype=object))


def write_truncated_array(path, X):
    with path.open("wb") as file:
        np.save(file, X)
    path.write_bytes(path.read_bytes()[:-40])


def write_truncated_header(path, X):
    with path.open("wb") as file:
        np.save(file, X)
    path.write_bytes(path.read_bytes()[:20])


def write_truncated_archive(path, X):
    with path.open("wb") as file:
        np.savez(file, X=X)
    path.write_bytes(path.read_bytes()[:-60])


def write_flipped_archive(path, X):
    with path.open("wb") as file:
        np.savez(file, X=X)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def write_wild_indices(path, X):
    S = sp.csr_array(X)
    with path.open("wb") as file:
        np.savez(
            file, format=b"csr", shape=S.shape, data=S.data, indices=S.indices + 10**6, indptr=S.indptr, _is_array=True
        )


def write_folder(path, X):
    path.mkdir()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_missing, "There is no data file"),
        (write_empty, "is empty"),
        (write_text, r"is in no known format.*\.npy, \.npz"),
        (write_pickle, "pickled Python objects"),
        (write_object_array, "pickled Python objects"),
        (write_object_archive, "pickled Python objects"),
        (write_truncated_array, "truncated or damaged"),
        (write_truncated_header, "truncated or damaged"),
        (write_truncated_archive, "truncated or damaged"),
        (write_flipped_archive, "truncated or damaged"),
        (write_wild_indices, "truncated or damaged"),
        (write_folder, "has no data files"),
    ],
)
def test_unusable_files_are_named_with_the_cause(tmp_path, X, write, message):
    path = tmp_path / "data"
    write(path, X)
    with pytest.raises(DataError, match=message) as caught:
        open_data(path)
    assert str(path) in str(caught.value)


def test_written_whole_replaces_only_when_complete(tmp_path):
    path = tmp_path / "result"
    path.write_text("old")
    with written_whole(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_written_whole_leaves_nothing_behind(tmp_path):
    path = tmp_path / "result"

    def interrupted():
        with written_whole(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_targets_are_checked(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        check_target(tmp_path / "nowhere" / "file")
    with pytest.raises(DataError, match="it is a folder"):
        check_target(tmp_path)


def test_a_link_stays_and_what_is_no_file_is_refused(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with written_whole(link) as temporary:
        temporary.write_bytes(b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="a device or a pipe"), written_whole(pipe):
        pass
    assert pipe.is_fifo() and sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "target"]


# -------------------------------------------------------------------------------------------------------------- headers


def header(shape="(30, 7)", descr="'<f4'", order="False", version=b"\x01\x00"):
    """The header of a .npy file with any text in its fields."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text


def zipped(content, compression=zipfile.ZIP_STORED, name="X.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def patched(data, offset, form, value):
    """The archive with a field of its headers changed: `offset` is that in the member's header."""
    out = bytearray(data)
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        struct.pack_into(form, out, data.index(signature) + offset + shift, value)
    return bytes(out)


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_all_versions_of_headers_are_read(tmp_path, X, version):
    content = header(version=version) + X.tobytes()
    for data in (content, zipped(content)):
        (tmp_path / "data").write_bytes(data)
        np.testing.assert_array_equal(open_data(tmp_path / "data"), X)


@pytest.mark.parametrize("zipping", [lambda content: content, zipped], ids=["npy", "npz"])
@pytest.mark.parametrize(
    "changes",
    [
        {"shape": "(-30, 7)"},
        {"shape": "(30, -7)"},
        {"shape": "(30, 7"},
        {"shape": "(" * 200},
        {"shape": "(30, 999999999999999999999)"},
        {"shape": "(1000000000000, 7)"},
        {"shape": "(31, 7)"},
        {"descr": "'<f99'"},
        {"order": "'yes'"},
        {"version": b"\x09\x09"},
        {"order": "False" + " " * 60_000},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_headers_that_cannot_be(tmp_path, X, changes, zipping):
    path = tmp_path / "data"
    path.write_bytes(zipping(header(**changes) + X.tobytes()))
    with pytest.raises(DataError, match=r"data is truncated or damaged: .*\. Write or copy it again\.$"):
        open_data(path)


@pytest.mark.parametrize(
    ("offset", "form", "value", "message"),
    [
        (6, "<H", 1, "encrypted"),
        (8, "<H", 99, "compressed in a way that is not used"),
        (4, "<H", 199, "version 19.9"),
        (14, "<I", 12345, "Bad CRC-32"),
        (22, "<I", 2**32 - 16, "cannot have 4294967280 bytes: only"),
    ],
)
def test_archives_that_cannot_be(tmp_path, X, offset, form, value, message):
    path = tmp_path / "data"
    path.write_bytes(patched(zipped(header() + X.tobytes()), offset, form, value))
    with pytest.raises(DataError, match=f"damaged: .*{message}"):
        open_data(path)


def test_a_member_has_the_length_of_its_array(tmp_path, X):
    """Otherwise the checksum would not be looked at."""
    (tmp_path / "data").write_bytes(zipped(header("(29, 7)") + X.tobytes()))
    with pytest.raises(DataError, match=r"X has \d+ bytes, but its header says"):
        open_data(tmp_path / "data")


def test_a_sparse_archive_whose_format_is_a_number(tmp_path, X):
    csr = sp.csr_array(X)
    np.savez(tmp_path / "a.npz", format=5, shape=csr.shape, data=csr.data, indices=csr.indices, indptr=csr.indptr)
    with pytest.raises(DataError, match="truncated or damaged"):
        open_data(tmp_path / "a.npz")


def test_objects_beside_the_matrix_do_no_harm(tmp_path, X):
    np.savez(tmp_path / "a.npz", X=X, names=np.array(["a", None], dtype=object))
    np.testing.assert_array_equal(open_data(tmp_path / "a.npz"), X)


def test_what_does_not_fit_in_memory(tmp_path, X, monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError

    np.savez(tmp_path / "a.npz", X=X)
    monkeypatch.setattr(np.lib.format, "read_array", no_memory)
    with pytest.raises(DataError, match=r"does not fit in memory\. Free some, or write a dense matrix with numpy.save"):
        open_data(tmp_path / "a.npz")


# ---------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "message"), [("a\0b", "a null character"), ("\ud800", "cannot encode"), ("x" * 300, "too long")]
)
def test_names_that_no_file_can_have(tmp_path, name, message):
    path = tmp_path / name
    with pytest.raises(DataError, match=message):
        open_data(path)
    with pytest.raises(DataError, match=message):
        check_target(path)
    with pytest.raises(DataError, match=message), written_whole(path):
        pass


def test_a_name_may_have_the_full_length(tmp_path):
    path = tmp_path / ("x" * 255)
    with written_whole(path) as temporary:
        temporary.write_bytes(b"all")
    assert path.read_bytes() == b"all"


def test_nobody_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a device or a pipe"):
        open_data(tmp_path / "pipe")


# ------------------------------------------------------------------------------------------------------------ full disk


@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_new_array_has_its_space(tmp_path, X, dtype, reserve, monkeypatch):
    X = np.tile(X, (1000, 1))
    if not reserve:  # as on systems without it
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    out = new_array(tmp_path / "a.npy", X.shape, dtype)
    assert os.stat(tmp_path / "a.npy").st_blocks * 512 >= out.nbytes  # a map of a file with holes needs space later
    assert not out.any()
    out[:] = X
    out.flush()
    again = np.load(tmp_path / "a.npy")
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, X)


@pytest.mark.parametrize("reserve", [True, False])
def test_no_room_for_a_new_array(tmp_path, reserve):
    """A file limit stands for the full disk."""
    code = f"""
import os, pathlib, resource
from vrpca import DataError
from vrpca.data.files.paths import new_array, written_whole
if not {reserve}: del os.posix_fallocate
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with written_whole(pathlib.Path({str(tmp_path / "a.npy")!r})) as temporary:
        new_array(temporary, (10_000, 10), float)
except DataError as error:
    print(error)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "a.npy cannot be written: File too large. Make room" in done.stdout
    assert list(tmp_path.iterdir()) == []
