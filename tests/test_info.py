"""`vrpca.info` and `vrpca info`: what is told of data before they are read."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import vrpca
from vrpca.cli.app import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    np.save(folder / "dense.npy", rng.standard_normal((4000, 300)))
    np.save(folder / "columns.npy", np.asfortranarray(rng.standard_normal((4000, 300))))
    sp.save_npz(folder / "sparse.npz", sp.random_array((2000, 500), density=0.02, rng=rng, format="csr"))
    return folder


def test_dense_files_are_mapped_and_their_zeros_are_not_counted(folder):
    found = vrpca.info(folder / "dense.npy", 3)
    assert (found.shape, found.dtype, found.sparse, found.entries) == ((4000, 300), "float64", False, 1_200_000)
    assert found.density is None and "not known without reading" in str(found)
    assert found.size_on_disk == (folder / "dense.npy").stat().st_size
    assert found.reading.startswith("mapped")


def test_sparse_archives_are_described_by_their_headers(folder, monkeypatch):
    monkeypatch.setattr("vrpca.data.files.npz.open_matrix", None)  # whoever loads it fails
    found = vrpca.info(folder / "sparse.npz", 3)
    assert found.sparse and found.entries == 20_000 and found.density == pytest.approx(0.02)
    assert found.reading.startswith("loaded whole") and found.bytes_read == found.size_on_disk


def test_under_a_limit_files_are_read_block_by_block(folder):
    found = vrpca.info(folder / "dense.npy", 3, memory_limit="20MB")
    assert found.reading.startswith("block by block: ") and found.memory <= 20e6
    assert "walked by columns" in vrpca.info(folder / "columns.npy", 3, solver="krylov", memory_limit="50MB").reading


@pytest.mark.parametrize("file", ["dense.npy", "columns.npy", "sparse.npz"])
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "vr"])
@pytest.mark.parametrize("given", [None, "100MB"])
def test_the_smallest_limit_is_the_one_that_fits_keep_to(folder, file, solver, given):
    limit = vrpca.info(folder / file, 3, solver=solver, memory_limit=given, n_threads=1).smallest_limit
    options = {"solver": solver, "max_passes": 30, "tol": 0.5, "random_state": 0, "n_threads": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `vr` does not converge everywhere within these passes
        vrpca.PCA(3, memory_limit=limit, **options).fit(folder / file)
    with pytest.raises(vrpca.OptionError, match=f"Pass memory_limit={limit} or more"):
        vrpca.PCA(3, memory_limit=limit - 1, **options).fit(folder / file)
    with pytest.raises(vrpca.OptionError, match=f"Pass memory_limit={limit} or more"):
        vrpca.info(folder / file, 3, memory_limit=limit - 1, solver=solver, n_threads=1)


@pytest.mark.parametrize("file", ["dense.npy", "columns.npy", "sparse.npz"])
@pytest.mark.parametrize("k", [3, 0.2])
def test_the_solver_is_the_one_that_a_fit_takes(folder, file, k):
    told = vrpca.info(folder / file, k, tol=1e-2)
    model = vrpca.PCA(k, max_passes=100, tol=1e-2, random_state=0).fit(folder / file)
    assert model.solver_reason_.startswith(told.reason) and told.solver in (model.solver_, "accelerated")


def test_data_in_memory_are_described_too():
    X = np.ones((100, 20))
    found = vrpca.info(X, 2)
    assert found.solver == "gram" and found.passes == 1 and found.size_on_disk is None and found.bytes_read == 0
    assert found.reading == "in memory: nothing is copied"
    assert vrpca.info(np.ones((50_000, 20), np.int64), 2).reading == "in memory, converted block by block"


def test_the_command_prints_what_the_function_says(folder, capsys):
    assert run(["info", str(folder / "dense.npy"), "-k", "3", "--memory", "30MB", "--tol", "1e-4"]) == 0
    printed = capsys.readouterr().out
    found = vrpca.info(folder / "dense.npy", 3, memory_limit="30MB", tol=1e-4)
    assert printed == f"{found}\n".replace("memory_limit=", "--memory ")
    assert "4000 x 300" in printed and f"--memory {found.smallest_limit}" in printed


def test_the_command_prints_json(folder, capsys):
    assert run(["info", str(folder / "sparse.npz"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["shape"] == [2000, 500] and told["sparse"] and told["data"].endswith("sparse.npz")
    assert told["solver"] and told["smallest_limit"] <= told["memory"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npy"], "There is no data file"),
        (["dense.npy", "-k", "301"], "-k 301"),
        (["dense.npy", "--memory", "much"], "--memory much must be a number of bytes"),
        (["dense.npy", "--memory", "1kB"], "is too small"),
    ],
)
def test_bad_input_is_one_line(folder, arguments, message, capsys):
    assert run(["info", str(folder / arguments[0]), *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_command_line_fits_within_a_limit(folder, capsys, tmp_path):
    limit = vrpca.info(folder / "sparse.npz", 2).smallest_limit
    arguments = ["fit", str(folder / "sparse.npz"), "-k", "2", "--tol", "1e-3", "-q", "--json"]
    assert run([*arguments, "--memory", str(limit - 1)]) == 2
    assert f"Pass --memory {limit} or more" in capsys.readouterr().err
    assert run([*arguments, "--memory", str(limit), "--out", str(tmp_path / "model.npz")]) == 0
    model = vrpca.load(tmp_path / "model.npz")
    assert model.memory_limit == str(limit)
    scores = tmp_path / "scores.npy"
    assert run(["transform", str(tmp_path / "model.npz"), str(folder / "sparse.npz"), "--out", str(scores)]) == 0
    np.testing.assert_allclose(np.load(scores), model.transform(folder / "sparse.npz"))


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_the_names_of_text_are_counted(tmp_path, ending):
    pd.DataFrame(np.eye(4, 3), list("wxyz"), list("abc")).to_csv(
        tmp_path / f"named{ending}", sep="," if ending == ".csv" else "\t"
    )
    found = vrpca.info(tmp_path / f"named{ending}")
    assert (found.row_names, found.column_names) == (4, 3) and "4 rows and 3 columns" in str(found)
