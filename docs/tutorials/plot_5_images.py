"""
Images
======

Pictures as rows of pixels: eigenimages, compression, and what is lost.
"""

# %%
# The data: 1500 pictures of 24 x 24 pixels, each with one bright ellipse of any place, size and direction.
import matplotlib.pyplot as plt
import numpy as np

import vrpca

rng = np.random.default_rng(0)
n, side = 1500, 24
y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
cx, cy = rng.uniform(-0.4, 0.4, (2, n, 1, 1))
angle, long = rng.uniform(0, np.pi, (n, 1, 1)), rng.uniform(0.3, 0.5, (n, 1, 1))
short = rng.uniform(0.15, 0.3, (n, 1, 1))
u = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
v = (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
X = np.exp(-((u / long) ** 2) - (v / short) ** 2).reshape(n, -1).astype(np.float32)
X += 0.05 * rng.standard_normal(X.shape, dtype=np.float32)

# %%
# As many components as explain 90% of the variance.
model = vrpca.PCA(n_components=0.9, random_state=0).fit(X)
print(model.n_components_, "components of", X.shape[1], "pixels;", model.certificate_)

# %%
# The first eigenimages.
figure, axes = plt.subplots(1, 6, figsize=(9, 1.8), layout="constrained")
for panel, component in zip(axes, model.components_, strict=False):
    panel.imshow(component.reshape(side, side), cmap="RdBu_r")
    panel.axis("off")
plt.show()

# %%
# Pictures, and what is left of them after ``transform`` and ``inverse_transform``. The noise is gone.
some = X[:6]
back = model.inverse_transform(model.transform(some))
figure, axes = plt.subplots(2, 6, figsize=(9, 3.2), layout="constrained")
for panel, picture in zip(axes.ravel(), np.vstack([some, back]), strict=True):
    panel.imshow(picture.reshape(side, side), cmap="gray", vmin=0, vmax=1)
    panel.axis("off")
plt.show()
