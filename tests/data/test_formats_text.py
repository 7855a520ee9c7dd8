"""Text as data: CSV, TSV, MatrixMarket and svmlight give the answer of the array, or one clear error; and the cache."""

import gzip
import io
import json
import logging
import pickle
import re
import shutil
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import vrpca
from helpers import densify, gather
from vrpca.cli.app import run
from vrpca.data.files import open_data
from vrpca.data.files.base import FileSource
from vrpca.data.open import as_source
from vrpca.errors import DataError

pytest.importorskip("pyarrow", reason="CSV needs pyarrow")
SMALL = 2000.0  # bytes of memory: nothing fits


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VRPCA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["fits", "does not fit"])
def memory(request, monkeypatch):
    """The same files on a large machine and on one with next to no memory."""
    if request.param != "fits":
        monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: SMALL)
        for name in ("origin.CHUNK", "delimited.CHUNK", "npz.CHUNK", "buckets.BUCKET_BYTES"):
            monkeypatch.setattr(f"vrpca.data.files.{name}", 1500)
    return request.param


@pytest.fixture
def X(rng):
    return np.round(rng.standard_normal((80, 6)) * [9, 5, 3, 1, 0.5, 0.3], 3)


def write(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def csv_text(X, delimiter=",", header=None, names=None, quote=""):
    rows = [delimiter.join(f"{quote}{value!r}{quote}" for value in row) for row in X.tolist()]
    if names is not None:
        rows = [f"{name}{delimiter}{row}" for name, row in zip(names, rows, strict=True)]
    return "\n".join([*([delimiter.join(header)] if header else []), *rows]) + "\n"


def mtx_text(X, **options):
    file = io.BytesIO()
    scipy.io.mmwrite(file, X, precision=17, **options)
    return file.getvalue()


def svmlight_text(X, zero_based=True):
    file = io.BytesIO()
    dump_svmlight_file(X, np.arange(X.shape[0]), file, zero_based=zero_based)
    return file.getvalue()


def sparse(X):
    return X * (np.abs(X) > 0.4)


def check_same(path, X):
    """What is opened has the entries of X, and so the answer of X."""
    source = as_source(path)
    np.testing.assert_array_equal(gather(source), X)
    found, expected = vrpca.pca(source, 2, random_state=0), vrpca.pca(X, 2, random_state=0)
    np.testing.assert_allclose(found.s, expected.s, rtol=1e-10)
    np.testing.assert_allclose(found.Vt, expected.Vt, atol=1e-10)
    return source


# ------------------------------------------------------------------------------------------------------------------ CSV


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.tsv", "a.csv.gz", "a.tsv.gz"])
@pytest.mark.parametrize("header", [None, [*"abcdef"]])
@pytest.mark.parametrize("named", [False, True])
def test_tables(tmp_path, X, memory, name, header, named):
    names = [f"sample {i}, é" for i in range(80)] if named else None
    shown = None if names is None else [f'"{each}"' for each in names]
    top = ["name", *header] if header and named else header
    text = csv_text(X, "\t" if "tsv" in name else ",", top, shown)
    source = check_same(write(tmp_path / name, text), X)
    assert isinstance(source, FileSource) == (memory != "fits")
    assert source.column_names == header
    assert (None if source.row_names is None else list(source.row_names)) == names
    if named:
        assert source.row_names[-1] == names[-1] and source.row_names[3:5] == names[3:5]
        assert list(pickle.loads(pickle.dumps(source)).row_names) == names


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("a;b\n1;2\n3;4\n", ["a", "b"], None),  # another delimiter than the ending says
        ("a\tb\n1\t2\n3\t4\n", ["a", "b"], None),
        ("1|2\n3|4\n", None, None),
        ('"a,b",c\n"1","2"\n"3","4"\n', ["a,b", "c"], None),  # quoted
        ('"a\nb",c\n1,2\n3,4\n', ["a\nb", "c"], None),  # a line break in a name
        ("\ufeffa,b\r\n1,2\r\n3,4\r\n", ["a", "b"], None),  # as Windows writes it
        (",a,b\n0,1,2\n1,3,4\n", ["a", "b"], ["0", "1"]),  # as pandas writes the index
        (",0,1\n0,1,2\n1,3,4\n", ["0", "1"], ["0", "1"]),
        ("a,b\nr1,1,2\nr2,3,4\n", ["a", "b"], ["r1", "r2"]),  # as R writes the names of rows
        ("year,2019\n1,2\n3,4\n", ["year", "2019"], None),
        ("r1,1,2\nr2,3,4\n", None, ["r1", "r2"]),
        ("\n\na,b\n1,2\n\n3,4\n\n", ["a", "b"], None),  # empty lines
        ("1, 2\n 3,4e0", None, None),  # blanks, and no line end
    ],
)
def test_layouts_of_tables(tmp_path, text, columns, rows):
    source = as_source(write(tmp_path / "a.csv", text))
    np.testing.assert_array_equal(gather(source), [[1, 2], [3, 4]])
    assert source.column_names == columns
    assert (None if source.row_names is None else list(source.row_names)) == rows


