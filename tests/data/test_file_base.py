"""The base of all file formats: order, buffers, the thread that reads ahead, samples, changes of files, pickling."""

import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import check_blocks

import vrpca
from helpers import densify, gather, sine
from vrpca.data.files import raw
from vrpca.data.files.base import BUFFERS, DenseFile, SparseFile
from vrpca.data.files.raw import RawFile, map_on_disk
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError


class Rows(DenseFile):
    """An array that is read as a file is."""

    def __init__(self, X, paths=(), block_rows=7):
        super().__init__(paths, X.shape, X.dtype)
        self.X, self.into, self.error_at = X, [], None
        self.block_bytes = block_rows * X.shape[1] * X.itemsize

    def read(self, rows, columns, out):
        if self.error_at is not None and rows.stop > self.error_at[0]:
            raise self.error_at[1]
        self.into.append(out.ctypes.data)
        out[...] = self.X[rows, columns]


class Entries(SparseFile):
    """A CSR matrix that is read as a file is."""

    def __init__(self, X, block_entries=40, kind=np.int32):
        super().__init__([], X.shape, X.dtype, X.indptr)
        self.X, self.kind = X, kind
        self.block_bytes = block_entries * (X.dtype.itemsize + 4)

    def read_entries(self, start, stop):
        return self.X.indices[start:stop].astype(self.kind), self.X.data[start:stop]


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 9)) * np.geomspace(1, 0.05, 9)


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("vrpca-read")]


def thin(X):
    return sp.csr_array(X * (np.abs(X) > 0.2))


# ---------------------------------------------------------------------------------------------------- order and buffers


@pytest.mark.parametrize("block_rows", [1, 7, 20, 60, 1000])
def test_blocks_cover_every_row_once_in_order_and_shuffled(X, block_rows):
    source = Rows(X, block_rows=block_rows)
    check_blocks(source, X)
    check_blocks(source.transposed(), X.T)
    assert source.transposed().transposed() is source


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.uint32])
def test_sparse_blocks_have_sound_indices_whatever_their_type(X, kind):
    """A block may have more entries than eight bits can count."""
    wide = np.tile(X, (3, 1))
    for entries in (100, 10**6):
        source = Entries(thin(wide), entries, kind)
        check_blocks(source, thin(wide).toarray())
        check_blocks(source.transposed(), thin(wide).toarray().T)


def test_blocks_in_random_order_differ_from_pass_to_pass(X):
    rng = np.random.default_rng(0)
    orders = {tuple(start for start, _ in Rows(X).blocks(rng)) for _ in range(5)}
    assert len(orders) > 1 and all(sorted(order) == list(range(0, 60, 7)) for order in orders)


def test_two_buffers_are_used_again_and_again(X):
    source = Rows(X)
    for _ in range(3):
        gather(source)
    assert len(source.into) == 27 and len(set(source.into)) == BUFFERS


def test_passes_side_by_side_have_buffers_of_their_own(X):
    source = Rows(X)
    for (start, one), (_, other) in zip(source.blocks(), source.blocks(), strict=True):
        expected = X[start : start + len(one)]
        np.testing.assert_array_equal(one, expected)
        np.testing.assert_array_equal(other, expected)
    assert len(source.buffers) == 2 * BUFFERS


# ----------------------------------------------------------------------------------------------------------- the thread


class Stopping:
    """An accumulator that gives up after some blocks."""

    def __init__(self, error):
        self.left, self.error = 3, error

    def add(self, start, X):
        assert threads()
        self.left -= 1
        if not self.left:
            raise self.error


def test_the_thread_ends_with_the_pass(X):
    gather(Rows(X))
    assert not threads()


@pytest.mark.parametrize("error", [ValueError("enough"), KeyboardInterrupt()])
def test_the_thread_ends_when_an_accumulator_raises(X, error):
    with pytest.raises(type(error)):
        Rows(X).reduce(Stopping(error))
    assert not threads()


def test_the_thread_ends_when_a_pass_is_abandoned(X):
    blocks = Rows(X).blocks()
    next(blocks)
    assert threads()
    blocks.close()
    assert not threads()


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DataError("row 13 is odd"), DataError, "row 13 is odd"),
        (OSError(5, "Input/output error"), DataError, r"The data cannot be read \(.*Input/output error"),
        (EOFError("cut"), DataError, r"cannot be read \(cut\)"),
        (ZeroDivisionError("a mistake"), ZeroDivisionError, "a mistake"),
        (MemoryError("none left"), MemoryError, "none left"),
    ],
)
@pytest.mark.parametrize("solver", ["gram", "krylov", "vr"])
def test_errors_of_the_thread_reach_the_caller(X, error, kind, message, solver):
    source = Rows(X)
    source.error_at = (30, error)
    with pytest.raises(kind, match=message):
        vrpca.svd(source, 2, solver=solver)
    assert not threads()
    source.error_at = None
    np.testing.assert_array_equal(gather(source), X)  # it can be read again


# ---------------------------------------------------------------------------------------------------- files that change


def rewrite(path):
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")


def grow(path):
    path.write_bytes(path.read_bytes() + b"more")


