"""PLINK's ``.bed`` files: genotypes in two bits each, with ``.bim`` and ``.fam`` beside them.

The genotypes of a variant lie together, so the file holds the transposed matrix: variants in rows. A table of 256 x 4
numbers decodes a byte at a time. That takes no library, and is faster than reading through one and imputing after it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from vrpca.data.files.base import DenseFile
from vrpca.data.files.columnar import LazyNames
from vrpca.data.source import PIECE_BYTES, Source
from vrpca.errors import DataError, OptionError
from vrpca.typing import Array

HEADER = 3  # bytes before the genotypes: two that mark the format, one that says "variants in rows"
SAMPLES_FIRST = b"\x6c\x1b\x00"  # files of the other order, which PLINK has not written since 2009
PER_BYTE = 4
DECODED = 40  # bytes per byte of the file while it is decoded: genotypes in float32 take 16, indices 8, tables a few
NOBODYS = ("0", ".")  # what stands in .bim files for an allele that nobody has
LETTERS = 8  # of an allele that are kept, with a checksum of longer ones: insertions can be thousands of letters long
MISSING = -1.0  # stands for a genotype that is not known
COUNTS = np.array([2.0, MISSING, 1.0, 0.0], np.float32)  # copies of the first allele, by the two bits of a genotype

_BITS = (np.arange(256)[:, None] >> (2 * np.arange(PER_BYTE))) & 3
GENOTYPES = COUNTS[_BITS]  # 256 x 4: the genotypes of a byte, those of the lowest bits first
# What a byte adds to the sum of a variant's known genotypes, and to the number of unknown ones.
SUMS = np.where(GENOTYPES == MISSING, 0, GENOTYPES).sum(axis=1).astype(np.uint8)
UNKNOWN = (GENOTYPES == MISSING).sum(axis=1).astype(np.uint8)
FOUR = GENOTYPES.view(np.complex128)[:, 0]  # the same as 256 items of 16 bytes: NumPy takes these at once


def open_matrix(path: Path, scaling: str | None = None) -> Source:
    """The genotypes, samples in rows: 0, 1 or 2, and the variant's mean where a genotype is not known."""
    if scaling not in (None, "genotype"):
        raise OptionError(f"scaling={scaling!r} must be None or 'genotype'.")
    with path.open("rb") as file:
        if file.read(HEADER) == SAMPLES_FIRST:
            raise DataError(f"{path} has samples in rows, an order of old: convert it with plink --make-bed.")
    return BedFile(path, scaling == "genotype").transposed()


