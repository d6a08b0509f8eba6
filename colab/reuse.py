# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The layers in models of your own
#
# Every layer of the Transformer is a Keras layer that you can use on its own,
# on TensorFlow, JAX and PyTorch. This notebook runs on JAX. It puts our encoder
# into a text classifier, writes pre-norm and a gated feed-forward network as
# small subclasses, and uses multi-head attention in a model of images. It takes
# a few minutes on two CPU cores and downloads nothing.

# %% [markdown]
# ## Install
#
# In a local Jupyter, `make install` has installed everything. In Colab, bring
# the project first, since the package is not on PyPI. Pack a checkout with
# `git archive --output keras-transformer.zip HEAD`, upload the file with the
# folder symbol at the left, and run
# `!unzip -q keras-transformer.zip -d keras-transformer` in a new cell. The
# layers need only Keras and NumPy.

# %%
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

if "google.colab" in sys.modules:
    checkout = "/content/keras-transformer"
    assert os.path.isdir(checkout), (
        f"Upload the project, and unpack it at {checkout}, as described above"
    )
    # %pip install -q {checkout}

# How long to train each model. The tests of the project set fewer.
EPOCHS = int(os.environ.get("EPOCHS", "2"))

# %%
import contextlib
from importlib.resources import files

from keras_transformer.support.startup import quiet_tensorflow_import

# `fit` of Keras imports TensorFlow where it is installed, which logs a lot.
with quiet_tensorflow_import(), contextlib.suppress(ImportError):
    import tensorflow  # noqa: F401

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt

# %matplotlib inline
print("backend:", keras.backend.backend())

# %% [markdown]
# ## A text classifier
#
# Half of these English sentences are written backwards. The classifier has to
# find out which. The words do not tell it, only their order does.

# %%
corpus = files("keras_transformer.train") / "data" / "demo"
lines = (corpus / "train.en").read_text("utf-8").splitlines()
sentences = [line.strip(".?!").split() for line in lines]
words = sorted({word for sentence in sentences for word in sentence})
LENGTH = max(map(len, sentences))

random = np.random.default_rng(0)
ids = np.zeros((len(sentences), LENGTH), "int32")  # 0 is padding
labels = random.integers(2, size=len(sentences))
for row, sentence, label in zip(ids, sentences, labels, strict=True):
    row[: len(sentence)] = 1 + np.searchsorted(words, sentence)
    if label:
        row[: len(sentence)] = row[: len(sentence)][::-1].copy()
print(f"{len(sentences):,} sentences of {len(words)} different words")

# %% [markdown]
# The encoder is one layer among others in a functional Keras model. Masks are
# explicit: `padding_mask` makes one from the ids, True where there is a word.


# %%
def make_classifier(with_positions=True, **options):
    keras.utils.set_random_seed(0)
    text = keras.Input((LENGTH,), dtype="int32")
    mask = kt.masks.padding_mask(text, pad_id=0)  # [batch, 1, length]
    x = kt.layers.TiedEmbedding(vocab_size=len(words) + 1, d_model=64)(text)
    if with_positions:
        x = kt.layers.SinusoidalPositionalEncoding()(x)
    encoder = kt.layers.Encoder(
        num_layers=2, num_heads=4, d_ff=128, dropout=0.1, **options
    )
    x = encoder(x, mask)
    x = keras.layers.GlobalAveragePooling1D()(x, mask=mask[:, 0])
    return keras.Model(text, keras.layers.Dense(1)(x))


def fit(model, inputs, labels):
    """Trains a model, and returns its accuracy on the last tenth."""
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    history = model.fit(
        inputs,
        labels,
        validation_split=0.1,
        batch_size=128,
        epochs=EPOCHS,
        verbose=2,
    )
    return history.history["val_binary_accuracy"][-1]


classifier = make_classifier()
accuracy = {"the paper's layer": fit(classifier, ids, labels)}

# %% [markdown]
# ## Pre-norm and a gated feed-forward network
#
# `Residual` alone sets the order of normalization, sub-layer, dropout and
# residual connection. `FeedForward` is the second sub-layer. To change one of
# them, subclass it and pass the class.


