"""Bad input: damaged files and matrices, sources that break their promises, nasty values for every option.

    python benchmarks/fuzz_inputs.py [--seed S] [--cases N | --seconds T] [--only FAMILY] [--jobs J]
    python benchmarks/fuzz_inputs.py --seed S --case N      # one case again, in this process

Each case must end with a right answer or with one clear error: a ValueError or TypeError that vrpca raises on purpose.
Anything else is a failure: another exception, an error from deep inside, a crash, a hang, much memory, or damaged input
that is accepted with a wrong answer. Cases run in forked processes. Prints a Markdown page with one line for each
different failure; the exit code is 1 if there are any.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import itertools
import linecache
import os
import sys
import tempfile
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
from fuzz import files, objects
from fuzz.formats import WRITTEN
from fuzz.pool import Limits, Lost, arguments, limit_memory, run, table, until
from fuzz.truth import Truth, prepared
from sklearn.exceptions import ConvergenceWarning

import vrpca
import vrpca.cli

Rng = np.random.Generator
LIMITS = Limits(seconds=20.0, memory=1 << 30)  # the data of a case have a few kilobytes
GROUP = 16  # cases that a worker takes at a time
RIGHT = 1e-6  # suboptimality of a right answer at the default tol of 1e-8; a wrong one is off by far more
SIMILAR = 1e-3  # relative difference of singular values and scores of a right answer; a wrong one differs by far more
SOLVERS = ("auto", "vr", "oja", "power", "hybrid", "krylov", "accelerated", "gram")
CLEAR = ("/vrpca/", "/sklearn/")  # who raises clear errors; scikit-learn checks names of features, and more
WORDS = 4  # the least number of words of a clear message


@dataclass(frozen=True)
class Case:
    """Something that a user might do.

    Attributes
    ----------
    label : str
        What is odd about it, without particulars.
    text : str
        What is odd about it.
    act : callable
        Does it, and returns what came of it.
    objection : callable
        Says what is wrong with what came of it, or nothing.
    """

    label: str
    text: str
    act: Callable[[], Any]
    objection: Callable[[Any], str]


@dataclass(frozen=True)
class Finding:
    """What came of a case: `outcome` is "right", "refused" or a kind of failure."""

    number: int
    family: str
    text: str
    outcome: str
    where: str = ""
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether that must not happen."""
        return self.outcome not in ("right", "refused")


def main() -> None:
    options = arguments(__doc__, FAMILIES).parse_args()
    if options.case is not None:
        limit_memory(LIMITS.memory)
        show(examine(options.seed, options.case, trace=True))
        return
    began = time.monotonic()
    findings = study(options.seed, until(numbers(options.only), options.cases, options.seconds), options.jobs)
    print(report(findings, time.monotonic() - began, options.seed))
    sys.exit(any(f.failed for f in findings))


def numbers(only: str | None) -> Iterator[list[int]]:
    """The numbers of all cases, or of those of one family, in groups."""
    wanted = (number for number in itertools.count() if only in (None, family_of(number)))
    while True:
        yield list(itertools.islice(wanted, GROUP))


def study(seed: int, groups: Iterator[list[int]], jobs: int) -> list[Finding]:
    """Run all cases, in the order of their numbers."""
    found = run(functools.partial(examine, seed), groups, jobs, LIMITS)
    return sorted((lost(seed, f) if isinstance(f, Lost) else f for f in found), key=lambda f: f.number)


def family_of(number: int) -> str:
    """The families take turns."""
    return list(FAMILIES)[number % len(FAMILIES)]


# ------------------------------------------------------------------------------------------------------------- judge


