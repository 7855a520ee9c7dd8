"""The figures: what they show, what they refuse, and that they are charts for notebooks."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from vrpca.errors import DataError, OptionError
from vrpca.report import convergence, loadings, score_map, scree
from vrpca.report.excerpts import convergence_rows, loading_rows
from vrpca.report.score_sample import GROUPS, OTHER, colour_of, read_colour, score_sample
from vrpca.report.sections import loadings_section
from vrpca.report.subject import subject_of
from vrpca.report.themes import COLOURS, config

altair = pytest.importorskip("altair", reason='figures need altair: pip install "vrpca[report]"')


def rows_of(chart):
    """All rows of data in a chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def test_scree_has_ratios_and_their_sums(model):
    rows = rows_of(scree(model))
    np.testing.assert_allclose([row["ratio"] for row in rows], model.explained_variance_ratio_)
    np.testing.assert_allclose([row["cumulative"] for row in rows], np.cumsum(model.explained_variance_ratio_))


def test_convergence_has_bounds_and_tol(model):
    rows = rows_of(convergence(model))
    bounds = [row["value"] for row in rows if row.get("series", "").startswith("bound")]
    assert bounds == [record.bound for record in model.history_]
    assert [row["tol"] for row in rows if "tol" in row] == [model.tol]


def test_what_a_logarithm_cannot_show_is_a_gap(table):
    found = vrpca.pca(table.to_numpy(), 2, random_state=0)
    odd = [vrpca.Record(0, 1.0, 300, 0.0, 0.5, 0.1, float("inf")), vrpca.Record(1, 2.0, 600, 0.1, 0.6, 0.0, 1e-9)]
    object.__setattr__(found, "history", odd)
    rows = convergence_rows(subject_of(found))
    assert [(row["bound"], row["residual"]) for row in rows] == [(None, 0.1), (1e-9, None)]
    assert not [row for row in rows_of(convergence(found)) if "tol" in row]  # a decomposition does not know it


def test_loadings_are_the_largest_entries(model):
    rows = rows_of(loadings(model, 2, top=5))
    axis = model.components_[1]
    np.testing.assert_allclose([row["loading"] for row in rows], axis[np.argsort(-abs(axis))[:5]])
    assert [row["feature"] for row in rows] == [model.feature_names_in_[j] for j in np.argsort(-abs(axis))[:5]]


def test_equal_names_stay_apart(table):
    twins = table.to_numpy() + 0.0
    model = vrpca.PCA(1, random_state=0).fit(twins)
    model.feature_names_in_ = np.array(["twin"] * 20, dtype=object)
    names = [row["feature"] for row in loading_rows(subject_of(model), 1, 20)]
    assert len(set(names)) == 20 and all(name.startswith("twin (column ") for name in names)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array, np.asfortranarray])
@pytest.mark.parametrize("whiten", [False, True])
def test_scores_are_those_of_transform(table, kind, whiten):
    X = kind(table.to_numpy())
    model = vrpca.PCA(3, scale=True, whiten=whiten, random_state=0).fit(X)
    sample = score_sample(subject_of(model), X, rows=50, seed=1, colour=None)
    assert len(sample.numbers) == 50 and sample.thinned and sample.n == 300
    np.testing.assert_allclose(sample.scores, model.transform(X)[sample.numbers], rtol=1e-10, atol=1e-10)


