"""A model with names that try to be HTML, and labels of its rows."""

import numpy as np
import pandas as pd
import pytest

import vrpca

NASTY = "<img src=x onerror=\"document.title='broken'\">&</script>"


@pytest.fixture(scope="session")
def table():
    """Three groups of rows; the first component sees mostly the column with the nasty name."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 20)) * np.geomspace(2, 0.1, 20)
    X[:, 4] += 6 * np.repeat([-1, 0, 1], 100)
    names = [f"feature-{j}" for j in range(20)]
    names[4] = NASTY
    return pd.DataFrame(X, columns=names)


@pytest.fixture(scope="session")
def groups():
    return np.repeat(["low", "middle", "high & <b>"], 100)


@pytest.fixture(scope="session")
def model(table):
    return vrpca.PCA(4, solver="krylov", random_state=0).fit(table)


@pytest.fixture(scope="session")
def nasty():
    """The name that must not become HTML."""
    return NASTY


@pytest.fixture(scope="session")
def page(model, table, groups, tmp_path_factory):
    """The page about the model, with its samples."""
    pytest.importorskip("vl_convert", reason='pages need vl-convert-python: pip install "vrpca[report]"')
    from vrpca.report import write_report

    path = tmp_path_factory.mktemp("page") / "page.html"
    write_report(model, path, table, color=groups, color_name="level", rows=120, title="A <title> & more")
    return path