@pytest.mark.parametrize("text", ["v\n1\n2\n3\n", "1\n2\n3\n", '"1"\n"2"\n3\n'])
def test_one_column(tmp_path, text):
    np.testing.assert_array_equal(gather(as_source(write(tmp_path / "a.csv", text))), [[1], [2], [3]])


def test_lines_longer_than_what_is_parsed_at_a_time(tmp_path, rng, monkeypatch):
    monkeypatch.setattr("vrpca.data.files.delimited.CHUNK", 64)
    monkeypatch.setattr("vrpca.data.files.delimited.HEAD", 64)
    X = rng.standard_normal((30, 50))
    check_same(write(tmp_path / "a.csv", csv_text(X)), X)


ROWS = "".join(f"{i},{i + 0.5}\n" for i in range(1000))
TABLE_ERRORS = [
    ("a,b\n" + ROWS + "5,oops\n", r"line 1002, column 'b': invalid value 'oops'.*only numbers"),
    (ROWS + "5,oops\n", r"line 1001, column 1: invalid value 'oops'"),
    ("a,b\n" + ROWS + "5,\n", r"row 1000 \(line 1002\), column 'b' is missing.*impute or drop"),
    ("a,b\n" + ROWS + "NA,1\n", r"row 1000 \(line 1002\), column 'a' is missing"),
    (ROWS + "nan,1\n", r"row 1000 \(line 1001\), column 0 is missing"),
    (ROWS + "1,inf\n", r"row 1000 \(line 1001\), column 1 is infinite"),
    (ROWS + "1,2,3\n", r"line 1001 has 3 fields, but the others have 2"),
    (ROWS + "1", r"line 1001 has 1 fields, but the others have 2.*cut"),
    ("v\n1\n\n3\n", r"row 1 \(line 3\), column 'v' is missing"),
    ("a,b\n", r"has 0 samples"),
    ("\n\n", "is empty"),
    ("", "is empty"),
    ("a\xe9,b\n1,2\n".encode("latin-1"), r"not UTF-8 text \(line 1\): save it as UTF-8"),
    ("a,b\n1,2\n".encode("utf-16"), "not UTF-8"),
    (
        ("x,1\n" * 300_000).encode() + b"\xff,1\n",
        r"line 300001, the names of rows: invalid UTF8.*save the file as UTF-8",
    ),
    ("a,b\n2020-01-01,x\n", r"column 'b': invalid value 'x'"),
]


@pytest.mark.parametrize(("text", "message"), TABLE_ERRORS)
def test_tables_that_cannot_be_used(tmp_path, cache, text, message):
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(DataError, match=message) as caught:
        as_source(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    left = [entry.name for entry in cache.iterdir()] if cache.exists() else []
    assert not any(name.startswith(".part") for name in left)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r'a\.csv is read with pyarrow: pip install "vrpca\[csv\]"'):
        as_source(write(tmp_path / "a.csv", "1,2\n"))


