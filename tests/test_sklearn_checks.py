"""scikit-learn's own checks of estimators, with no expected failures.

The stochastic solvers are left out: on ten rows they cannot reach the 1e-9 at which the checks compare two fits.
"""

from sklearn.utils.estimator_checks import parametrize_with_checks

import vrpca


@parametrize_with_checks(
    [
        vrpca.PCA(),
        vrpca.TruncatedSVD(),
        vrpca.PCA(1, scale=True, whiten=True),
    ]
)
def test_sklearn_agrees(estimator, check):
    check(estimator)
