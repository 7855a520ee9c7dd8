"""Checkpoints: a fit that was cut short goes on from its file, and gives the same bits as one that was not.

A fit is a sequence of parts: runs of a solver, and random searches outside an answer. A checkpoint has what the first
pass found, the results of all parts that have ended, and where the part in between stands. A resumed fit goes the same
way from the beginning. It takes the results of the first parts from the file, and goes on within the next one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vrpca.certificate import Certificate
from vrpca.data.files.archive import Archive
from vrpca.data.files.paths import as_path, check_target, damage_reported, open_file, remove_parts, written_whole
from vrpca.data.first_pass import FirstPass, Moments, Pair, Problem
from vrpca.data.gram import Matrix
from vrpca.data.source import Source
from vrpca.data.stream import Basis
from vrpca.data.view import View
from vrpca.errors import DataError, warn
from vrpca.history import Record, Status
from vrpca.options import shown
from vrpca.outcome import Outcome, Searched, Standing
from vrpca.serialise import Packer, Unpacker
from vrpca.solvers.accelerated import NarrowState
from vrpca.solvers.base import Answer, Measured
from vrpca.solvers.gram import GramState
from vrpca.solvers.krylov import KrylovState
from vrpca.solvers.lanczos import Lanczos
from vrpca.solvers.outside import Probe
from vrpca.solvers.search_space import SearchSpace
from vrpca.solvers.snapshot import BareSnapshot, LightSnapshot, Snapshot
from vrpca.solvers.steps import Step
from vrpca.solvers.witness import Witness
from vrpca.typing import Array, Rng

FORMAT = 5  # to be raised when the meaning of something in the file changes
EVERY = 1.0  # seconds between two writings, at least: what is lost is no loss then
SHARE = 0.02  # of the time that may be spent on writing, so that a fit takes at most some 2% longer
RATE = 5e8  # bytes per second that are expected of the first writing: half of what these disks take
SAMPLED_ROWS = 64  # rows that data are recognised by: reading them takes no time beside a pass
CHANGED = 1000  # rounding units by which sums of such rows may differ, as in data/checked.py
# What remains when a fit has ended so: it could go on, if it were allowed to.
RESUMABLE = (Status.INTERRUPTED, Status.STOPPED, Status.SECONDS, Status.PASSES)
REMEDY = "Remove it to start from the beginning, or name another checkpoint"

T = TypeVar("T")


@dataclass(frozen=True)
class Mark:
    """Where reading and random numbers have got to."""

    rows_read: int  # by the view
    rng: dict[str, Any]  # the state of the bit generator


@dataclass(frozen=True)
class Part:
    """A part of a fit that has ended: its result, and where it ended."""

    result: Outcome | Searched
    mark: Mark


@dataclass(frozen=True)
class Progress:
    """How far a fit has got: all that a checkpoint has to say of it."""

    first_pass: FirstPass
    W0: np.ndarray | None  # the guess that the fit started from
    began: Mark  # where the first part began
    parts: list[Part]
    standing: Standing | None  # of the run that has not ended, if it has begun
    mark: Mark | None  # and where it stands
    norms: np.ndarray | None  # of the rows, where the view knows them
    seconds: float  # since the fit began


CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Progress, Part, Mark, Outcome, Searched, Standing, Record, Status, Certificate),
        *(FirstPass, Moments, Pair, Matrix, Basis),
        *(Answer, GramState, Measured, LightSnapshot, BareSnapshot, Snapshot, KrylovState, NarrowState),
        *(Step, Probe, Witness, SearchSpace, Lanczos),
    )
}


class Checkpoint:
    """The checkpoint of one fit; without a path, nothing is ever written.

    `identity` says what is fitted, and how. A file that was written for something else is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: dict[str, Any], rng: Rng, began: float):
        self.path = None if path is None else as_path(path)
        self.identity, self.rng = identity, rng
        self.ended: list[Part] = []
        self.replayed = 0  # parts that were taken from the file, in a fit that is resumed
        self.written = -1  # parts that the file has; -1 where there is no file yet
        self.resumed: Progress | None = None  # until the run that had not ended has taken it up
        self.cost = 0.0  # seconds that the last writing took
        self.last = self.fit_began = began  # by `time.perf_counter`; the time of earlier processes counts as well
        self.first_pass: FirstPass | None = None
        self.W0: Array | None = None
        if self.path is not None:
            self.identity = json.loads(json.dumps(identity))  # as the file has it
            check_target(self.path)
            remove_parts(self.path)
            if self.path.exists():
                self._open(self.path)

    def _open(self, path: Path) -> None:
        self.resumed = progress = read(path, self.identity)
        self.ended, self.written = list(progress.parts), len(progress.parts)
        self.fit_began -= progress.seconds
        self.first_pass, self.W0, self.began = progress.first_pass, progress.W0, progress.began
        self.rng.bit_generator.state = self.began.rng

    def begin(self, first_pass: FirstPass, W0: Array | None, view: View) -> None:
        """Take in what the first pass found; or, in a fit that is resumed, give the view what it knew."""
        if self.path is None:
            return
        if self.resumed is not None:
            view.norms = self.resumed.norms
            return
        self.first_pass, self.W0, self.began = first_pass, W0, self._mark(view)
        self.offer(view)

    def _mark(self, view: View) -> Mark:
        return Mark(view.rows_read, dict(self.rng.bit_generator.state))

    def _go_to(self, mark: Mark, view: View) -> None:
        view.rows_read, self.rng.bit_generator.state = mark.rows_read, mark.rng

    def part(self, view: View, work: Callable[[], T]) -> T:
        """The result of the next part of the fit: from the file, if it had ended before, else by doing the work."""
        if self.path is None:
            return work()
        if self.replayed < len(self.ended):
            part: Any = self.ended[self.replayed]
            self.replayed += 1
            self._go_to(part.mark, view)
            return part.result
        try:
            result: Any = work()
        except KeyboardInterrupt:
            self.keep(view)
            raise
        if not (isinstance(result, Outcome) and result.cut_short):
            self.ended.append(Part(result, self._mark(view)))
            self.replayed += 1
            self.offer(view)
        return result

    def standing(self, view: View) -> Standing | None:
        """Where the run that begins now stood when the fit was cut short; None if it had not begun."""
        progress, self.resumed = self.resumed, None
        if progress is None or progress.standing is None or progress.mark is None:
            return None
        self._go_to(progress.mark, view)
        return progress.standing

    def forget(self, outcome: Outcome | None) -> None:
        """Drop the vectors of a run that another one has beaten."""
        self.ended = [
            replace(part, result=outcome.without_vectors()) if outcome is not None and part.result is outcome else part
            for part in self.ended
        ]

    def forget_before(self, count: int) -> None:
        """Drop the vectors of the first parts: others have taken their place."""
        for part in self.ended[:count]:
            if isinstance(part.result, Outcome):
                self.forget(part.result)

    def offer(self, view: View, standing: Standing | None = None) -> None:
        """Write how far the fit has got, if that is due: seldom enough for the time that it takes."""
        since = time.perf_counter() - self.last
        if self.path is None or since < max(EVERY, self.cost / SHARE) or self._out_of_passes(standing):
            return
        packer, content = self._packed(view, standing)
        expected = sum(array.nbytes for array in packer.arrays.values()) / RATE
        if self.cost > 0 or since >= expected / SHARE:
            self._write(packer, content)

    def keep(self, view: View, standing: Standing | None = None) -> None:
        """Write how far the fit has got, now that it is cut short, unless the file says so already."""
        nothing_new = standing is None and self.written >= len(self.ended)
        if self.path is not None and not nothing_new and not self._out_of_passes(standing):
            self._write(*self._packed(view, standing))

    def _out_of_passes(self, standing: Standing | None) -> bool:
        """Whether the last run has ended for want of passes: what it left in the file can go on if it gets more."""
        runs = [part.result for part in self.ended if isinstance(part.result, Outcome)]
        return standing is None and bool(runs) and runs[-1].status is Status.PASSES

    def _packed(self, view: View, standing: Standing | None) -> tuple[Packer, Any]:
        begun = standing is not None or bool(self.ended)
        assert self.first_pass is not None
        progress = Progress(
            self.first_pass.without_start() if begun else self.first_pass,
            self.W0,
            self.began,
            self.ended,
            standing,
            None if standing is None else self._mark(view),
            view.norms,
            time.perf_counter() - self.fit_began,
        )
        packer = Packer(CLASSES)
        return packer, packer.pack(progress)

    def _write(self, packer: Packer, content: Any) -> None:
        """Write the file. Where that is not possible, the one before stays, and the fit goes on with a warning."""
        assert self.path is not None
        began = time.perf_counter()
        metadata = {"checkpoint": FORMAT, "vrpca": _version(), "identity": self.identity, "progress": content}
        try:
            with written_whole(self.path) as temporary, temporary.open("wb") as file:
                np.savez(file, metadata=np.asarray(json.dumps(metadata)), **packer.arrays)
            self.written = len(self.ended)
        except DataError as error:
            warn(f"{error} The fit goes on, but a checkpoint could not be written.")
        self.last = time.perf_counter()
        self.cost = self.last - began

    def close(self, view: View, status: Status) -> None:
        """Remove the file at the end of a fit, unless the fit could go on from it."""
        if status is Status.INTERRUPTED:
            self.keep(view)
        elif self.path is not None and status not in RESUMABLE:
            self.path.unlink(missing_ok=True)