# --------------------------------------------------------------------------------------------------------- MatrixMarket


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz", "no-ending"])
@pytest.mark.parametrize("kind", ["csc", "csr", "dense"])
def test_matrix_market(tmp_path, X, memory, name, kind):
    X = sparse(X)
    path = write(tmp_path / name, mtx_text(X if kind == "dense" else sp.coo_array(X).asformat(kind)))
    source = check_same(path, X)
    assert source.sparse == (kind != "dense") and isinstance(source, FileSource) == (memory != "fits")


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("dense", [False, True])
def test_matrix_market_as_scipy_reads_it(tmp_path, rng, memory, symmetry, field, dense):
    if dense and field == "pattern":
        field = "double"
    X = np.round(9 * sparse(rng.standard_normal((20, 20)) * (rng.random((20, 20)) < 0.4)))
    X = {"general": X, "symmetric": X + X.T, "skew-symmetric": X - X.T}[symmetry]
    options = {} if field == "double" else {"field": field}
    text = mtx_text(X if dense else sp.coo_array(X), symmetry=symmetry, **options)
    path = write(tmp_path / "a.mtx", text.replace(b"\n", b"\n% a comment\n%\n", 1))
    expected = scipy.io.mmread(io.BytesIO(text))
    np.testing.assert_array_equal(gather(as_source(path)), densify(expected))


def test_entries_for_the_same_place_are_summed_up_as_scipy_does(tmp_path, memory):
    text = "%%MatrixMarket matrix coordinate real general\n3 2 4\n1 1 1.5\n3 2 1\n1 1 2\n\n2 2 -1\n"
    path = write(tmp_path / "a.mtx", text)
    np.testing.assert_array_equal(gather(as_source(path)), [[3.5, 0], [0, -1], [0, 1]])