def shrink(path):
    path.write_bytes(path.read_bytes()[:600])


@pytest.mark.parametrize(
    ("change", "what"),
    [(rewrite, "changed"), (grow, "changed"), (shrink, "changed"), (lambda path: path.unlink(), "removed")],
    ids=["rewritten", "grown", "shrunk", "vanished"],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_changes_during_a_fit_is_named(X, tmp_path, monkeypatch, change, what, order):
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 1000.0)
    path = tmp_path / "X.npy"
    np.save(path, np.asarray(X, order=order))
    source = as_source(path).within(7 * 9 * 8)
    assert isinstance(source, DenseFile) and source.slow_to_read
    with pytest.raises(DataError, match=rf"X\.npy was {what} while it was read"):
        vrpca.svd(source, 2, solver="krylov", tol=0, max_passes=50, callback=lambda record: change(path))
    assert not threads()


def test_a_file_that_ends_too_early_is_named(X, tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(X.tobytes()[:1000])
    with pytest.raises(DataError, match=r"raw ends \d+ bytes too early"):
        gather(RawFile(path, 0, X.shape, X.dtype))


# -------------------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [50, 500, 3000, 10_000])
def test_samples_are_spread_over_sorted_rows(rows, sparse):
    n = 10_000
    X = np.column_stack([np.arange(1.0, n + 1), np.ones(n)])
    source = Entries(sp.csr_array(X), 1000) if sparse else Rows(X, block_rows=100)
    numbers, part, fetched = source.sample(rows, np.random.default_rng(0))
    assert (np.diff(numbers) > 0).all() and fetched == len(numbers) and rows <= fetched <= 1.2 * rows + 64
    np.testing.assert_array_equal(densify(part), X[numbers])
    counts = np.histogram(numbers, 10, (0, n))[0]
    assert counts.min() > 0.5 * rows / 10 and counts.max() < 2 * rows / 10 + 10


def test_samples_have_whole_units(X):
    source = Rows(X)
    source.unit_rows = 10
    numbers, _, _ = source.sample(15, np.random.default_rng(0))
    assert len(numbers) == 20 and (numbers.reshape(2, 10)[:, 0] % 10 == 0).all()


# -------------------------------------------------------------------------------------------------------------- answers

SOLVERS = [
    {},
    {"solver": "gram"},
    {"solver": "power"},
    {"solver": "krylov"},
    {"solver": "accelerated"},
    {"solver": "accelerated", "cost": "passes"},
    {"solver": "vr"},
    {"solver": "vr", "sampling": "norm"},
    {"solver": "hybrid"},
    {"solver": "vr", "deflate": True},
    {"certificate": "probabilistic"},
]


@pytest.mark.parametrize("options", SOLVERS, ids=lambda options: " ".join(map(str, options.values())) or "defaults")
@pytest.mark.parametrize("kind", ["dense", "sparse", "columns", "wide"])
def test_every_solver_gives_the_answer_of_the_array_in_memory(kind, options):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 30)) * 0.7 ** np.arange(30) + 0.1
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.5
    if kind == "wide":
        X = X.T.copy()
    source = Entries(sp.csr_array(X), 500) if kind == "sparse" else Rows(X, block_rows=40)
    if kind == "columns":
        source = Rows(np.ascontiguousarray(X.T)).transposed()
        if options.get("solver") == "gram":
            with pytest.raises(OptionError, match="store the data by rows"):
                vrpca.pca(source, 2, **options)
            return
    found = vrpca.pca(source, 2, tol=1e-11, max_passes=3000, random_state=0, **options)
    s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[1:]
    assert found.converged
    np.testing.assert_allclose(found.s, s[:2], rtol=1e-10)
    assert sine(found.Vt.T, Vt[:2].T) < 1e-4


# ----------------------------------------------------------------------------------------------- maps on disk, pickling

PARTS = [
    lambda X: X,
    lambda X: X[10:50],
    lambda X: X[:, 2:7],
    lambda X: X[::3],
    lambda X: X[5:6, 3:4],
    lambda X: X.T,
    lambda X: X.T[2:5],
]


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_maps_are_read_from_their_files(rng, tmp_path, order, dtype, part):
    X = (5 * rng.standard_normal((60, 9))).astype(dtype)
    np.save(tmp_path / "X.npy", X if order == "C" else X.T)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    source = map_on_disk(part(mapped if order == "C" else mapped.T)).within(300)
    check_blocks(source, part(X))
    check_blocks(source.transposed(), part(X).T)


def test_parts_of_rows_are_read_apart_or_together(rng, tmp_path, monkeypatch):
    X = rng.standard_normal((20, 50))
    np.save(tmp_path / "X.npy", X)
    for gap in (0, 100, 10**6):
        monkeypatch.setattr("vrpca.data.files.raw.GAP", gap)
        check_blocks(map_on_disk(np.load(tmp_path / "X.npy", mmap_mode="r")[:, 3:21]).within(1000), X[:, 3:21])


