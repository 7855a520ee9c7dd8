"""How certificates and decompositions read: as text on a terminal, and as HTML in a notebook."""

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest

import vrpca
from vrpca import Certificate, Status
from vrpca.markup import Html, tag


def certificate(**changes):
    plain = Certificate(3e-9, "estimated", np.full(3, 1e-5), np.array([1e-4, 9e-4, 1e-3]), 0.2, 0.31, 0.01)
    return dataclasses.replace(plain, **changes)


@pytest.fixture(scope="module")
def found():
    X = np.random.default_rng(0).standard_normal((400, 30)) * np.geomspace(1, 0.1, 30)
    return vrpca.pca(X, 12, random_state=0)


def test_a_certificate_in_words():
    assert str(certificate()).splitlines()[0] == "Certificate: suboptimality at most 3.0e-09 (estimated)"
    words = certificate().in_words()
    assert words[0].startswith("The 3 components explain what the best 3 can") and "3.0e-09" in words[0]
    assert "unlikely, not impossible" in words[1]
    assert "larger than 0.31 of the largest eigenvalue, but for a probability of 0.01" in words[2]
    assert words[3] == "Every direction is right to within 0.057 degrees."


def test_one_component():
    words = certificate(residuals=np.zeros(1), angles=np.array([1e-3])).in_words()
    assert words[0].startswith("The component explains what the best component can")
    assert words[-1].startswith("The direction is right")


@pytest.mark.parametrize("kind", ["exact", "probabilistic", "estimated"])
def test_every_kind_says_what_it_rests_on(kind):
    assert f"The certificate is {kind}:" in str(certificate(kind=kind))


def test_a_bound_of_one_says_nothing():
    assert "says nothing" in certificate(suboptimality=1.0).in_words()[0]


def test_directions_without_a_bound_are_named():
    words = certificate(angles=np.array([1e-3, 1.0, 1.0])).in_words()
    assert "component 2, 3:" in words[-2] and words[-1].startswith("Every other direction is right")
    many = certificate(residuals=np.zeros(9), angles=np.ones(9)).in_words()
    assert "component 1, 2, 3, 4, 5, ...:" in many[-1]


def test_a_decomposition_as_text(found):
    lines = str(found).splitlines()
    assert lines[0].startswith("Decomposition: 12 components of 400 x 30 data")
    assert lines[1].split() == ["component", "singular", "value", "explained", "cumulative"]
    assert lines[2].split()[1] == f"{found.s[0]:.6g}"
    assert lines[11].strip() == "..." and len(lines) <= 24 and max(map(len, lines)) <= 120
    assert "converged after" in lines[12] and str(found.certificate) in str(found)
    assert "NOT CONVERGED" in str(dataclasses.replace(found, status=Status.PASSES))


class Checked(HTMLParser):
    """Fails where an element is not closed in its turn; counts elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_for_notebooks(found):
    page = Checked(found._repr_html_())
    assert page.seen.count("table") == 1 and page.seen.count("tr") == 11
    Checked(found.certificate._repr_html_())
    odd = dataclasses.replace(found, reason="<script>alert(1)</script>")
    assert "script" not in Checked(odd._repr_html_()).seen


def test_text_is_escaped_and_html_is_not():
    assert tag("p", "a<b", Html("<i>"), title='"') == '<p title="&quot;">a&lt;b<i></p>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert tag("p", hidden=True, lang=False) == "<p hidden></p>"
