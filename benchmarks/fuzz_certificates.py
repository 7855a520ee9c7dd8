"""Certificates against the truth: nasty matrices, every solver, and a judge with the truth in extended precision.

    python benchmarks/fuzz_certificates.py [--seed S] [--cases N | --seconds T] [--only FAMILY] [--jobs J] [--out FILE]
    python benchmarks/fuzz_certificates.py --seed S --case N      # one case again, in this process

A case is one fit. Every `FITS` cases share a matrix. Seed and number determine everything about a case. The families
are in `fuzz/matrices.py`, the truth in `fuzz/truth.py`, and what a fit must not do in `judge`. With ``--failure P`` all
certificates are probabilistic with that failure probability: at most that part of them may be wrong. Prints a Markdown
page; the exit code is 1 if there are objections to any fit.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers fill the cores already

import numpy as np
import scipy.sparse as sp
from fuzz.matrices import FAMILIES, Problem, make_problem
from fuzz.pool import Limits, Lost, arguments, run, table, until
from fuzz.truth import ERROR, EXTENDED, Truth, prepared
from sklearn.exceptions import ConvergenceWarning

import vrpca

FITS = 8  # fits of one matrix: finding the truth takes as long as a few fits
LIMITS = Limits(seconds=20.0, memory=2 << 30)  # usual fits take well below a second and a few megabytes
SOLVERS = ("vr", "oja", "power", "hybrid", "gram", *["auto", "krylov"] * 2, *["accelerated"] * 4)  # as often as used
COSTS = ("time", "passes")
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-8, 1e-10, 1e-13)
PASSES = (3, 10, 30, 100, 100, 300)
ORTHONORMAL = 16  # times eps sqrt(d): what W^T W may differ from the identity, after one good orthonormalisation
GROSS = (
    1e-3  # part of the largest square: the square of a singular value that is off by more is wrong in any arithmetic
)
FEW_DIGITS = 5e-4  # part of what centring leaves that rounding is: with more of it, data may be refused
CONSTANT = 1e-12  # part of the largest entry: columns that vary by less may count as constant, up to 4000 roundings
SHOWN = 1e-14  # truths below this are rounding: they say nothing about looseness
LISTED = 60  # reproductions that are printed; --out has all


@dataclass(frozen=True)
class Fit:
    """One call: which function or estimator, and its options."""

    door: str
    k: int | float
    options: dict[str, Any]
    start: np.ndarray | None

    def describe(self) -> str:
        """The call in one line."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items() if name != "random_state")
        return f"{self.door}({self.k:.3g}, {given}{', start' if self.start is not None else ''})"


@dataclass(frozen=True)
class Answer:
    """What a fit returned, whichever door it came through; `numbers` are all of its numbers by name."""

    components: np.ndarray
    values: np.ndarray
    ratio: np.ndarray
    bound: float
    kind: str
    converged: bool
    status: str
    passes: float
    numbers: dict[str, Any]


@dataclass(frozen=True)
class Objection:
    """Something that a fit must not do: what kind of thing, and the particulars."""

    what: str
    text: str


