"""Genotypes of other people: filled and scaled by the frequencies that a model was fitted with, not by their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrpca.data.files.bed import differing_alleles
from vrpca.data.source import Source
from vrpca.errors import DataError, warn


def note_genotypes(model: Any, source: Source) -> None:
    """Store what genotypes were filled and scaled with, and which alleles were counted; nothing for other data."""
    model.allele_frequencies_ = source.allele_frequencies()
    model.genotypes_scaled_ = bool(source.genotypes_scaled)
    model.alleles_ = None if source.alleles is None else np.asarray(source.alleles, dtype=object)


def as_fitted(model: Any, source: Source) -> Source:
    """The source; genotypes are filled and scaled as in the fit of the model. Raise where that cannot be."""
    if source.genotypes_scaled is None:
        return source
    frequencies = getattr(model, "allele_frequencies_", None)  # older pickled models have none
    scaled = frequencies is not None and model.genotypes_scaled_
    if source.genotypes_scaled and frequencies is None:
        raise DataError(
            f"{source.name or 'X'} is opened with scaled genotypes, but the model knows no allele frequencies to scale "
            "them by: fit it again, from one .bed file."
        )
    if source.genotypes_scaled and not scaled:
        raise DataError(
            f"{source.name or 'X'} is opened with scaled genotypes, but the model was fitted without. Leave out "
            "--scale-genotypes (scaling='genotype' in Python), or fit again with it."
        )
    if frequencies is None:
        warn(
            "The model knows no allele frequencies: unknown genotypes become the means of these people. Fit it again "
            "from one .bed file."
        )
        return source
    if source.shape[1] != len(frequencies):
        raise DataError(f"X has {source.shape[1]} variants, but the model was fitted on {len(frequencies)}.")
    _check_alleles(model.alleles_, source)
    return source.with_allele_frequencies(frequencies, scaled)


def _check_alleles(fitted: Any, source: Source) -> None:
    """Raise if the file counts another allele of a variant than the fit did."""
    if fitted is None or source.alleles is None:
        return
    differing = differing_alleles(fitted, source.alleles)
    if differing:
        j = differing[0]
        name = f"variant {j}" if source.column_names is None else source.column_names[j]
        raise DataError(
            f"{source.name or 'X'} has the alleles {source.alleles[j]} of {name}, but they were {fitted[j]} in the fit "
            f"(the first one is counted); so it is for {len(differing)} of {len(fitted)} variants. Write the file "
            "again with the alleles of the fit: plink --a1-allele study.bim 5 2 --make-bed."
        )
