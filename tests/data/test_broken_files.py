"""Broken files of all formats, through the command line: exit code 2, one line of advice, nothing left behind."""

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import vrpca
from vrpca.cli.app import run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import broken_files
from broken_files import KINDS

READERS = "vrpca-read"  # threads that read ahead


@pytest.mark.parametrize("name", KINDS)
def test_a_broken_file_is_one_line_that_names_file_place_and_remedy(name):
    kind = KINDS[name]
    pytest.importorskip(kind.needs, reason=f"{kind.needs} is not installed")
    result = broken_files.examine(kind)
    assert result.code == 2
    assert result.printed == ""
    assert result.message.count("\n") == 1
    assert result.message.startswith("vrpca: ")
    for wanted in (kind.file, kind.place, kind.remedy):
        assert wanted in result.message
    assert result.left == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(READERS)]


def test_there_are_forty_kinds_in_all_formats():
    assert len(KINDS) >= 40
    families = {name.partition(":")[0] for name in KINDS}
    assert families >= {"npy", "npz", "shards", "csv", "csv.gz", "svmlight", "mtx", "parquet", "feather", "h5", "h5ad"}
    assert families >= {"zarr", "bed"}


def test_the_judge_objects_to_a_file_that_is_not_broken():
    result = broken_files.examine(broken_files.Kind(broken_files.npy("x.npy", broken_files.X), "x.npy", "", ""))
    assert result.code == 0
    assert result.left == ["data/model.npz"]


def test_in_python_the_message_names_the_file_as_well(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, broken_files.with_bad(broken_files.X, 7, 1))
    with pytest.raises(vrpca.DataError, match=r"x\.npy: Input X contains NaN \(row 7, column 1\)"):
        vrpca.PCA(2).fit(path)
    with pytest.raises(vrpca.DataError, match=r"^Input X contains NaN \(row 7, column 1\)"):
        vrpca.PCA(2).fit(np.load(path))


def test_transform_and_check_name_file_and_row(tmp_path, capsys):
    good, bad, model = (str(tmp_path / name) for name in ("good.npy", "bad.npy", "model.npz"))
    np.save(good, broken_files.X)
    np.save(bad, broken_files.with_bad(broken_files.X, 7, 1))
    assert run(["fit", good, "-k", "2", "-q", "--out", model]) == 0
    capsys.readouterr()
    for command in (["transform", model, bad, "--out", str(tmp_path / "scores.npy")], ["check", model, bad]):
        assert run(command) == 2
        assert "bad.npy: Input X contains NaN (row 7, column 1)" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.npy", "good.npy", "model.npz"]


def test_a_chunk_that_is_not_stored_is_a_warning_where_it_has_a_value(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed")
    store = broken_files.zarr_store(lambda store: broken_files.a_chunk(store).unlink())(tmp_path)
    with pytest.warns(UserWarning, match=r"1 of 3 chunks are not there: they are read as 0\.0"):
        X = vrpca.open_data(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vrpca.pca(X, 2).converged