@dataclass(frozen=True)
class Finding:
    """What came of a case; `refusal` is the message of a documented error."""

    number: int
    family: str
    solver: str
    dtype: str
    description: str
    kind: str = ""
    bound: float = np.nan
    truth: float = np.nan
    status: str = ""
    passes: float = np.nan
    refusal: str = ""
    objections: tuple[Objection, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether the answer is worse than its certificate says."""
        return too_small(self.bound, self.truth)


def main() -> None:
    parser = arguments(__doc__, FAMILIES)
    parser.add_argument("--failure", type=float, metavar="P", help="failure probability; all are probabilistic then")
    parser.add_argument("--out", type=Path, help="file for the page, with all reproductions")
    options = parser.parse_args()
    if not EXTENDED:
        sys.exit("The truth needs a long double that is wider than double: run this on x86-64 Linux.")
    if options.case is not None:
        show(examine(options.seed, options.case, options.failure))
        return
    began = time.monotonic()
    groups = until(numbers(options.only), options.cases, options.seconds)
    findings = study(options.seed, groups, options.jobs, options.failure)
    seconds = time.monotonic() - began
    again = f"python benchmarks/fuzz_certificates.py --seed {options.seed}"
    again += "" if options.failure is None else f" --failure {options.failure}"
    print(report(findings, seconds, again, LISTED))
    if options.out:
        options.out.write_text(report(findings, seconds, again, len(findings)) + "\n")
    sys.exit(any(f.objections for f in findings))


def numbers(only: str | None) -> Iterator[list[int]]:
    """The numbers of all cases, or of those of one family, grouped by matrix."""
    for matrix in itertools.count():
        if only in (None, family_of(matrix)):
            yield list(range(matrix * FITS, (matrix + 1) * FITS))


def study(seed: int, groups: Iterator[list[int]], jobs: int, failure: float | None = None) -> list[Finding]:
    """Run all cases, in the order of their numbers."""
    found = run(functools.partial(examine, seed, failure=failure), groups, jobs, LIMITS)
    return sorted((lost(seed, f, failure) if isinstance(f, Lost) else f for f in found), key=lambda f: f.number)


# ------------------------------------------------------------------------------------------------------------- cases


def family_of(matrix: int) -> str:
    """The families take turns."""
    return list(FAMILIES)[matrix % len(FAMILIES)]


@functools.lru_cache(maxsize=1)
def problem_of(seed: int, matrix: int) -> tuple[Problem, Truth]:
    """A matrix and the truth about it."""
    problem = make_problem(family_of(matrix), [seed, matrix])
    return problem, Truth(prepared(problem.X, problem.center, problem.scale, problem.weights))


def make_fit(problem: Problem, truth: Truth, rng: np.random.Generator, failure: float | None) -> Fit:
    """A call with random options."""
    options: dict[str, Any] = {"solver": str(rng.choice(SOLVERS)), "tol": float(rng.choice(TOLERANCES))}
    if options["solver"] in ("auto", "accelerated"):
        options["cost"] = str(rng.choice(COSTS))
    if failure is not None or rng.random() < 0.3:
        options["certificate"] = "probabilistic"
        options |= {} if failure is None else {"failure_probability": failure}
    options |= {"max_passes": int(rng.choice(PASSES)), "n_threads": 1, "random_state": int(rng.integers(2**31))}
    k: int | float = problem.k
    start = None
    extra = int(rng.integers(30))  # most fits have nothing out of the ordinary
    if extra == 0:
        start = _axes(problem, rng)
    elif extra == 1:
        k = _fraction(truth, int(rng.integers(1, problem.k + 5)))
    elif extra <= 8:
        options |= _unusual(problem, rng)[extra - 2]
    return Fit(_door(problem, rng, k, start), k, options, start)


def _fraction(truth: Truth, count: int) -> float:
    """A fraction of the variance for which so many components are needed, or fewer if there are fewer."""
    shares = np.cumsum(truth.s**2) / max(float(truth.total), np.finfo(float).tiny)
    count = min(count, len(shares))
    return float(np.clip((shares[count - 1] + (shares[count - 2] if count > 1 else 0)) / 2, 0.01, 0.99))


def _axes(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A start along the axes: a trap where those span an invariant subspace."""
    return np.eye(problem.X.shape[1])[rng.permutation(problem.X.shape[1])[: problem.k]]


def _unusual(problem: Problem, rng: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {"oversample": int(rng.integers(0, 7))},
        {"sampling": "norm"},
        {"restarts": 2},
        {"deflate": True, "solver": "vr", "cost": "auto"},
        {"control": str(rng.choice(["difference", "projection"]))},
        {"epoch_length": int(rng.integers(1, 2 * problem.X.shape[0] + 1))},
        {"n_threads": 2},
    ]


def _door(problem: Problem, rng: np.random.Generator, k: int | float, start: np.ndarray | None) -> str:
    """Which function or estimator is called: estimators take no start, and `svd` and `TruncatedSVD` no fraction."""
    fraction, plain = isinstance(k, float), not (problem.center or problem.scale)
    doors = ["pca"] + ["svd"] * (not fraction)
    if start is None:
        doors += ["PCA"] + ["TruncatedSVD"] * (plain and not fraction)
    return str(rng.choice(doors))


# --------------------------------------------------------------------------------------------------------------- fit


def examine(seed: int, number: int, failure: float | None = None) -> Finding:
    """Make the fit with this number, and judge it."""
    problem, truth = problem_of(seed, number // FITS)
    fit = make_fit(problem, truth, np.random.default_rng([seed, number, FITS]), failure)
    finding = functools.partial(
        Finding, number, problem.family, _solver(fit), str(problem.X.dtype), _line(problem, fit)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call(problem, fit)
        except (vrpca.DataError, vrpca.OptionError) as error:
            return finding(refusal=str(error), objections=tuple(judge_refusal(error, problem, truth)))
        except Exception as error:  # whatever a fit raises is what this looks for
            return finding(objections=(Objection("exception", f"{located(error)}: {error}"),))
    true = true_suboptimality(answer, truth)
    objections = (*warned(caught, answer.converged), *judge(fit, answer, truth, true))
    return finding(answer.kind, answer.bound, true, answer.status, passes=answer.passes, objections=objections)


def lost(seed: int, case: Lost, failure: float | None) -> Finding:
    """The finding for a case that crashed or hung."""
    problem, truth = problem_of(seed, case.number // FITS)
    fit = make_fit(problem, truth, np.random.default_rng([seed, case.number, FITS]), failure)
    what = (Objection("crash or hang", case.why),)
    where = (problem.family, _solver(fit), str(problem.X.dtype), _line(problem, fit))
    return Finding(case.number, *where, objections=what)


def _solver(fit: Fit) -> str:
    cost = fit.options.get("cost", "auto")
    return fit.options["solver"] + ("" if cost == "auto" else f"/{cost}")


def _line(problem: Problem, fit: Fit) -> str:
    return f"{problem.describe()}: {fit.describe()}"


def call(problem: Problem, fit: Fit) -> Answer:
    """Make the fit."""
    how: dict[str, Any] = {"center": problem.center, "scale": problem.scale}
    if fit.door in ("pca", "svd"):
        decompose: Callable[..., vrpca.Decomposition] = getattr(vrpca, fit.door)
        weights = {"sample_weight": problem.weights, "start": fit.start}
        return of_decomposition(decompose(problem.X, fit.k, **weights, **how, **fit.options))
    estimator = getattr(vrpca, fit.door)
    model = estimator(fit.k, **(how if fit.door == "PCA" else {}), **fit.options)
    return of_model(model.fit(problem.X, sample_weight=problem.weights))


def of_decomposition(found: vrpca.Decomposition) -> Answer:
    """The answer of `pca` or `svd`."""
    names = ("U", "s", "Vt", "mean", "scale", "total_variance", "n_samples", "n_passes")
    numbers = {name: getattr(found, name) for name in names} | _numbers(found.certificate)
    ratio = found.explained_variance_ratio
    certificate = found.certificate
    ending = (found.converged, found.status.name, found.n_passes)
    return Answer(found.Vt, found.s, ratio, certificate.suboptimality, certificate.kind, *ending, numbers)


def of_model(model: Any) -> Answer:
    """The answer of a fitted estimator."""
    names = ("components_", "singular_values_", "explained_variance_", "mean_", "scale_", "n_passes_", "n_samples_")
    numbers = {name: getattr(model, name) for name in names} | _numbers(model.certificate_)
    numbers["noise_variance_"] = getattr(model, "noise_variance_", None)
    certificate = model.certificate_
    found = (model.components_, model.singular_values_, model.explained_variance_ratio_)
    ending = (model.converged_, model.status_.name, model.n_passes_)
    return Answer(*found, certificate.suboptimality, certificate.kind, *ending, numbers)


def _numbers(certificate: vrpca.Certificate) -> dict[str, Any]:
    return {f"certificate.{name}": getattr(certificate, name) for name in ("residuals", "angles", "mu")}


# ------------------------------------------------------------------------------------------------------------- judge


def true_suboptimality(answer: Answer, truth: Truth) -> float:
    """The true suboptimality; NaN where Z is zero or the components are none."""
    sound = truth.total and len(answer.components) and np.isfinite(answer.components).all()
    return truth.suboptimality(answer.components) if sound else np.nan


def judge(fit: Fit, answer: Answer, truth: Truth, true: float) -> Iterator[Objection]:
    """All objections to an answer with this true suboptimality."""
    if not truth.total:
        yield Objection("answer without variance", "Z is zero, and the fit did not say so")
        return
    yield from judge_certificate(fit, answer)
    yield from judge_numbers(answer, truth)
    if np.isnan(true):
        return
    if too_small(answer.bound, true):
        ratio = f"{true / answer.bound:.3g} times, by {true - answer.bound:.3g}"
        yield Objection("wrong certificate", f"{true:.4g} in truth, {answer.bound:.4g} certified: {ratio}")
    yield from judge_components(fit, answer, truth)


def judge_refusal(error: Exception, problem: Problem, truth: Truth) -> Iterator[Objection]:
    """Data must not be refused if they vary by more than the rounding of their means, and their type can hold that."""
    varies = truth.total and truth.size > CONSTANT * float(abs(problem.X).max())
    if not isinstance(error, vrpca.DataError) or not varies:
        return
    if not out_of_range(problem, truth) and not cancels(problem, truth):
        yield Objection("refused without need", str(error))


def out_of_range(problem: Problem, truth: Truth) -> bool:
    """Whether the type of the data cannot hold their variance, or what a column is multiplied by to scale it."""
    limits = np.finfo(np.float32 if problem.X.dtype == np.float32 else np.float64)
    if problem.scale:
        X = problem.X.toarray() if sp.issparse(problem.X) else np.asarray(problem.X)
        deviation = X.astype(np.longdouble).std(axis=0)
        if 0 < np.min(deviation, where=deviation > 0, initial=1) < 1 / limits.max:
            return True
    return not limits.tiny < truth.total * truth.size**2 / problem.X.shape[0] < limits.max


def cancels(problem: Problem, truth: Truth) -> bool:
    """Whether centring after products, as sparse rows are, would leave few digits of their type."""
    if not (sp.issparse(problem.X) and problem.center):
        return False
    eps = np.finfo(np.float32 if problem.X.dtype == np.float32 else np.float64).eps
    X = problem.X.toarray().astype(np.longdouble)
    if problem.scale:
        deviation = X.std(axis=0)
        X /= np.where(deviation > 0, deviation, 1)
    return bool(eps * np.sqrt(np.square(X / truth.size).sum() / truth.total) > FEW_DIGITS)


def too_small(bound: float, true: float) -> bool:
    """Whether a bound is below the truth by more than the truth's error and the rounding of the bound itself."""
    return true > bound + ERROR + np.finfo(float).eps * abs(bound)


def judge_certificate(fit: Fit, answer: Answer) -> Iterator[Objection]:
    """The certificate by itself."""
    bound, tol = answer.bound, fit.options["tol"]
    if not 0 <= bound <= 1:
        yield Objection("bound outside [0, 1]", f"the bound is {bound!r}")
    if answer.converged and not bound <= tol:
        yield Objection("converged above tol", f"the bound is {bound:.4g}, tol is {tol:.0e}")
    if answer.kind not in ("estimated", "probabilistic", "exact"):
        yield Objection("kind", f"the kind is {answer.kind!r}")
    if answer.converged and fit.options.get("certificate") == "probabilistic" and answer.kind == "estimated":
        yield Objection("kind", "converged with an estimated certificate where a probabilistic one was asked for")


def judge_numbers(answer: Answer, truth: Truth) -> Iterator[Objection]:
    """Numbers that are not finite though a float can hold them, and parts of the variance that are no parts."""
    overflows = truth.total * truth.size**2 > np.finfo(np.float64).max
    for name, value in answer.numbers.items():
        if value is not None and not np.isfinite(value).all() and not (name == "total_variance" and overflows):
            yield Objection("not finite", f"{name} is not finite")
    ratio = answer.ratio
    if not ((ratio >= 0) & (ratio <= 1)).all():
        yield Objection("ratio outside [0, 1]", f"explained variance ratio from {ratio.min()!r} to {ratio.max()!r}")


def judge_components(fit: Fit, answer: Answer, truth: Truth) -> Iterator[Objection]:
    """Number, orthonormality and lengths of the components."""
    V, s = answer.components, answer.values.astype(np.longdouble)
    count, d = V.shape
    if isinstance(fit.k, int) and count != fit.k:
        yield Objection("wrong count", f"{count} components instead of {fit.k}")
    elif isinstance(fit.k, float) and answer.converged:
        yield from judge_fraction(fit.k, count, truth)
    V64 = V.astype(np.float64)
    error = np.abs(V64 @ V64.T - np.eye(count)).max()
    if error > ORTHONORMAL * np.finfo(V.dtype).eps * np.sqrt(d):
        yield Objection("not orthonormal", f"components differ from orthonormal ones by {error:.2g}")
    true = truth.norms(V) * truth.size
    worst = np.abs((s / true.max()) ** 2 - (true / true.max()) ** 2).max()
    slack = count * np.clip(np.nan_to_num(answer.bound, nan=1.0), 0, 1)  # s may be that of left vectors until they meet
    if not worst <= GROSS + slack:
        yield Objection("wrong singular values", f"squares are off by {float(worst):.2g} of the largest")
    if np.any(s[1:] > s[:-1]):
        yield Objection("wrong singular values", "they are not in order")


def judge_fraction(fraction: float, count: int, truth: Truth) -> Iterator[Objection]:
    """Whether this is the least number of components that explains the fraction, up to a gross error."""
    if truth.largest(count) / truth.total < fraction - GROSS:
        yield Objection("wrong count", f"{count} components cannot explain {fraction:.3f} of the variance")
    if count > 1 and truth.largest(count - 1) / truth.total > fraction + GROSS:
        yield Objection("wrong count", f"{count} components: one fewer explains {fraction:.3f} of the variance, too")


def warned(caught: list[warnings.WarningMessage], converged: bool) -> Iterator[Objection]:
    """Warnings that a user cannot understand, and the one that is missing."""
    clear = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    for w in caught:
        if w not in clear:
            yield Objection("warning", f"{w.category.__name__} at {_short(w.filename)}:{w.lineno}: {w.message}")
    if not converged and not clear:
        yield Objection("silent", "not converged, and no warning says so")


def located(error: BaseException) -> str:
    """The type of an exception and where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {_short(last.filename)}:{last.lineno}"


def _short(path: str) -> str:
    """The end of a path."""
    return "/".join(Path(path).parts[-3:])


# ------------------------------------------------------------------------------------------------------------ report


def report(findings: list[Finding], seconds: float, again: str, listed: int) -> str:
    """The page."""
    answered = [f for f in findings if f.kind]
    bad = [f for f in findings if f.objections]
    parts = [
        f"# Certificates against the truth\n\n{len(findings)} fits, {sum(bool(f.refusal) for f in findings)} refused, "
        f"{len(bad)} with objections, in {seconds:.0f} s; vrpca {vrpca.__version__}; `{again}`.",
        "## By kind and family\n\n" + _summary(answered, lambda f: f.family),
        "## By kind and solver\n\n" + _summary(answered, lambda f: f.solver),
        "## By kind and type\n\n" + _summary(answered, lambda f: f.dtype),
        "## How the fits ended\n\n" + _endings(answered),
        "## Objections\n\n" + _objections(bad),
        "## Refused\n\n" + _refusals([f for f in findings if f.refusal]),
        f"## Reproductions\n\n`{again} --case N` runs case N again.\n\n" + _reproductions(bad, listed),
    ]
    return "\n\n".join(parts)


def _summary(findings: list[Finding], key: Callable[[Finding], str]) -> str:
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for f in findings:
        groups[f.kind, key(f)].append(f)
        groups[f.kind, "*all*"].append(f)
    header = ("kind", "what", "fits", "converged", "wrong", "worst factor", "worst absolute", "median looseness", "90%")
    return table(header, [(*name, *_figures(groups[name])) for name in sorted(groups)])


def _figures(group: list[Finding]) -> tuple[Any, ...]:
    wrong = [f for f in group if f.wrong]
    loose = [f.bound / f.truth for f in group if f.truth > SHOWN and np.isfinite(f.bound)]
    return (
        len(group),
        sum(f.status == "CONVERGED" for f in group),
        len(wrong),
        f"{max(f.truth / f.bound for f in wrong):.3g}" if wrong else "",
        f"{max(f.truth - f.bound for f in wrong):.3g}" if wrong else "",
        f"{np.median(loose):.3g}" if loose else "",
        f"{np.quantile(loose, 0.9):.3g}" if loose else "",
    )


def _endings(findings: list[Finding]) -> str:
    endings = sorted({f.status for f in findings})
    rows = []
    for solver in sorted({f.solver for f in findings}):
        mine = [f for f in findings if f.solver == solver]
        passes = [f.passes for f in mine if f.status == "CONVERGED"]
        median = f"{np.median(passes):.1f}" if passes else ""
        rows.append((solver, *(sum(f.status == e for f in mine) for e in endings), median))
    return table(("solver", *endings, "median passes, converged"), rows)


def _objections(bad: list[Finding]) -> str:
    """How often each kind of objection was made, with families, solvers and an example."""
    groups: dict[str, list[tuple[Finding, Objection]]] = defaultdict(list)
    for f in bad:
        for objection in f.objections:
            groups[objection.what].append((f, objection))
    rows = []
    for what, pairs in sorted(groups.items(), key=lambda item: -len(item[1])):
        cases = {f.number: f for f, _ in pairs}.values()
        rows.append(
            (what, len(cases), _most(f.family for f in cases), _most(f.solver for f in cases), pairs[0][1].text)
        )
    return table(("objection", "fits", "families", "solvers", "for example"), rows) if rows else "None."


def _most(words: Iterator[str]) -> str:
    """The most frequent words with their counts."""
    counts: dict[str, int] = defaultdict(int)
    for word in words:
        counts[word] += 1
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{word} {count}" for word, count in ranked[:6]) + (", ..." if len(ranked) > 6 else "")


def _refusals(refused: list[Finding]) -> str:
    """The different messages, numbers apart, with an example."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for f in refused:
        groups["".join("#" if c.isdigit() else c for c in f.refusal)].append(f)
    rows = [
        (len(group), group[0].number, _most(f.family for f in group), group[0].refusal) for group in groups.values()
    ]
    return table(("fits", "case", "families", "message"), rows) if rows else "None."


def _reproductions(bad: list[Finding], listed: int) -> str:
    """The cases with objections, worst first, one line each."""
    ranked = sorted(bad, key=lambda f: -(f.truth - f.bound) if f.wrong else 0)
    lines = [f"- {f.number}: {'; '.join(o.text for o in f.objections)} | {f.description}" for f in ranked[:listed]]
    if len(ranked) > listed:
        lines.append(f"- and {len(ranked) - listed} more: --out writes all.")
    return "\n".join(lines) or "None."


def show(finding: Finding) -> None:
    """Print all about one case."""
    print(finding.description)
    if finding.refusal:
        print("refused:", finding.refusal)
    else:
        numbers = f"certificate {finding.bound:.4g}, truth {finding.truth:.4g}"
        print(f"{finding.kind} {finding.status} after {finding.passes:.2f} passes: {numbers}")
    for objection in finding.objections:
        print(f"{objection.what}: {objection.text}")
    sys.exit(bool(finding.objections))


if __name__ == "__main__":
    main()
