"""scikit-learn's own tests of PCA, run against ours."""

import pytest

from sklearn_suite.adapters import suite

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # tolerances at the level of rounding
globals().update(suite("test_pca"))