COORDINATE = "%%MatrixMarket matrix coordinate real general\n"
ENTRIES = "".join(f"{i} 1 {i}\n" for i in range(1, 501))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COORDINATE + "500 2 500\n" + ENTRIES[:-20], r"promises 500 entries and has only 498"),
        (COORDINATE + "500 2 499\n" + ENTRIES, r"promises 499 entries and has more"),
        (
            COORDINATE + "500 2 501\n" + ENTRIES + "501 1 1\n",
            r"entry 501 is in row 501, column 1, outside of a matrix of 500",
        ),
        (COORDINATE + "500 2 501\n" + ENTRIES + "0 1 1\n", r"entry 501 is in row 0, column 1"),
        (COORDINATE + "500 2 501\n" + ENTRIES + "1.5 1 1\n", r"entry 501 is in row 1.5"),
        (COORDINATE + "500 2 501\n" + ENTRIES + "1 2 x\n", r"line 503 is '1 2 x', not 3 number"),
        (COORDINATE + "500 2 501\n" + ENTRIES + "1 2\n", r"line 503 is '1 2', not 3 number"),
        (COORDINATE + "500 2 501\n" + ENTRIES + "7 2 nan\n", r"contains NaN \(row 6, column 1"),
        (COORDINATE + "0 2 0\n", "has 0 samples"),
        (COORDINATE + "500 2\n", "line 2 should have the size"),
        (COORDINATE, "line 2 should have the size"),
        (
            "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n",
            "complex general, which is not supported",
        ),
        ("%%MatrixMarket vector coordinate real general\n1 1 1\n", "does not begin with a line of a MatrixMarket"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", "promises 4 entries and has only 3"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\ninf\n4\n", r"infinity \(row 0, column 1"),
        ("%%MatrixMarket matrix array real symmetric\n2 3\n1\n", "a symmetric matrix cannot be 2 x 3"),
        ("1 2 3\n", "is not a .mtx file: it begins with b'1 2 3"),
    ],
)
def test_matrix_market_that_cannot_be_used(tmp_path, cache, text, message):
    path = write(tmp_path / "bad.mtx", text)
    with pytest.raises(DataError, match=message) as caught:
        as_source(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    assert not cache.exists() or not [entry for entry in cache.iterdir() if entry.name.startswith(".part")]


# ------------------------------------------------------------------------------------------------------------- svmlight


@pytest.mark.parametrize("name", ["a.svmlight", "a.libsvm", "a.svm"])
@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight(tmp_path, X, memory, name, zero_based):
    X = sparse(X)
    path = write(tmp_path / name, svmlight_text(X, zero_based))
    expected = load_svmlight_file(str(path))[0].toarray()
    source = check_same(path, expected)
    np.testing.assert_array_equal(expected, X)
    assert source.sparse and isinstance(source, FileSource) == (memory != "fits")


def test_comments_queries_and_empty_rows_of_svmlight(tmp_path):
    path = write(tmp_path / "a.svm", "# said first\n1 qid:3 1:2.5 3:1 # said last\n-1\n2 2:4\n")
    np.testing.assert_array_equal(gather(as_source(path)), [[2.5, 0, 1], [0, 0, 0], [0, 4, 0]])


LINES = "".join(f"1 1:{i} 3:2\n" for i in range(500))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LINES + "1 2:x\n", r"line 501 is '1 2:x', which is not a label and pairs"),
        (LINES + "1 -2:1\n", r"line 501 is '1 -2:1'.*0 to 2147483646"),
        (LINES + "1 99999999999:1\n", r"line 501 is '1 99999999999:1'.*0 to 2147483646"),
        (LINES + "1 3:1 2:1\n", r"line 501 is '1 3:1 2:1'.*ascending"),
        (LINES + "words\n", r"line 501 is 'words'"),
        (LINES + "1 3:nan\n", r"NaN \(row 500, column 3"),
        ("# nothing\n", "has 0 samples"),
        ("1\n2\n", "has 0 features"),
        ("", "is empty"),
    ],
)
def test_svmlight_that_cannot_be_used(tmp_path, text, message):
    path = write(tmp_path / "bad.svm", text)
    with pytest.raises(DataError, match=message) as caught:
        as_source(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------- files in general


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.mtx.gz"])
@pytest.mark.parametrize("cut", [15, 0.5, -9])
def test_cut_gzip(tmp_path, X, cache, name, cut):
    text = mtx_text(sp.coo_array(X)) if "mtx" in name else csv_text(X)
    path = write(tmp_path / name, text)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut) if isinstance(cut, float) else cut])
    with pytest.raises(DataError, match=r"gz is truncated or damaged: .*Write or copy it again"):
        as_source(path)
    assert not cache.exists() or not list(cache.iterdir())


def test_gzip_where_it_is_not_expected(tmp_path, X):
    file = io.BytesIO()
    np.save(file, X)
    with pytest.raises(DataError, match=r"a\.npy\.gz is compressed with gzip: unpack it first"):
        open_data(write(tmp_path / "a.npy.gz", file.getvalue()))
    check_same(write(tmp_path / "a.csv", gzip.compress(csv_text(X).encode())), X)


def test_unknown_endings_and_wrong_magic(tmp_path):
    with pytest.raises(DataError, match=r"a\.xyz is in no known format.*\.npy, \.npz, \.csv.*\.mtx.*\.svmlight"):
        open_data(write(tmp_path / "a.xyz", "1,2\n"))
    with pytest.raises(DataError, match=r"a\.npy is not a \.npy file: it begins with b'1,2"):
        open_data(write(tmp_path / "a.npy", "1,2\n"))
    with pytest.raises(DataError, match="pickled Python objects"):
        open_data(write(tmp_path / "a.csv", pickle.dumps([1, 2])))


