"""
Text
====

Documents as a sparse matrix of words: latent semantic analysis with `TruncatedSVD`, and how it differs from `PCA`.
"""

# %%
# The data: 3000 short documents on four subjects. Most words of a document belong to its subject.
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import vrpca

rng = np.random.default_rng(0)
subjects = {
    "kitchen": "salt oven butter recipe flour sugar bake soup spoon taste",
    "harbour": "ship anchor tide sail captain cargo wave harbour crew rope",
    "garden": "seed soil flower rain root leaf garden bee grow shade",
    "music": "song violin rhythm choir melody drum concert note string voice",
}
common = "the a of and to in is that it was for on are with as they at be this from"
names = list(subjects)
topic = rng.integers(4, size=3000)
documents = [
    " ".join(rng.choice(subjects[names[t]].split(), 8)) + " " + " ".join(rng.choice(common.split(), 12)) for t in topic
]
print(documents[0])

# %%
# TF-IDF is the usual weighting. The matrix is sparse, and stays so.
vectorizer = TfidfVectorizer()
X = vectorizer.fit_transform(documents)
print(X.shape, f"{X.nnz / np.prod(X.shape):.1%} of the entries are stored")

# %%
# `TruncatedSVD` does not centre: the first component is then mostly the mean, and the others tell the subjects apart.
svd = vrpca.TruncatedSVD(n_components=5, random_state=0).fit(X)
words = vectorizer.get_feature_names_out()
for j, component in enumerate(svd.components_):
    largest = np.argsort(-np.abs(component))[:6]
    print(f"component {j}: " + ", ".join(f"{words[i]} {component[i]:+.2f}" for i in largest))

# %%
# `PCA` centres, implicitly: the matrix is not filled in, and three components do.
pca = vrpca.PCA(n_components=3, random_state=0).fit(X)
scores = pca.transform(X)
print(pca.certificate_)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
for t, name in enumerate(names):
    axes.scatter(*scores[topic == t, :2].T, s=6, label=name)
axes.set(xlabel="PC1", ylabel="PC2", title="Documents")
axes.legend(markerscale=3)
plt.show()

# %%
# As a step of a pipeline, with scikit-learn's own parts around it.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

pipeline = make_pipeline(TfidfVectorizer(), vrpca.TruncatedSVD(5, random_state=0), LogisticRegression())
print(f"accuracy {pipeline.fit(documents[:2000], topic[:2000]).score(documents[2000:], topic[2000:]):.3f}")
