"""The convergence plot: the right kind of file with the right contents, clear errors, no half-written files."""

import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import vrpca
from vrpca.errors import DataError, OptionError
from vrpca.plot import _draw, _new_figure, convergence_plot


@pytest.fixture(scope="module")
def history():
    X = np.random.default_rng(0).standard_normal((400, 30)) * np.geomspace(1, 0.05, 30)
    return vrpca.PCA(2, solver="vr", random_state=0).fit(X).history_


def test_png(tmp_path, history):
    convergence_plot(history, tmp_path / "plot.png", tol=1e-8)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


def test_svg(tmp_path, history):
    convergence_plot(history, str(tmp_path / "plot.SVG"))
    assert ElementTree.parse(tmp_path / "plot.SVG").getroot().tag.endswith("svg")


def test_what_is_drawn(history):
    axes = _new_figure().add_subplot()
    _draw(axes, history, 1e-8)
    bound, residual, tol = axes.get_lines()
    np.testing.assert_array_equal(bound.get_xdata(), [record.passes for record in history])
    np.testing.assert_array_equal(bound.get_ydata(), [record.bound for record in history])
    np.testing.assert_array_equal(residual.get_ydata(), [record.residual for record in history])
    assert set(tol.get_ydata()) == {1e-8} and tol.get_linestyle() == "--"
    assert axes.get_yscale() == "log"
    assert "passes" in axes.get_xlabel() and axes.get_ylabel()


def test_what_a_logarithm_cannot_show_is_a_gap(history):
    odd = [
        vrpca.Record(0, 1.0, 100, 0.0, 0.5, 0.1, float("inf")),
        vrpca.Record(1, 2.0, 200, 0.1, 0.6, 0.01, 0.0),
        vrpca.Record(2, 3.0, 300, 0.2, 0.6, 0.01, 1e-9),
    ]
    axes = _new_figure().add_subplot()
    _draw(axes, odd, 0.0)
    assert len(axes.get_lines()) == 2  # no line for tol = 0
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [np.nan, np.nan, 1e-9])


def test_a_single_record(tmp_path, history):
    convergence_plot(history[:1], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").exists()


def test_refusals(tmp_path, history):
    with pytest.raises(OptionError, match=r"\.jpg.*\.png or \.svg"):
        convergence_plot(history, tmp_path / "plot.jpg")
    with pytest.raises(OptionError, match="no history"):
        convergence_plot([], tmp_path / "plot.png")
    with pytest.raises(DataError, match="no folder"):
        convergence_plot(history, tmp_path / "nowhere" / "plot.png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib(tmp_path, history, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "vrpca\[plot\]"'):
        convergence_plot(history, tmp_path / "plot.png")


def test_pyplot_is_not_touched(tmp_path, history):
    before = "matplotlib.pyplot" in sys.modules
    convergence_plot(history, tmp_path / "plot.png")
    assert ("matplotlib.pyplot" in sys.modules) == before