def test_the_seed_decides_which_rows_are_shown(model, table):
    draws = [score_sample(subject_of(model), table, 20, seed, None).numbers for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_files_that_come_in_blocks(tmp_path, table):
    parts = [tmp_path / f"part-{j}.npy" for j in range(3)]
    for path, part in zip(parts, np.split(table.to_numpy(), 3), strict=True):
        np.save(path, part)
    model = vrpca.PCA(2, random_state=0).fit(table.to_numpy())
    sample = score_sample(subject_of(model), parts, 40, 0, None)
    np.testing.assert_allclose(sample.scores, model.transform(table.to_numpy())[sample.numbers], atol=1e-10)


def test_score_map_has_points_with_their_groups(model, table, groups):
    rows = rows_of(score_map(model, table, x=1, y=3, color=groups, color_name="level"))
    scores = model.transform(table)
    np.testing.assert_allclose([row["x"] for row in rows], scores[:, 0])
    np.testing.assert_allclose([row["y"] for row in rows], scores[:, 2])
    assert [row["group"] for row in rows] == groups.tolist()


def test_a_decomposition_has_all_figures(table):
    X = table.to_numpy()
    found = vrpca.pca(X, 3, random_state=0)
    rows = rows_of(score_map(found, X))
    np.testing.assert_allclose([row["x"] for row in rows], (X - found.mean) @ found.Vt[0], atol=1e-10)
    for figure in (scree, convergence, loadings):
        assert rows_of(figure(found))


def test_small_groups_become_one():
    colour = colour_of([f"g{j % 30}" for j in range(90)] + ["big"] * 9, "g")
    model = vrpca.PCA(2, random_state=0)
    X = np.random.default_rng(0).standard_normal((99, 4))
    sample = score_sample(subject_of(model.fit(X)), X, 99, 0, colour)
    assert len(set(sample.colour.values)) == GROUPS and sample.merged == 31 - (GROUPS - 1)
    assert {"big", OTHER} <= set(sample.colour.values)


def test_numbers_are_a_scale_unless_they_are_few():
    assert colour_of(np.linspace(0, 1, 40), "x").numeric
    assert not colour_of([0, 1, 2] * 9, "x").numeric
    assert colour_of(["1.5", "nan", *map(str, range(20))], "x").values[:2] == [1.5, None]


def test_a_column_of_a_file(tmp_path):
    (tmp_path / "a.csv").write_text('name,kind\n"x, y",1\nz,2\n')
    (tmp_path / "a.tsv").write_text("name\tkind\nx\t1\nz\t2\n")
    assert read_colour(f"{tmp_path}/a.csv:name").colour().values == ["x, y", "z"]
    assert read_colour(f"{tmp_path}/a.tsv:kind").colour().values == ["1", "2"]


@pytest.mark.parametrize("head", [",kind", "sample,kind", "kind"])
def test_lines_are_matched_by_names(tmp_path, head):
    (tmp_path / "a.csv").write_text(f"{head}\nc,3\na,1\nb,2\n")
    found = read_colour(f"{tmp_path}/a.csv:kind")
    assert found.colour(["a", "b", "c"]).values == ["1", "2", "3"]
    assert found.colour().values == ["3", "1", "2"]  # without names of rows, they are taken in order
    with pytest.raises(DataError, match="first column, but not as the data name their rows: 'd' is in one"):
        found.colour(["a", "b", "c", "d"])
    with pytest.raises(DataError, match="first column, but not as the data name their rows"):
        found.colour(["a", "b", "b"])


def test_lines_without_names_are_taken_in_order(tmp_path):
    (tmp_path / "a.csv").write_text("species,size\ncat,1\ndog,2\ncat,3\n")
    found = read_colour(f"{tmp_path}/a.csv:size").colour(["x", "y", "z"])
    assert found.values == ["1", "2", "3"]
    with pytest.raises(OptionError, match=r"name one of its columns \(species, size\)"):
        read_colour(f"{tmp_path}/a.csv:colour")
    (tmp_path / "b.csv").write_text(",species,size\nx,cat,1\n")
    with pytest.raises(OptionError, match=r"name one of its columns \(species, size\)"):
        read_colour(f"{tmp_path}/b.csv:colour")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("labels.csv", "must be FILE:COLUMN"),
        ("nowhere.csv:a", "There is no file nowhere.csv"),
        ("{}/a.csv:other", r"no column 'other': name one of its columns \(name, kind\)"),
        ("{}/short.csv:kind", "too few entries in line 3: 1, not 2"),
        ("{}/bytes.csv:a", "cannot be read as a table"),
    ],
)
def test_columns_that_cannot_be_read(tmp_path, given, message):
    (tmp_path / "a.csv").write_text("name,kind\nx,1\n")
    (tmp_path / "short.csv").write_text("name,kind\nx,1\ny\n")
    (tmp_path / "bytes.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match=message):
        read_colour(given.format(tmp_path))


def test_refusals(model, table):
    with pytest.raises(OptionError, match="There is no component 5: the model has 4"):
        loadings(model, 5)
    with pytest.raises(OptionError, match="theme='pink'"):
        scree(model, theme="pink")
    with pytest.raises(OptionError, match="not fitted yet"):
        scree(vrpca.PCA(2))
    with pytest.raises(OptionError, match="not int"):
        scree(3)
    with pytest.raises(OptionError, match="rows=0"):
        score_map(model, table, rows=0)
    with pytest.raises(DataError, match="group has 2 values, but the data have 300 rows"):
        score_map(model, table, color=["a", "b"])
    with pytest.raises(ValueError, match="3 features, but the model was fitted on 20"):
        score_map(vrpca.pca(table.to_numpy(), 2), table.to_numpy()[:, :3])


def test_without_altair(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r'pip install "vrpca\[report\]"'):
        scree(model)


def luminance(colour):
    """Relative luminance as WCAG defines it."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("theme", COLOURS)
def test_colours_can_be_seen(theme):
    """The least contrast that WCAG 2.2 asks for: 3 for graphics, 4.5 for text."""
    colours = COLOURS[theme]
    back = luminance(colours["background"])
    for least, names in ((3.0, colours["series"] + colours["ramp"]), (4.5, [colours["text"]])):
        for name in names:
            light, dark = sorted([luminance(name), back], reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, name
    assert len(colours["series"]) == GROUPS
    altair.Config.from_dict(config(theme))


def test_few_features_are_all_shown():
    X = np.random.default_rng(0).standard_normal((40, 6))
    text = loadings_section(subject_of(vrpca.PCA(2, random_state=0).fit(X))).text[0]
    assert "all 6." in text and "at most" not in text