# %%
@keras.saving.register_keras_serializable(package="my_project")
class PreNorm(kt.layers.Residual):
    """x + Dropout(Sublayer(LayerNorm(x)))"""

    needs_final_norm = True

    def call(self, x, sublayer, training=None):
        output = sublayer(self.norm(x))
        return x + self.dropout_layer(output, training=training)


@keras.saving.register_keras_serializable(package="my_project")
class GatedFeedForward(kt.layers.FeedForward):
    """(relu(x W1 + b1) * sigmoid(x W3 + b3)) W2 + b2"""

    def build(self, input_shape):
        super().build(input_shape)
        self.gate = keras.layers.Dense(
            self.d_ff, "sigmoid", dtype=self.dtype_policy, name="gate"
        )
        self.gate.build(input_shape)

    def call(self, x):
        return self.outer(self.inner(x) * self.gate(x))


for name, options in {
    "pre-norm": dict(residual_class=PreNorm),
    "gated feed-forward": dict(feed_forward_class=GatedFeedForward),
    "no positions": dict(with_positions=False),
}.items():
    accuracy[name] = fit(make_classifier(**options), ids, labels)

# %%
for name, value in accuracy.items():
    print(f"{name:20} {value:.1%}")

# %% [markdown]
# Without positions the encoder cannot see the order of the words, so it is
# right only half of the time.
#
# Save and load the model like any other. `get_config` of our layers returns the
# arguments that they were made with, your classes included.

# %%
import tempfile

path = f"{tempfile.mkdtemp()}/classifier.keras"
classifier.save(path)
loaded = keras.models.load_model(path)
np.testing.assert_allclose(loaded(ids[:8]), classifier(ids[:8]), atol=1e-6)

# %% [markdown]
# ## Attention in a model of images
#
# Each image has two signs at two of sixteen places. Are they the same sign? A
# patch alone cannot tell: it has to find the other sign. With multi-head
# attention each patch looks at all others at once.

# %%
PATCH, GRID = 4, 4
signs = random.integers(2, size=(6, PATCH, PATCH)).astype("float32")


def draw(count):
    images = np.zeros((count, GRID, PATCH, GRID, PATCH, 1), "float32")
    shown = random.integers(len(signs), size=(count, 2))
    same = random.integers(2, size=count)
    shown[:, 1] = np.where(
        same, shown[:, 0], (shown[:, 0] + random.integers(1, 6, count)) % 6
    )
    for image, pair in zip(images, shown, strict=True):
        for place, sign in zip(
            random.choice(GRID**2, 2, replace=False), pair, strict=True
        ):
            image[place // GRID, :, place % GRID, :, 0] = signs[sign]
    return images.reshape(count, GRID * PATCH, GRID * PATCH, 1), same


images, same = draw(20_000)
figure, axes = plt.subplots(1, 4, figsize=(8, 2.2))
for axis, image, label in zip(axes, images, same, strict=False):
    axis.imshow(image[..., 0], cmap="gray_r")
    axis.set(xticks=[], yticks=[], title="same" if label else "different")
plt.show()


# %%
def make_vision_model(with_attention):
    keras.utils.set_random_seed(0)
    image = keras.Input(images.shape[1:])
    x = keras.layers.Conv2D(64, PATCH, PATCH, activation="relu")(image)
    x = keras.layers.Reshape((GRID**2, 64))(x)  # [batch, patches, 64]
    if with_attention:
        attention = kt.layers.MultiHeadAttention(4, name="attention")
        x = x + attention(x, x)
    x = kt.layers.FeedForward(d_ff=128)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(image, keras.layers.Dense(1)(x))


vision = make_vision_model(with_attention=True)
with_attention = fit(vision, images, same)
without = fit(make_vision_model(with_attention=False), images, same)
print(f"with attention {with_attention:.1%}, without {without:.1%}")

# %% [markdown]
# What does the model look at? `return_attention_scores` returns the scores too:
# one map per head, with a row per patch. The rows of the two signs are dark
# where they found each other.

# %%
attention = vision.get_layer("attention")
patches = keras.Model(vision.input, attention.input[0])(images[:1])
_, scores = attention(patches, patches, return_attention_scores=True)
names = [f"{i // GRID + 1}, {i % GRID + 1}" for i in range(GRID**2)]
kt.plotting.attention_figure(
    ops.convert_to_numpy(scores[0]), names, names, "patches of an image"
)
