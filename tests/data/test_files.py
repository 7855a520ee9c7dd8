"""Files as data: what opens, as what, and what every unusable file is told."""

import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from vrpca.data.files import check_target, open_data, written_whole
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
        (write_text, r"is not a \.npy or \.npz file"),
        (write_pickle, "pickled Python objects"),
        (write_object_array, "pickled Python objects"),
        (write_object_archive, "pickled Python objects"),
        (write_truncated_array, "truncated or damaged"),
        (write_truncated_header, "truncated or damaged"),
        (write_truncated_archive, "truncated or damaged"),
        (write_flipped_archive, "truncated or damaged"),
        (write_wild_indices, "truncated or damaged"),
        (write_folder, "cannot be read"),
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