@pytest.mark.parametrize(
    "X", [lambda m: m[::-1], lambda m: m[:, ::2], lambda m: np.array(m)], ids=["reversed", "gaps", "in memory"]
)
def test_what_is_no_map_of_rows_is_not_read(tmp_path, X):
    np.save(tmp_path / "X.npy", np.eye(6))
    assert map_on_disk(X(np.load(tmp_path / "X.npy", mmap_mode="r"))) is None
    assert map_on_disk(np.load(tmp_path / "X.npy", mmap_mode="c")) is None


def test_large_maps_of_users_are_read_and_small_ones_are_used(X, tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert as_source(mapped).block is not None and not as_source(mapped).slow_to_read
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 1000.0)
    for given in (mapped, np.asarray(mapped), mapped[:, :8]):
        assert isinstance(as_source(given), RawFile) and as_source(given).slow_to_read
    assert as_source(mapped[::-1]).slow_to_read and as_source(X).block is X


@pytest.mark.parametrize("sparse", [False, True])
def test_sources_can_be_pickled(X, tmp_path, sparse):
    np.save(tmp_path / "X.npy", X)
    source = Entries(thin(X)) if sparse else map_on_disk(np.load(tmp_path / "X.npy", mmap_mode="r"))
    before = gather(source)
    for each in (source, source.transposed()):
        again = pickle.loads(pickle.dumps(each))
        np.testing.assert_array_equal(gather(again), gather(each))
    assert len(pickle.dumps(source)) < 20_000
    np.testing.assert_array_equal(gather(source), before)


def test_damaged_entries_name_the_file_and_the_rows(X, tmp_path):
    csr = thin(X)
    (tmp_path / "X").touch()
    source = Entries(csr, 10)
    source.paths, source.X = (tmp_path / "X",), csr.copy()
    source.X.indices[15] = 1000
    with pytest.raises(DataError, match=r"X is damaged in rows \d+ to \d+: .*index is 1000"):
        gather(source)
    with pytest.raises(DataError, match="do not ascend"):
        SparseFile.__init__(source, [], X.shape, X.dtype, csr.indptr[::-1])


# -------------------------------------------------------------------------------------------------------- large files


@pytest.fixture
def past_the_cache(monkeypatch, tmp_path):
    """All files count as large ones; skips where the system does not read past its cache."""
    monkeypatch.setattr(raw, "DIRECT_BYTES", 0)
    (tmp_path / "probe").write_bytes(b"x")
    with raw.opened(tmp_path / "probe") as file:
        if not isinstance(file, raw.DirectBytes):
            pytest.skip("this file system does not read past the page cache")


@pytest.mark.parametrize("room", [4096, 12288, 1 << 20])
def test_bytes_that_are_read_past_the_cache_are_the_same(past_the_cache, monkeypatch, tmp_path, rng, room):
    monkeypatch.setattr(raw, "ROOM_BYTES", room)
    content = rng.integers(0, 256, 50_001, dtype=np.uint8)
    path = tmp_path / "bytes"
    path.write_bytes(content.tobytes())
    with raw.opened(path) as file:
        for start, stop in ((0, 1), (0, 50_001), (4095, 4097), (4096, 8192), (128, 40_128), (50_000, 50_001), (7, 7)):
            out = np.zeros(stop - start, np.uint8)
            file.fill(start, out)
            np.testing.assert_array_equal(out, content[start:stop])
        with pytest.raises(DataError, match="bytes ends 2 bytes too early"):
            file.fill(49_999, np.zeros(4, np.uint8))
        with pytest.raises(DataError, match="bytes ends 4 bytes too early"):
            file.fill(60_000, np.zeros(4, np.uint8))


@pytest.mark.parametrize("form", ["C", "F", "integers", "CSR"])
def test_a_fit_past_the_cache_is_the_same(past_the_cache, monkeypatch, X, tmp_path, form):
    path = tmp_path / ("X.npz" if form == "CSR" else "X.npy")
    if form == "CSR":
        sp.save_npz(path, sp.csr_array(X), compressed=False)
    else:
        np.save(path, (100 * X).astype(np.int16) if form == "integers" else np.asarray(X, order=form))
    direct = vrpca.svd(path, 2, memory_limit="100MB", random_state=0)
    monkeypatch.setattr(raw, "DIRECT_BYTES", 1 << 60)
    cached = vrpca.svd(path, 2, memory_limit="100MB", random_state=0)
    np.testing.assert_array_equal(direct.Vt, cached.Vt)


def test_scattered_parts_come_through_the_cache(past_the_cache, tmp_path):
    with raw.opened(tmp_path / "probe", scattered=True) as file:
        assert not isinstance(file, raw.DirectBytes)


@pytest.mark.parametrize("when", ["opened", "read"])
def test_a_system_that_does_not_read_past_its_cache_reads_through_it(when, monkeypatch, X, tmp_path):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    path = tmp_path / "raw"
    path.write_bytes(X.tobytes())
    monkeypatch.setattr(raw, "DIRECT_BYTES", 0)
    if when == "opened":
        monkeypatch.setattr(raw, "_open_directly", refuse)
    else:
        monkeypatch.setattr(raw.DirectBytes, "_read_sectors", refuse)
    np.testing.assert_array_equal(gather(RawFile(path, 0, X.shape, X.dtype)), X)