def examine(seed: int, number: int, trace: bool = False) -> Finding:
    """Run the case with this number, and judge it."""
    family = family_of(number)
    with tempfile.TemporaryDirectory() as folder:
        case = FAMILIES[family](np.random.default_rng([seed, number]), number // len(FAMILIES), Path(folder))
        finding = functools.partial(Finding, number, family, case.text)
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("always")
            try:
                answer = case.act()
            except Exception as error:  # whatever is raised is judged
                if trace:
                    traceback.print_exc(file=sys.__stderr__)
                outcome, where, message = _judged(error)
                return finding(outcome, where, message.replace(folder, "..."))
        objection = case.objection(answer)
    if objection:
        return finding("accepted", case.label, objection)
    odd = [w for w in caught if not issubclass(w.category, ConvergenceWarning | UserWarning)]
    if odd:
        place = f"{odd[0].category.__name__} at {_short(odd[0].filename)}:{odd[0].lineno}"
        return finding("warning", place, str(odd[0].message))
    return finding("right")


def _judged(error: Exception) -> tuple[str, str, str]:
    """Whether an exception is a clear error; where it was raised; what it says."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} at {_short(last.filename)}:{last.lineno}"
    message = str(error)
    if not isinstance(error, ValueError | TypeError):
        return "foreign exception", where, message
    on_purpose = linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise")
    about_a_path = isinstance(error, TypeError) and "PathLike" in message
    clear = on_purpose and any(name in last.filename for name in CLEAR) and len(message.split()) >= WORDS
    return ("refused" if clear or about_a_path else "unclear error"), where, message


def _short(path: str) -> str:
    """The end of a path."""
    return "/".join(Path(path).parts[-3:])


def lost(seed: int, case: Lost) -> Finding:
    """The finding for a case that crashed or hung."""
    family = family_of(case.number)
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng([seed, case.number])
        text = FAMILIES[family](rng, case.number // len(FAMILIES), Path(folder)).text
    return Finding(case.number, family, text, "crash or hang", case.why, text)


# ------------------------------------------------------------------------------------------------------ right answers


def matrix(rng: Rng, n: int = 30, d: int = 6) -> np.ndarray:
    """A matrix of whole numbers, half of them zero: every type of number holds them."""
    X = rng.integers(1, 10, (n, d)) * (rng.random((n, d)) < 0.5) * np.arange(d, 0, -1)
    np.fill_diagonal(X, np.arange(min(n, d), 0, -1) * d)
    return X.astype(np.float64)


def wrong_answer(found: Any, matrices: list[Any], center: bool, refuse: str = "it is damaged") -> str:
    """What is wrong with a decomposition, if it is right for none of these matrices."""
    usable = [X for X in matrices if X is not None and _usable(X)]
    if not usable:
        return f"{refuse}, and was not refused"
    if not found.converged:
        return ""  # a warning said so
    return "" if any(_right(found, X, center) for X in usable) else "the answer is wrong, and no warning says so"


def _usable(X: np.ndarray) -> bool:
    return X.ndim == 2 and X.dtype.kind in "fiub" and X.size > 0 and bool(np.isfinite(X).all())


def _right(found: Any, X: np.ndarray, center: bool) -> bool:
    truth = Truth(prepared(X, center, False, None))
    if not truth.total or found.Vt.shape[1] != X.shape[1] or not np.isfinite(found.Vt).all():
        return False
    s = found.s.astype(np.longdouble) / truth.size
    lengths = truth.norms(found.Vt)
    bound = max(RIGHT, found.certificate.suboptimality)  # not small where a large tol was asked for
    near = np.abs(s - lengths).max() <= (SIMILAR + len(s) * bound) * lengths.max()
    return bool(near and truth.suboptimality(found.Vt) <= bound)


def decompose(X: Any, rng: Rng, solver: str | None = None) -> tuple[Callable[[], Any], bool]:
    """A call of `pca` or `svd` with any solver, and whether it centres."""
    center = bool(rng.random() < 0.5)
    solver = solver or str(rng.choice(SOLVERS))
    options = {"solver": solver, "random_state": 0, "n_threads": 1, "max_passes": 300}
    return lambda: (vrpca.pca if center else vrpca.svd)(X, 2, **options), center


# ------------------------------------------------------------------------------------------------------------- files


def _written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _data_case(rng: Rng, folder: Path, name: str, data: bytes, label: str, matrices: list[Any]) -> Case:
    """The decomposition of a data file."""
    act, center = decompose(_written(folder, name, data), rng)
    return Case(label, f"{name}: {label}", act, lambda found: wrong_answer(found, matrices, center))


def npy_bytes(rng: Rng, index: int, folder: Path) -> Case:
    """A .npy file whose bytes were damaged, or whose header is odd."""
    X = matrix(rng)
    if rng.random() < 0.4:
        label, data = files.npy_with_odd_header(rng, X)
        return _data_case(rng, folder, "X.npy", data, label, [_read_by_library(_by_numpy, io.BytesIO(data))])
    X = X.astype(rng.choice(["f8", "f4", "i4", ">f8"]), order=str(rng.choice(["C", "F"])))
    label = str(rng.choice(list(files.BYTES)))
    data = files.BYTES[label](rng, files.npy(X))
    return _data_case(rng, folder, "X.npy", data, label, [_read_by_library(_by_numpy, io.BytesIO(data))])


def _by_numpy(file: io.BytesIO) -> np.ndarray:
    X = np.load(file, allow_pickle=False)
    return X if isinstance(X, np.ndarray) else X[next(iter(X.files))]


def npz_bytes(rng: Rng, index: int, folder: Path) -> Case:
    """A .npz file, dense or sparse, whose bytes were damaged. Checksums tell: the answer is the old one, or none."""
    X = matrix(rng)
    kind = str(rng.choice(["dense", "csr", "csc", "coo", "bsr", "dia"]))
    compressed = bool(rng.random() < 0.5)
    good = (
        files.npz({"X": X}, compressed)
        if kind == "dense"
        else files.sparse_npz(sp.csr_array(X).asformat(kind), compressed)
    )
    label = str(rng.choice(list(files.BYTES)))
    return _data_case(rng, folder, "X.npz", files.BYTES[label](rng, good), f"{kind}, {label}", [X])


def formats(rng: Rng, index: int, folder: Path) -> Case:
    """A damaged file of another format: the answer is the old one, or that of what its library reads."""
    X = matrix(rng)
    kind = list(WRITTEN)[index % len(WRITTEN)]
    form = WRITTEN[kind]
    path = folder / form.name
    form.write(path, X)
    label = str(rng.choice(list(files.BYTES)))
    path.write_bytes(files.BYTES[label](rng, path.read_bytes()))
    os.environ["VRPCA_CACHE"] = str(folder / "cache")
    act, center = decompose(f"{path}{form.suffix}", rng)
    text, read = f"{form.name}: {kind}, {label}", form.read
    if read is None:
        return Case(f"{kind}, {label}", text, act, lambda found: "")

    def objection(found: Any) -> str:
        """The library reads the file last, and in the worker: what crashes it must not be read when a case is made."""
        return wrong_answer(found, [X, _read_by_library(read, path)], center)

    return Case(f"{kind}, {label}", text, act, objection)


def _read_by_library(read: Callable[[Any], np.ndarray], file: Any) -> np.ndarray | None:
    """The matrix as the format's own library reads it, however the bytes came about; None if it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(file)
        except Exception:  # libraries raise nearly everything for damaged bytes
            return None


def archives(rng: Rng, index: int, folder: Path) -> Case:
    """An archive that is damaged, or holds no matrix that could be used."""
    X = matrix(rng)
    odd = files.odd_archives(X)
    label = list(odd)[index % len(odd)]
    return _data_case(rng, folder, "X.npz", odd[label], label, [X])


def models(rng: Rng, index: int, folder: Path) -> Case:
    """A model file that was damaged: loading it gives the old model, or an error."""
    X = matrix(rng)
    path = folder / "model.npz"
    scaled = bool(rng.random() < 0.5)
    model: Any = vrpca.PCA(2, scale=scaled, random_state=0) if rng.random() < 0.7 else vrpca.TruncatedSVD(2)
    vrpca.save(model.fit(X), path)
    good, model = path.read_bytes(), vrpca.load(path)
    if rng.random() < 0.3:
        label = str(rng.choice(list(files.BYTES)))
        text, data = label, files.BYTES[label](rng, good)
    else:
        text, data = files.odd_model(rng, good)
        label = text.split(":")[0]
    path.write_bytes(data)

    def act() -> tuple[Any, Any]:
        again = vrpca.load(path)
        return again, again.transform(X)

    return Case(label, f"model: {text}", act, lambda found: _other_model(model, *found, model.transform(X)))


def _other_model(model: Any, again: Any, scores: np.ndarray, expected: np.ndarray) -> str:
    """How a loaded model differs from the one that was saved."""
    if type(again) is not type(model):
        return f"a {type(again).__name__} came back as a {type(model).__name__}"
    for name, value in vars(model).items():
        if not _same(value, getattr(again, name, None)):
            return f"{name} came back as {getattr(again, name, None)!r:.60}, and was not refused"
    return "" if np.allclose(scores, expected, rtol=SIMILAR) else "the scores have changed"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, vrpca.Certificate):
        return all(_same(value, getattr(other, name)) for name, value in vars(one).items())
    return type(one) is type(other) and one == other