# ---------------------------------------------------------------------------------------------------------------- cache


def entries(cache):
    return sorted(entry.name for entry in cache.iterdir())


def test_text_is_converted_once_and_again_when_it_changes(tmp_path, X, cache, caplog):
    path = write(tmp_path / "a.csv", csv_text(X))
    with caplog.at_level(logging.INFO, logger="vrpca"):
        check_same(path, X)
        (first,) = entries(cache)
        assert re.search(rf"a\.csv was converted; later fits read .*{first}", caplog.text)
        caplog.clear()
        check_same(path, X)
        assert not caplog.text and entries(cache) == [first]
        check_same(write(path, csv_text(2 * X)), 2 * X)
        (second,) = entries(cache)
        assert caplog.text and second != first
    check_same(write(tmp_path / "b.csv", csv_text(X)), X)
    assert len(entries(cache)) == 2


def cut_array(entry):
    array = entry / "X.npy"
    array.write_bytes(array.read_bytes()[:-8])


@pytest.mark.parametrize(
    "damage",
    [
        cut_array,
        lambda entry: (entry / "X.npy").unlink(),
        lambda entry: (entry / "entry.json").write_text("{"),
        lambda entry: (entry / "entry.json").write_text("[1]"),
        lambda entry: (entry / "entry.json").unlink(),
        lambda entry: (shutil.rmtree(entry), entry.mkdir()),
    ],
)
def test_damaged_entries_are_converted_again(tmp_path, X, cache, damage):
    path = write(tmp_path / "a.csv", csv_text(X))
    check_same(path, X)
    (name,) = entries(cache)
    damage(cache / name)
    check_same(path, X)
    assert entries(cache) == [name]


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path, X, monkeypatch, capsys):
    path = write(tmp_path / "a.csv", csv_text(X))
    (tmp_path / "file").touch()
    monkeypatch.setenv("VRPCA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"a\.csv cannot be converted in the folder .*Not a directory.*VRPCA_CACHE"):
        as_source(path)
    assert run(["fit", str(path), "-k", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_is_one_clear_error_that_leaves_nothing_behind(tmp_path, X, cache, monkeypatch):
    def full(self, numbers):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vrpca.data.files.cache.GrowingArray.append", full)
    with pytest.raises(DataError, match=r"No space left on device\)\. Make room there, or set VRPCA_CACHE"):
        as_source(write(tmp_path / "a.csv", csv_text(X)))
    assert entries(cache) == []


def test_two_processes_that_convert_at_once_do_no_harm(tmp_path, X, cache, monkeypatch):
    """The other one is faster: what it has written is used."""
    from vrpca.data.files import cache as module

    path, put = write(tmp_path / "a.csv", csv_text(X)), module._put

    def late(folder, entry):
        shutil.copytree(folder, entry)
        put(folder, entry)

    monkeypatch.setattr(module, "_put", late)
    check_same(path, X)
    assert len(entries(cache)) == 1


def test_text_that_changes_during_its_conversion_or_a_fit_is_named(tmp_path, X, cache, monkeypatch):
    from vrpca.data.files import cache as module

    path = write(tmp_path / "a.csv", csv_text(X))
    append = module.GrowingArray.append
    with monkeypatch.context() as patch:
        patch.setattr(module.GrowingArray, "append", lambda self, rows: (append(self, rows), path.write_text("1,2\n")))
        with pytest.raises(DataError, match=r"a\.csv was changed while it was read"):
            as_source(path)
    assert entries(cache) == []
    write(path, csv_text(X))
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: SMALL)
    with pytest.raises(DataError, match=r"a\.csv was removed while it was read"):
        vrpca.svd(str(path), 2, solver="krylov", tol=0, callback=lambda record: path.unlink())


def test_the_cache_folder(monkeypatch, tmp_path):
    from vrpca.data.files.cache import cache_folder

    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("VRPCA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/vrpca"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache_folder()) == "/home/me/.cache/vrpca"


# --------------------------------------------------------------------------------------------------------------- remote


def test_addresses_are_read_through_fsspec(X, cache):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    texts = {"a.csv": csv_text(X).encode(), "a.csv.gz": gzip.compress(csv_text(X).encode()), "a.mtx": mtx_text(X)}
    for name, text in texts.items():
        files.pipe(f"/vrpca/{name}", text)
        check_same(f"memory://vrpca/{name}", X)
    files.pipe("/vrpca/a.csv", csv_text(3 * X).encode())
    check_same("memory://vrpca/a.csv", 3 * X)
    with pytest.raises(DataError, match=r"There is no file memory://vrpca/b\.csv"):
        as_source("memory://vrpca/b.csv")
    with pytest.raises(DataError, match=r"nowhere://a\.csv cannot be opened: Protocol not known"):
        as_source("nowhere://a.csv")
    files.rm("/vrpca", recursive=True)


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        DataError, match=r's3://bucket/a\.csv cannot be read without fsspec: pip install "vrpca\[remote\]"'
    ):
        as_source("s3://bucket/a.csv")


# ---------------------------------------------------------------------------------------------- names, the command line


def test_names_of_columns_are_kept_and_compared(tmp_path, X):
    path, other = write(tmp_path / "a.csv", csv_text(X, header=[*"abcdef"])), tmp_path / "b.csv"
    model = vrpca.PCA(2, random_state=0).fit(path)
    assert list(model.feature_names_in_) == [*"abcdef"]
    scores = model.transform(path)
    np.testing.assert_allclose(scores, vrpca.PCA(2, random_state=0).fit_transform(X), atol=1e-9)
    write(other, csv_text(X, header=[*"abdcef"]))
    for given in (other, str(other), [other], as_source(other)):
        with pytest.raises(DataError, match=r"feature names should match.*column 2 is 'd', but was 'c'"):
            model.transform(given)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.transform(X)
    plain = vrpca.PCA(2, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="X has feature names, but PCA was fitted without"):
        plain.transform(path)
    with pytest.raises(DataError, match="X has 1 features, but the model was fitted on 6"):
        model.transform(write(tmp_path / "c.csv", "a\n1\n2\n"))
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")


def test_the_command_line_says_what_is_converted_and_keeps_names(tmp_path, X, capsys):
    path, model = write(tmp_path / "a.csv", csv_text(X, header=[*"abcdef"])), tmp_path / "model.npz"
    assert run(["fit", str(path), "-k", "2", "--json", "--out", str(model)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["n_features"] == 6 and "a.csv was converted; later fits read" in err
    assert list(vrpca.load(model).feature_names_in_) == [*"abcdef"]
    scores = tmp_path / "scores.npy"
    assert run(["transform", str(model), str(path), "--out", str(scores)]) == 0
    assert "converted" not in capsys.readouterr().err and np.load(scores).shape == (80, 2)
    wrong = write(tmp_path / "b.csv", csv_text(X, header=[*"abdcef"]))
    scores.unlink()
    assert run(["transform", str(model), str(wrong), "--out", str(scores), "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "column 2 is 'd', but was 'c'" in err and not scores.exists()
    assert run(["check", str(model), str(path)]) == 0
    assert run(["fit", str(write(tmp_path / "c.csv", csv_text(X))), "-k", "2", "--quiet"]) == 0
    assert not capsys.readouterr().err


def test_the_command_line_refuses_bad_text_in_one_line(tmp_path, cache, capsys):
    path = write(tmp_path / "a.csv", "a,b\n" + ROWS + "1,oops\n")
    assert run(["fit", str(path), "-k", "1", "--out", str(tmp_path / "model.npz")]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and "line 1002, column 'b': invalid value 'oops'" in err
    assert entries(cache) == [] and sorted(entry.name for entry in tmp_path.iterdir()) == ["a.csv", "cache"]
