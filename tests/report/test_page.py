"""The page: everything in one file, every text escaped, every figure with a table, nothing half-written."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrpca
from vrpca import cli
from vrpca.report import write_report

pytest.importorskip("altair", reason='pages need altair: pip install "vrpca[report]"')
pytest.importorskip("vl_convert", reason='pages need vl-convert-python: pip install "vrpca[report]"')


class Elements(HTMLParser):
    """All elements of a page with their attributes, and the texts outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.found, self.texts, self.inside = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        self.inside.pop() if tag in self.inside else None

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside):
            self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def elements(page):
    return Elements(page.read_text(encoding="utf-8"))


def charts(page):
    (text,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(text)["charts"]


def test_every_figure_has_a_place_a_sentence_and_a_table(page, elements):
    drawn = charts(page)
    assert list(drawn) == ["scree", "scores-1-2", "scores-3-2", *(f"loadings-{j}" for j in range(1, 5)), "convergence"]
    ids = [attributes.get("id") for _, attributes in elements.found]
    assert all(ids.count(name) == 1 for name in drawn)
    for tag in ("figure", "figcaption", "table", "details"):
        assert len(elements.all(tag)) >= len(drawn)
    assert all(chart["description"] for chart in drawn.values())


def test_names_of_features_stay_text(page, elements, nasty):
    assert elements.all("img") == []
    assert nasty in elements.texts  # in a table, as it is
    assert nasty.encode() not in page.read_bytes()
    assert nasty in json.dumps(charts(page), ensure_ascii=False).replace('\\"', '"')
    assert "A <title> & more" in elements.texts


def test_nothing_is_loaded(elements):
    loading = [(tag, name) for tag, found in elements.found for name in ("src", "srcset", "data") if name in found]
    assert loading == [] and elements.all("link") == []
    assert all(found["href"].startswith("#") for found in elements.all("a"))
    (policy,) = (found["content"] for found in elements.all("meta") if "http-equiv" in found)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy


def test_landmarks_and_headings(elements):
    for landmark in ("header", "main", "nav", "footer", "h1"):
        assert len(elements.all(landmark)) == 1
    assert elements.all("html") == [{"lang": "en"}]
    ids = {attributes.get("id") for _, attributes in elements.found}
    for section in elements.all("section"):
        assert section["aria-labelledby"] in ids
    assert {found["href"].removeprefix("#") for found in elements.all("a")} <= ids


def test_the_words(model, elements):
    text = " ".join(elements.texts)
    assert "Converged." in text and model.status_.value in text
    for sentence in model.certificate_.in_words():
        assert sentence in text
    assert "4 components of centred data, to a suboptimality of at most 1e-08" in text
    assert "Drawn are 120 of 300 samples, chosen at random with a seed" in text


def test_a_run_that_did_not_converge_says_so(table, tmp_path):
    with pytest.warns(ConvergenceWarning):
        model = vrpca.PCA(2, solver="power", max_passes=3, random_state=0).fit(table)
    write_report(model, tmp_path / "page.html")
    text = " ".join(Elements((tmp_path / "page.html").read_text()).texts)
    assert "Not converged." in text and "max_passes was reached first" in text
    assert "Samples" not in text  # there are no data


@pytest.mark.parametrize("k", [1, 2])
def test_few_components_and_decompositions(table, tmp_path, k):
    X = table.to_numpy()
    write_report(vrpca.svd(X, k, random_state=0), tmp_path / "page.html", X, color=X[:, 0])
    assert "not centred" not in (tmp_path / "page.html").read_text()  # what was asked for is not known
    assert [name for name in charts(tmp_path / "page.html") if name.startswith("scores")] == [f"scores-1-{k}"]
    assert ("A histogram of all 300 samples" in (tmp_path / "page.html").read_text()) == (k == 1)
    write_report(vrpca.TruncatedSVD(k, random_state=0).fit(X), tmp_path / "page.html", X)
    assert "not centred" in (tmp_path / "page.html").read_text()


def test_without_the_library_nothing_is_written(model, tmp_path, monkeypatch):
    from vrpca.report import page

    page._program.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ImportError, match=r'pip install "vrpca\[report\]"'):
        write_report(model, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files(tmp_path, model, table, groups):
    vrpca.save(model, tmp_path / "model.npz")
    table.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "labels.csv").write_text("level\n" + "\n".join(groups) + "\n")
    return tmp_path


def run(capsys, *arguments):
    capsys.readouterr()
    code = cli.run([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_the_command(files, capsys, monkeypatch):
    monkeypatch.setenv("VRPCA_CACHE", str(files / "cache"))
    page, labels = files / "page.html", files / "labels.csv"
    arguments = ["report", files / "model.npz", files / "data.csv", "--color", f"{labels}:level", "--out", page, "-q"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "") and out.startswith(f"report written to {page}")
    assert "PCA of data.csv" in page.read_text()
    code, out, _ = run(capsys, "report", files / "model.npz", "--out", page, "--json")
    assert code == 0 and json.loads(out)["bytes"] == page.stat().st_size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.npz", "--out", "model.npz"], "would replace MODEL"),
        (["model.npz", "--out", "page.pdf"], "must end in .html"),
        (["model.npz", "--out", "page.html", "--color", "labels.csv:level"], "add DATA after MODEL"),
        (["model.npz", "data.csv", "--out", "page.html", "--color", "labels.csv:none"], "no column 'none'"),
        (["model.npz", "--out", "nowhere/page.html"], "there is no folder"),
        (["labels.csv", "--out", "page.html"], "is not a vrpca model"),
    ],
)
def test_bad_input(files, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    monkeypatch.setenv("VRPCA_CACHE", str(files / "cache"))
    code, out, err = run(capsys, "report", *arguments)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1
    assert not (files / "page.html").exists()


def test_other_data_are_refused(files, capsys):
    np.save(files / "other.npy", np.ones((5, 3)))
    code, _, err = run(capsys, "report", files / "model.npz", files / "other.npy", "--out", files / "page.html")
    assert code == 2 and "3 features" in err