def paths(rng: Rng, index: int, folder: Path) -> Case:
    """A path that names no file that could be used, for each function that takes one."""
    (folder / "loop").symlink_to(folder / "loop")
    odd: dict[str, Any] = {repr(value): value for value in (None, 5, 1.5, b"abc", [], "", "\0", "/dev/null", "\ud800")}
    odd |= {"a long name": "x" * 5000, "a folder": folder, "a loop": folder / "loop", "none": folder / "none"}
    label = list(odd)[index % len(odd)]
    door = ("load", "save", "fit", "transform")[index // len(odd) % 4]
    if door == "save" and label in ("none", "a loop"):  # a file can be made there
        door = "load"
    path = odd[label]
    X = matrix(rng)
    model = vrpca.PCA(2).fit(X)
    acts: dict[str, Callable[[], Any]] = {
        "load": lambda: vrpca.load(path),
        "save": lambda: vrpca.save(model, path),
        "fit": lambda: vrpca.PCA(2).fit(path),
        "transform": lambda: model.transform(path),
    }
    text = f"{door}({label})"
    return Case(text, text, acts[door], lambda _: "it cannot be used, and was not refused")


# ------------------------------------------------------------------------------------------------------------ memory


def sparse(rng: Rng, index: int, folder: Path) -> Case:
    """A sparse matrix in memory that is damaged, or just unusual."""
    label = list(objects.SPARSE)[index % len(objects.SPARSE)]
    form = str(rng.choice(["csr", "csc"]))
    good = matrix(rng)
    X = objects.damaged_sparse(label, good, form)
    expected = objects.densified(X)
    if rng.random() < 0.7:
        act, center = decompose(X, rng)
        return Case(label, f"{form}: {label}", act, lambda found: wrong_answer(found, [expected], center))
    model = vrpca.PCA(2, random_state=0).fit(good)

    def objection(scores: np.ndarray) -> str:
        if expected is None or not np.isfinite(expected).all():
            return "it is damaged, and was not refused"
        return "" if np.allclose(scores, model.transform(expected), rtol=SIMILAR, atol=SIMILAR) else "wrong scores"

    return Case(label, f"{form}, transform: {label}", lambda: model.transform(X), objection)


def other_formats(rng: Rng, index: int, folder: Path) -> Case:
    """A damaged sparse matrix in another format than CSR or CSC."""
    odd = objects.damaged_others(matrix(rng))
    label = list(odd)[index % len(odd)]
    model = vrpca.PCA(2, random_state=0).fit(matrix(rng))
    if rng.random() < 0.7:
        act, center = decompose(odd[label], rng)
        return Case(label, label, act, lambda found: wrong_answer(found, [], center))
    return Case(label, f"transform: {label}", lambda: model.transform(odd[label]), lambda _: "it was not refused")


def sources(rng: Rng, index: int, folder: Path) -> Case:
    """A source that breaks one promise, at once or in later passes."""
    what = objects.SOURCES[index % len(objects.SOURCES)]
    X = matrix(rng, *((60, 6), (6, 60), (40, 40))[int(rng.integers(3))])
    later = what in objects.LATER or (bool(rng.random() < 0.5) and what in objects.BLOCKS)
    solver = str(rng.choice(SOLVERS))
    act, center = decompose(objects.OddSource(X, what, later), rng, solver)
    label = f"{what}{', in later passes' if later else ''}"
    return Case(label, f"{X.shape} {solver}: {label}", act, lambda found: wrong_answer(found, [X], center))


# ----------------------------------------------------------------------------------------------------------- options


def options(rng: Rng, index: int, folder: Path) -> Case:
    """One option of a function or an estimator has a nasty value."""
    door = str(rng.choice(["pca", "svd", "PCA", "TruncatedSVD"]))
    name = str(rng.choice(_names(door)))
    value = objects.NASTY[int(rng.integers(len(objects.NASTY)))]
    if name in objects.ENDLESS and objects.real(value) and value > 100:
        value = -1
    X = matrix(rng)
    given = {"random_state": 0, "max_passes": 30, "solver": str(rng.choice(SOLVERS))} | {name: value}
    text = " ".join(f"{door}({name}={value!r:.40}, solver={given['solver']!r:.20})".split())

    def objection(found: Any) -> str:
        rule = objects.RULES.get(objects.COUNTS[door] if name in ("k", "n_components") else name)
        if rule is not None and not rule(value):
            return f"{name}={value!r:.40} was not refused"
        other = name in ("scale", "sample_weight")  # another matrix is decomposed then
        return "" if other else wrong_answer(found, [X], bool(given.get("center", door in ("pca", "PCA"))))

    return Case(name, text, lambda: _fitted(door, X, given), objection)


@functools.cache
def _names(door: str) -> list[str]:
    """The names of all options of a function or an estimator."""
    names = list(inspect.signature(getattr(vrpca, door)).parameters)
    if door in ("PCA", "TruncatedSVD"):
        return [*names, "sample_weight"]
    shared = [name for name in inspect.signature(vrpca.TruncatedSVD).parameters if name != "warm_start"]
    return [name for name in [*names, *shared] if name not in ("X", "options", "n_components")]


def _fitted(door: str, X: np.ndarray, given: dict[str, Any]) -> Any:
    """The decomposition, or a fitted estimator with the names of a decomposition."""
    given = dict(given)
    if door in ("pca", "svd"):
        return getattr(vrpca, door)(X, given.pop("k", 2), **given)
    weights = given.pop("sample_weight", None)
    model = getattr(vrpca, door)(given.pop("n_components", 2), **given).fit(X, sample_weight=weights)
    model.transform(X)
    model.Vt, model.s, model.converged = model.components_, model.singular_values_, model.converged_
    model.certificate = model.certificate_
    return model


def data(rng: Rng, index: int, folder: Path) -> Case:
    """Something for X that is no matrix of numbers, or just unusual."""
    X = matrix(rng)
    odd: dict[str, Any] = {
        **{f"{value!r:.30}": value for value in objects.NASTY if not isinstance(value, str)},
        "three dimensions": X[None],
        "one dimension": X[0],
        "no rows": X[:0],
        "no columns": X[:, :0],
        "one column": X[:, :1],
        "NaN": np.where(X > 3, np.nan, X),
        "infinity": np.where(X > 3, np.inf, X),
        "complex": X * 1j,
        "records": np.zeros((5, 2), [("a", float)]),
        "dates": X.astype("M8[s]"),
        "text": X.astype(str),
        "ragged": [[1.0, 2.0], [3.0]],
        "masked": np.ma.masked_greater(X, 3),
        "long double": X.astype(np.longdouble),
        "constant": np.full((20, 5), 0.1),
        "zero": np.zeros((20, 5)),
        "huge": X * 1e306,
        "a generator": (row for row in X),
        "a dictionary of columns": {"a": [1.0, 2.0], "b": [2.0, 1.0]},
    }
    label = list(odd)[index % len(odd)]
    act, center = decompose(odd[label], rng)
    expected = odd[label] if type(odd[label]) is np.ndarray else None
    return Case(label, f"X: {label}", act, lambda found: wrong_answer(found, [expected], center, "it is no matrix"))


def command_line(rng: Rng, index: int, folder: Path) -> Case:
    """A command with a damaged file or a nasty option: exit code 0, 1 or 2, and one line of complaint for 2."""
    X = matrix(rng)
    good, model = _written(folder, "good.npy", files.npy(X)), folder / "model.npz"
    vrpca.save(vrpca.PCA(2, random_state=0).fit(X), model)
    bad = model if rng.random() < 0.5 else good
    label = str(rng.choice([*files.BYTES, "options"]))
    commands = [
        ["fit", good, "-k", "2", "-q"],
        ["transform", model, good, "--out", folder / "s.npy"],
        ["check", model, good],
    ]
    command = [str(word) for word in commands[int(rng.integers(3))]]
    if label == "options":
        extra = (
            ("-k", "0"),
            ("-k", "nan"),
            ("-k", "x"),
            ("--tol", "nan"),
            ("--tol", "x"),
            ("--solver", "x"),
            ("--threads", "-5"),
            ("--threads", "0"),
            ("--threads", str(10**23)),
        )
        extra += (
            ("--out", "/none/x"),
            ("--out", str(folder)),
            ("--seed", "-1"),
            ("--max-passes", "0"),
            ("--nothing", "1"),
        )
        command += extra[index % len(extra)]
    else:
        bad.write_bytes(files.BYTES[label](rng, bad.read_bytes()))
    text = " ".join([Path(word).name if "/" in word else word for word in command])
    return Case(label, f"{text} ({bad.name} {label})", lambda: _ran(command), _complaint)


def _ran(command: list[str]) -> tuple[int, str]:
    """The exit code and what was said on stderr."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = vrpca.cli.run(command)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else -1
    return code, said.getvalue()


def _complaint(ended: tuple[int, str]) -> str:
    code, said = ended
    lines = said.strip().splitlines()
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code == 2 and not (len(lines) == 1 and len(said.split()) >= WORDS):
        return f"exit code 2 with {len(lines)} lines on stderr: {said:.100}"
    return ""


FAMILIES: dict[str, Callable[[Rng, int, Path], Case]] = {
    "options": options,
    "npy": npy_bytes,
    "sources": sources,
    "npz": npz_bytes,
    "models": models,
    "archives": archives,
    "formats": formats,
    "sparse": sparse,
    "other formats": other_formats,
    "data": data,
    "paths": paths,
    "command line": command_line,
}

# ------------------------------------------------------------------------------------------------------------ report


def report(findings: list[Finding], seconds: float, seed: int) -> str:
    """The page."""
    failed = [f for f in findings if f.failed]
    again = f"python benchmarks/fuzz_inputs.py --seed {seed}"
    counts = f"{len(findings)} cases, {len(failed)} failed, in {seconds:.0f} s"
    parts = [
        f"# Bad input\n\n{counts}; vrpca {vrpca.__version__}; `{again}`.",
        "## By family\n\n" + _summary(findings),
        f"## Failures\n\n`{again} --case N` runs case N again.\n\n" + _failures(failed),
    ]
    return "\n\n".join(parts)


def _summary(findings: list[Finding]) -> str:
    outcomes = ("right", "refused", *sorted({f.outcome for f in findings if f.failed}))
    rows = []
    for family in sorted({f.family for f in findings}):
        mine = [f for f in findings if f.family == family]
        rows.append((family, len(mine), *(sum(f.outcome == outcome for f in mine) for outcome in outcomes)))
    return table(("family", "cases", *outcomes), rows)


def _failures(failed: list[Finding]) -> str:
    """One line for each different failure: where, how often, an example."""
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for f in failed:
        groups[f.family, f.outcome, f.where].append(f)
    rows = [
        (family, outcome, where, len(group), group[0].number, group[0].text, " ".join(group[0].message.split())[:100])
        for (family, outcome, where), group in sorted(groups.items())
    ]
    header = ("family", "outcome", "where", "cases", "case", "for example", "message")
    return table(header, rows) if rows else "None."


def show(finding: Finding) -> None:
    """Print all about one case."""
    print(f"{finding.family}: {finding.text}\n{finding.outcome} {finding.where}: {finding.message}")
    sys.exit(finding.failed)


if __name__ == "__main__":
    main()