class BedFile(DenseFile):
    """The transposed matrix: a row for every variant.

    With `scaled`, rows are divided by ``sqrt(2 p (1 - p))``, the deviation of a genotype whose allele has frequency p.
    The frequencies are those of all samples, noted when a variant is first decoded, unless others are given.
    """

    def __init__(self, path: Path, scaled: bool = False):
        self.path, self.genotypes_scaled = path, scaled
        samples, variants = _beside(path, ".fam"), _beside(path, ".bim")
        n, d = _count_lines(samples), _count_lines(variants)
        if not n or not d:
            found = f"{n} samples (.fam) and {d} variants (.bim)"
            raise DataError(f"{path} has {found}: it needs one of each at least. Write it again.")
        super().__init__([path, samples, variants], (d, n), np.dtype(np.float32))
        self.row_bytes = -(-n // PER_BYTE)
        self._check_size()
        self.row_names = LazyNames(d, partial(_second_words, variants))
        self.column_names = LazyNames(n, partial(_second_words, samples))
        self.alleles = LazyNames(d, partial(_alleles, variants))
        self.frequencies, self.given = np.full(d, np.nan), False  # NaN until they are known
        self.held_bytes = self.frequencies.nbytes

    def _check_size(self) -> None:
        d, n = self.shape
        size, wanted = self.path.stat().st_size, HEADER + d * self.row_bytes
        if size != wanted:
            wanted_for = f"{n} samples (.fam) and {d} variants (.bim) take {wanted}"
            raise DataError(f"{self.path} has {size} bytes, but {wanted_for}. Write it again, or take its own files.")

    def _step(self) -> int:
        """Variants that are decoded at a time."""
        return max(1, PIECE_BYTES // (4 * PER_BYTE * self.row_bytes))

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of some variants while they are decoded."""
        return DECODED * self.row_bytes * min(rows, self._step())

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Decode some variants, a few of them at a time."""
        step = self._step()
        for start in range(rows.start, rows.stop, step):
            stop = min(start + step, rows.stop)
            out[start - rows.start : stop - rows.start] = self._decoded(start, stop)[:, columns]

    def allele_frequencies(self) -> Array:
        """The frequencies of the first alleles. Variants that no pass has seen yet are read for it."""
        with self.watched():
            step = self._step()
            for start in range(0, self.shape[0], step):
                stop = min(start + step, self.shape[0])
                if np.isnan(self.frequencies[start:stop]).any():
                    self._means(start, stop, self._packed(start, stop))
        return self.frequencies.copy()

    def with_allele_frequencies(self, frequencies: Array, scaled: bool) -> Source:
        """The same file, filled and scaled by these frequencies."""
        other = self.within(self.block_bytes)
        other.frequencies, other.given = np.asarray(frequencies, np.float64), True
        other.genotypes_scaled, other.buffers = scaled, {}
        return other

    def _packed(self, start: int, stop: int) -> Array:
        """The bytes of some variants, as indices into the tables."""
        count = (stop - start) * self.row_bytes
        packed = np.fromfile(self.path, np.uint8, count, offset=HEADER + start * self.row_bytes)
        if len(packed) < count:
            raise DataError(
                f"{self.path} ends before variant {stop}. Leave it alone during the fit, or write it again."
            )
        packed = packed.reshape(stop - start, self.row_bytes)
        self._clear_padding(packed)
        return packed.astype(np.intp)  # once for all three tables

    def _decoded(self, start: int, stop: int) -> Array:
        """All samples' genotypes of some variants."""
        index = self._packed(start, stop)
        found, unknown = FOUR.take(index).view(np.float32), UNKNOWN.take(index)
        mean = 2 * self.frequencies[start:stop] if self.given else self._means(start, stop, index, unknown)
        _impute(found, unknown, mean)
        if self.genotypes_scaled:
            found *= _inverse_deviation(mean).astype(np.float32)[:, None]
        return found[:, : self.shape[1]]

    def _means(self, start: int, stop: int, index: Array, unknown: Array | None = None) -> Array:
        """The means of some variants' known genotypes; zero where none is known. The frequencies are noted."""
        unknown = UNKNOWN.take(index) if unknown is None else unknown
        known = self.shape[1] - unknown.sum(axis=1, dtype=np.int64)
        total = SUMS.take(index).sum(axis=1, dtype=np.int64)
        mean = np.divide(total, known, out=np.zeros(len(known)), where=known > 0)
        self.frequencies[start:stop] = mean / 2
        return mean

    def _clear_padding(self, packed: Array) -> None:
        """Let the bits after the last sample count as zero copies."""
        used = self.shape[1] % PER_BYTE
        if used:
            packed[:, -1] |= np.uint8(0xFF << (2 * used) & 0xFF)


def _impute(found: Array, unknown: Array, mean: Array) -> None:
    """Put the mean of its variant in the place of every unknown genotype."""
    places = np.flatnonzero(unknown)
    quads, means = found.reshape(-1, PER_BYTE), mean[places // unknown.shape[1], None]
    quads[places] = np.where(quads[places] == MISSING, means, quads[places])


def _inverse_deviation(mean: Array) -> Array:
    """One over ``sqrt(2 p (1 - p))``; 1 where a variant does not vary."""
    p = mean / 2
    deviation = np.sqrt(2 * p * (1 - p))
    return np.divide(1.0, deviation, out=np.ones_like(deviation), where=deviation > 0)


def _beside(path: Path, ending: str) -> Path:
    other = path.with_suffix(ending)
    if not other.is_file():
        raise DataError(f"{path} needs {other.name} beside it, which is not there. Copy it to the same folder.")
    return other


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _alleles(path: Path) -> Sequence[str]:
    """The alleles of every variant, the counted one first: the fifth and the sixth word. Long ones are shortened."""
    with path.open(encoding="utf-8") as file:
        words = ([*line.split()[4:6], "0", "0"][:2] for line in file if line.strip())
        return [sys.intern(f"{_short(counted)}/{_short(other)}") for counted, other in words]  # few differ


def differing_alleles(ours: Sequence[str], theirs: Sequence[str]) -> list[int]:
    """The variants whose alleles differ, or are counted the other way round, as far as they are known.

    >>> differing_alleles(["A/G", "A/G", "A/G"], ["0/G", "G/A", "0/A"])
    [1, 2]
    """
    pairs = enumerate(zip(ours, theirs, strict=True))
    return [j for j, (one, other) in pairs if one != other and not _agree(one, other)]


def known_alleles(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """What two files that agree know of the alleles together.

    >>> known_alleles(["A/G", "0/G", "0/0"], ["A/G", "A/G", "./T"])
    ['A/G', 'A/G', './T']
    """
    return [one if one == other else _known(one, other) for one, other in zip(ours, theirs, strict=True)]


def _known(one: str, other: str) -> str:
    both = zip(one.split("/", 1), other.split("/", 1), strict=True)
    return "/".join(b if a in NOBODYS else a for a, b in both)


def _agree(one: str, other: str) -> bool:
    both = zip(one.split("/", 1), other.split("/", 1), strict=True)
    return all(a == b or a in NOBODYS or b in NOBODYS for a, b in both)


def _short(allele: str) -> str:
    """The allele, or its beginning and a checksum.

    >>> _short("ACGT"), _short("ACGTACGTACGT") == _short("ACGTACGTACGTA")
    ('ACGT', False)
    """
    return allele if len(allele) <= LETTERS else f"{allele[:LETTERS]}~{zlib.crc32(allele.encode()):08x}"


def _second_words(path: Path) -> Sequence[str]:
    """The second word of every line: the name of a sample or of a variant."""
    with path.open(encoding="utf-8") as file:
        return [line.split()[1] for line in file if line.strip()]
