"""
Genotypes
=========

A PLINK file with three populations: principal components of ancestry, without unpacking the file.
"""

# %%
# The data: 600 people, 5000 variants with frequencies that differ a little between populations. A ``.bed`` file has two
# bits for each genotype, variant after variant; ``.bim`` and ``.fam`` name variants and people.
import tempfile
from pathlib import Path

import numpy as np

import vrpca

rng = np.random.default_rng(0)
people, variants = 600, 5000
population = np.repeat([0, 1, 2], people // 3)
ancestral = rng.uniform(0.05, 0.5, variants)
frequency = np.clip(ancestral + 0.05 * rng.standard_normal((3, variants)), 0.01, 0.99)
genotypes = rng.binomial(2, frequency[population])  # copies of the first allele
unknown = rng.random(genotypes.shape) < 0.01

folder = Path(tempfile.mkdtemp())
code = np.array([3, 2, 0])[genotypes.T]  # PLINK's bits for 0, 1 and 2 copies
code[unknown.T] = 1
packed = (code.reshape(variants, -1, 4) << np.array([0, 2, 4, 6])).sum(axis=2).astype(np.uint8)
(folder / "study.bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
(folder / "study.bim").write_text("".join(f"1\trs{j}\t0\t{j}\tA\tG\n" for j in range(variants)))
(folder / "study.fam").write_text("".join(f"F{i}\tI{i}\t0\t0\t0\t-9\n" for i in range(people)))
print((folder / "study.bed").stat().st_size, "bytes for", people * variants, "genotypes")

# %%
# What a fit would do, from the headers alone.
print(vrpca.info(folder / "study.bed", 4))

# %%
# ``scaling="genotype"`` divides every variant by ``sqrt(2 p (1 - p))``, as is usual. Genotypes that are not known
# become the mean of their variant.
study = vrpca.open_data(folder / "study.bed", scaling="genotype")
model = vrpca.PCA(n_components=4, random_state=0).fit(study)
scores = model.transform(study)
print(model.certificate_)
print(study.row_names[:3], study.column_names[:3])

# %%
# Two components tell three populations apart; the others are noise, which shows in the variances.
import matplotlib.pyplot as plt

print(model.explained_variance_.round(1))
figure, axes = plt.subplots(figsize=(5.5, 4), layout="constrained")
axes.scatter(scores[:, 0], scores[:, 1], c=population, s=8, cmap="viridis")
axes.set(xlabel="PC1", ylabel="PC2", title="People, coloured by population")
plt.show()

# %%
# Other people are filled and scaled by the frequencies of the study, which the model keeps: one person alone gets the
# scores that the same person has in the study.
(folder / "one.bed").write_bytes(b"\x6c\x1b\x01" + code[:, 7].astype(np.uint8).tobytes())
(folder / "one.bim").write_text((folder / "study.bim").read_text())
(folder / "one.fam").write_text("F7\tI7\t0\t0\t0\t-9\n")
print(model.transform(folder / "one.bed"), scores[7])

# %%
# Genotypes in an array are filled and scaled by hand, with the same frequencies p.
counts = np.where(unknown, np.nan, genotypes)
p = np.nanmean(counts, axis=0) / 2
array = np.where(np.isnan(counts), 2 * p, counts) / np.sqrt(2 * p * (1 - p))
from_array = vrpca.PCA(n_components=4, random_state=0).fit(array)
print(np.abs(model.explained_variance_ / from_array.explained_variance_ - 1).max())

# %%
# On the command line: ``vrpca fit study.bed -k 4 --scale-genotypes --out model.npz``, then ``vrpca transform model.npz
# study.bed --out scores.csv``. The model knows how its genotypes were scaled.
import shutil

shutil.rmtree(folder)