def _version() -> str:
    return importlib.metadata.version("vrpca")


def read(path: Path, identity: dict[str, Any]) -> Progress:
    """How far a fit had got, from its file; raise if the file is damaged, or belongs to another fit."""
    with (
        open_file(path, "checkpoint") as file,
        damage_reported(path, "is not a checkpoint of vrpca, or is damaged", REMEDY),
    ):
        archive = Archive(file, compressed=False)  # nothing that is written here is
        metadata = json.loads(str(archive.read("metadata")))
        if not isinstance(metadata, dict) or "checkpoint" not in metadata:
            raise ValueError("it says nothing of a fit")
        version = metadata.get("vrpca")
        if metadata["checkpoint"] != FORMAT or version != _version():
            raise DataError(
                f"{path} was written by vrpca {shown(version)}, this is {_version()}: use that one. {REMEDY}."
            )
        _check_identity(path, metadata["identity"], identity)
        arrays = {name: archive.read(name) for name in archive.members.keys() - {"metadata"}}
        progress = Unpacker(CLASSES, arrays).unpack(metadata["progress"])
        if not isinstance(progress, Progress):
            raise ValueError("it says nothing of a fit")
        return progress


def _check_identity(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise, with the differences, unless a checkpoint belongs to this fit."""
    differences = [_difference(name, before.get(name), value) for name, value in now.items()]
    found = [each for each in differences if each]
    if found:
        raise DataError(f"{path} is the checkpoint of another fit: {'; '.join(found)}. {REMEDY}.")


def _difference(name: str, before: Any, now: Any) -> str:
    """How a value differs from that in the checkpoint, in words; nothing if it does not."""
    if name == "rows of X":
        return "" if _same_rows(before, now) else "X has other numbers"
    if before == now:
        return ""
    return "sample_weight is not the same" if name == "sample_weight" else f"{name} was {before!r}, now {now!r}"


def data_identity(problem: Problem) -> dict[str, Any]:
    """What data are recognised by: next to nothing of them is read."""
    source, weights = problem.source, problem.weights
    return {
        "the shape of X": str(source.shape),
        "the type of X": str(source.dtype),
        "the number of entries of X": source.entries,
        "columnwise storage of X": source.columnwise,
        "sample_weight": None if weights is None else hashlib.sha256(weights.tobytes()).hexdigest(),
        "rows of X": _row_sums(source),
    }


def _row_sums(source: Source) -> list[list[float]]:
    """Weighted sums of some rows, and by how much rounding may change them. Columns that lie together serve as well."""
    if source.columnwise:
        source = source.transposed()
    n, d = source.shape
    numbers = np.unique(np.linspace(0, n - 1, SAMPLED_ROWS).astype(int))
    if source.block is not None:
        X = source.block[numbers]
    elif source.gather_rows:
        X = source.gather(numbers)
    else:  # rows come in blocks: the first one has to do
        X = source.head(SAMPLED_ROWS)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, d)
    rounding = abs(X).astype(np.float64) @ weights * (CHANGED * float(np.finfo(source.dtype).eps))
    return [(X.astype(np.float64) @ weights).tolist(), rounding.tolist()]


def _same_rows(before: Any, now: Any) -> bool:
    """Whether sums of rows agree, but for rounding: a source may compute its rows anew each time."""
    old, new = np.asarray(before, float), np.asarray(now, float)
    return old.shape == new.shape and bool((np.abs(old[0] - new[0]) <= np.maximum(old[1], new[1])).all())
