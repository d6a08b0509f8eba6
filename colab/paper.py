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
# # Attention Is All You Need, section by section
#
# Each formula of [the paper](https://arxiv.org/abs/1706.03762) stands beside
# the layer that computes it and a few lines of NumPy that give the same
# numbers. At the end we take away four parts of the recipe, one at a time, to
# see what each is for. The notebook takes ten minutes on two CPU cores and
# downloads nothing.

# %% [markdown]
# ## Install
#
# In a local Jupyter, `make install` has installed everything. In Colab, bring
# the project first, since the package is not on PyPI. Pack a checkout with
# `git archive --output keras-transformer.zip HEAD`, upload the file with the
# folder symbol at the left, and run
# `!unzip -q keras-transformer.zip -d keras-transformer` in a new cell. The next
# cell keeps Colab's TensorFlow.

# %%
import os
import sys

if "google.colab" in sys.modules:
    checkout = "/content/keras-transformer"
    assert os.path.isdir(checkout), (
        f"Upload the project, and unpack it at {checkout}, as described above"
    )
    # %pip install -q "{checkout}[tensorflow,plot]"

# How long to train each model. The tests of the project set a few steps.
STEPS = int(os.environ.get("STEPS", "400"))

# %%
import matplotlib.pyplot as plt
import numpy as np

import keras_transformer as kt

# %matplotlib inline
random = np.random.default_rng(0)


def compare(ours, numpy):
    """Checks that a layer and NumPy agree, and says how closely."""
    ours = np.asarray(ours)
    np.testing.assert_allclose(ours, numpy, rtol=1e-4, atol=1e-5)
    print(f"{ours.shape}, largest difference {np.abs(ours - numpy).max():.1e}")


# %% [markdown]
# ## 3 The model
#
# Encoder and decoder are stacks of N = 6 layers of width $d_{model} = 512$. We
# draw the figure from the configuration, like Figure 1 of the paper.

# %%
config = kt.TransformerConfig.from_preset("base")
heads = f"{config.num_heads} heads, d_k {config.d_k}, d_v {config.d_v}"
embedding = (
    f"embedding, {config.vocab_size:,} x {config.d_model}\n"
    f"+ {config.positional_encoding} positions"
)
feed_forward = f"feed-forward, {config.d_model} to {config.d_ff} and back"
norm = "add and normalize"
ENCODER = [
    *("source tokens", embedding),
    *(f"self-attention\n{heads}", norm, feed_forward, norm),
]
DECODER = [
    *("target tokens, shifted", embedding),
    *(f"masked self-attention\n{heads}", norm),
    *(f"attention to the encoder\n{heads}", norm, feed_forward, norm),
    *(f"logits, {config.vocab_size:,} (tied)", "softmax: next token"),
]
COLORS = {
    "add": "#f2f3c4",
    "emb": "#f7d9d9",
    "fee": "#c9e6f2",
    "log": "#dddff0",
    "sof": "#cfe8cd",
}

RIGHT = 1.25  # where the decoder stands, beside the encoder at 0
arrow = dict(arrowstyle="->")

figure, axes = plt.subplots(figsize=(9, 6))
axes.set(xlim=(-0.6, RIGHT + 0.6), ylim=(-0.5, 9.5))
axes.axis("off")
for x, boxes, end in ((0, ENCODER, 6), (RIGHT, DECODER, 8)):
    for y, text in enumerate(boxes):
        color = COLORS.get(text[:3], "#fbe3c0" if "attention" in text else "w")
        style = dict(boxstyle="round", facecolor=color, edgecolor="0.4")
        axes.text(x, y, text, ha="center", va="center", size=8, bbox=style)
        if y:
            axes.annotate("", (x, y - 0.3), (x, y - 0.7), arrowprops=arrow)
        if text == norm:  # the residual connection around a sub-layer
            side = x - 0.45
            axes.plot([x, side, side], [y - 1.45, y - 1.45, y], "0.4", lw=1)
            axes.annotate("", (x - 0.19, y), (side, y), arrowprops=arrow)
    # The layers, which are all alike.
    frame = plt.Rectangle((x - 0.5, 1.4), 1, end - 1.9, fill=False, ec="0.6")
    axes.add_patch(frame)
    axes.text(x + 0.47, end - 0.8, f"{config.num_layers} x", ha="right")
# The encoder's output goes to every layer of the decoder.
middle = RIGHT / 2
axes.plot([0, 0, middle, middle], [5.3, 5.8, 5.8, 4], color="0.4")
axes.annotate("", (RIGHT - 0.24, 4), (middle, 4), arrowprops=arrow)
axes.set_title(f"Preset base: {config.num_parameters:,} parameters")
plt.show()

# %% [markdown]
# ### 3.2.1 Scaled dot-product attention
#
# $$\mathrm{Attention}(Q, K, V) =
#   \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V \tag{1}$$
#
# Each query is compared with all keys. The softmax turns the results into
# weights, and the output is the mean of the values with these weights.

# %%
BATCH, LENGTH, HEADS, D_K, D_MODEL = 2, 7, 4, 16, 64


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where(mask, scores, -np.inf)) @ v


q, k, v = random.normal(size=(3, BATCH, HEADS, LENGTH, D_K)).astype("float32")
output, scores = kt.layers.scaled_dot_product_attention(q, k, v)
compare(output, attend(q, k, v, mask=True))

# %% [markdown]
# Why $\sqrt{d_k}$? The product of two random vectors of width $d_k$ has the
# variance $d_k$. Without the division the softmax of wide vectors is close to
# one key alone, and its gradient is close to zero.

# %%
for d_k in (4, 64, 1024):
    keys, query = random.normal(size=(1000, 10, d_k)), random.normal(size=d_k)
    for name, scale in (("without", 1), ("with", d_k**0.5)):
        largest = softmax(keys @ query / scale).max(-1).mean()
        print(f"d_k = {d_k:5} {name:8} the largest weight is {largest:.2f}")

# %% [markdown]
# ### 3.2.2 Multi-head attention
#
# $$\mathrm{MultiHead}(Q, K, V) =
#   \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h)W^O, \quad
#   \mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$$

# %%
x = random.normal(size=(BATCH, LENGTH, D_MODEL)).astype("float32")
attention = kt.layers.MultiHeadAttention(num_heads=HEADS)
ours = attention(x, x)


def split(x):
    """[batch, length, heads * d] -> [batch, heads, length, d]"""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def multi_head(x, memory, weights, mask):
    w_q, w_k, w_v, w_o = weights
    key, value = split(memory @ w_k), split(memory @ w_v)
    heads = attend(split(x @ w_q), key, value, mask)
    return heads.swapaxes(1, 2).reshape(x.shape) @ w_o


compare(ours, multi_head(x, x, attention.get_weights(), mask=True))

# %% [markdown]
# ### 3.2.3 Masks
#
# The decoder must not see the token that it has to predict, so the scores of
# later positions are set to $-\infty$ before the softmax. Padding is hidden in
# the same way. A mask is True where a position may be attended to.

# %%
causal = np.tril(np.ones((LENGTH, LENGTH), bool))
np.testing.assert_array_equal(kt.masks.causal_mask(LENGTH)[0], causal)
ours = attention(x, x, kt.masks.causal_mask(LENGTH))
compare(ours, multi_head(x, x, attention.get_weights(), causal))

# %%
tokens = ["<s> I am a student .".split(), "<s> A dog . <pad> <pad>".split()]
ids = np.where(np.array(tokens) == "<pad>", 0, 1)
masks = {
    "padding": kt.masks.padding_mask(ids, pad_id=0),
    "look-ahead": kt.masks.causal_mask(6),
}
masks["both"] = kt.masks.combine_masks(*masks.values())
# Of restricted attention (section 4): each position sees one on either side.
masks["window of 3"] = kt.masks.window_mask(6, 3)
figure, grid = plt.subplots(2, 4, figsize=(9, 5), layout="constrained")
for sentence, row in enumerate(grid):
    for axes, (name, mask) in zip(row, masks.items(), strict=True):
        mask = np.broadcast_to(np.asarray(mask), (2, 6, 6))
        axes.imshow(mask[sentence], cmap="Blues", vmin=0, vmax=1.4)
        axes.set_xticks(range(6), tokens[sentence], rotation=90)
        axes.set_yticks(range(6), tokens[sentence])
        axes.set(title=name, xlabel="key", ylabel="query")
figure.suptitle("Masks of two sentences: dark may be attended to")
plt.show()

# %% [markdown]
# ### 3.3 Position-wise feed-forward networks
#
# $$\mathrm{FFN}(x) = \max(0, xW_1 + b_1)W_2 + b_2 \tag{2}$$

# %%
feed_forward = kt.layers.FeedForward(d_ff=256)
ours = feed_forward(x)


def ffn(x, weights):
    w_1, b_1, w_2, b_2 = weights
    return np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2


compare(ours, ffn(x, feed_forward.get_weights()))

# %% [markdown]
# ### 3.1 A layer of the encoder
#
# Each of the two sub-layers has a residual connection and a layer normalization
# around it: $\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))$. Together they are a
# whole layer of the encoder.

# %%
layer = kt.layers.EncoderLayer(num_heads=HEADS, d_ff=256)
ours = layer(x)


def layer_norm(x, gamma, beta):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma + beta


values = layer.get_weights()
projections, norm_1 = values[:4], values[4:6]
feed_forward_weights, norm_2 = values[6:10], values[10:]
y = layer_norm(x + multi_head(x, x, projections, mask=True), *norm_1)
compare(ours, layer_norm(y + ffn(y, feed_forward_weights), *norm_2))

# %% [markdown]
# ### A layer of the decoder
#
# A decoder layer has one more sub-layer: attention to the encoder. Its queries
# come from the decoder. Its keys and values come from the memory, the output of
# the encoder.

# %%
memory = random.normal(size=(BATCH, 5, D_MODEL)).astype("float32")
layer = kt.layers.DecoderLayer(num_heads=HEADS, d_ff=256)
ours = layer(x, memory, kt.masks.causal_mask(LENGTH))
w = layer.get_weights()
y = layer_norm(x + multi_head(x, x, w[:4], causal), *w[4:6])
y = layer_norm(y + multi_head(y, memory, w[6:10], True), *w[10:12])
compare(ours, layer_norm(y + ffn(y, w[12:16]), *w[16:]))

# %% [markdown]
# ### 3.4 Embeddings and softmax
#
# One matrix embeds the tokens of both languages and, transposed, gives the
# logits. Embeddings are multiplied by $\sqrt{d_{model}}$.

# %%
embedding = kt.layers.TiedEmbedding(vocab_size=100, d_model=D_MODEL)
ids = random.integers(100, size=(BATCH, LENGTH))
ours = embedding(ids)
(matrix,) = embedding.get_weights()
compare(ours, matrix[ids] * np.sqrt(D_MODEL))
compare(embedding(x, reverse=True), x @ matrix.T)

# %% [markdown]
# ### 3.5 Positional encoding
#
# $$PE_{(pos, 2i)} = \sin(pos / 10000^{2i / d_{model}}), \quad
#   PE_{(pos, 2i+1)} = \cos(pos / 10000^{2i / d_{model}})$$
#
# Attention alone does not know the order of its keys, so the sinusoids are
# added to the embeddings. The dot product of two positions depends only on
# their distance, which makes relative positions easy to learn.

# %%
positions = kt.layers.SinusoidalPositionalEncoding()
ours = positions(np.zeros((1, 50, D_MODEL), "float32"))[0]
angles = np.arange(50)[:, None] / 10_000 ** (np.arange(0, D_MODEL, 2) / D_MODEL)
compare(ours, np.stack([np.sin(angles), np.cos(angles)], -1).reshape(50, -1))

# %%
encoding = kt.layers.SinusoidalPositionalEncoding()
vectors = np.asarray(encoding(np.zeros((1, 128, 128), "float32"))[0])
figure, (table, curve) = plt.subplots(
    1, 2, figsize=(8, 3.2), layout="constrained"
)
image = table.imshow(vectors, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
table.set(xlabel="dimension", ylabel="position")
figure.colorbar(image, ax=table)
curve.plot(vectors @ vectors[0] / (128 / 2))
curve.set(xlabel="distance of two positions", ylabel="relative dot product")
plt.show()

# %% [markdown]
# ## 4 Why self-attention
#
# Each of n positions looks at n others, which costs $O(n^2 d)$ operations. For
# very long inputs the paper proposes to look only at the nearest r positions,
# in $O(r n d)$. Our layer works in blocks, and computes the same as full
# attention with a mask. `docs/paper.md` has measurements of both.

# %%
r = 3
restricted = kt.layers.RestrictedSelfAttention(num_heads=HEADS, window=r)
ours = restricted(x, x)
distance = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
near = np.abs(distance) <= r // 2
compare(ours, multi_head(x, x, restricted.get_weights(), near))

# %% [markdown]
# ## 5 Training
#
# ### 5.3 The learning rate
#
# $$lrate = d_{model}^{-0.5} \cdot
#   \min(step^{-0.5}, step \cdot warmup^{-1.5}) \tag{3}$$
#
# The learning rate rises during the warm-up and then falls with the square root
# of the step. Keras counts steps from 0, the paper from 1.

# %%
schedule = kt.WarmupInverseSquareRoot(d_model=512, warmup_steps=4_000)
step = np.arange(1.0, 20_000)
rates = 512**-0.5 * np.minimum(step**-0.5, step * 4_000**-1.5)
compare(schedule(step - 1), rates)

# %%
plt.figure(figsize=(6, 3))
for d_model, warmup in ((512, 4_000), (512, 8_000), (1024, 4_000)):
    schedule = kt.WarmupInverseSquareRoot(d_model, warmup_steps=warmup)
    label = f"d_model {d_model}, {warmup:,} warm-up steps"
    plt.plot(step, schedule(step - 1), label=label)
plt.xticks(range(0, 20_001, 5_000))
plt.xlabel("step")
plt.ylabel("learning rate")
plt.legend()
plt.show()

# %% [markdown]
# ### 5.4 Regularization
#
# Dropout acts on the output of each sub-layer, before the residual connection,
# and on the sums of embeddings and positions. Each number that it keeps is
# divided by the share that is kept. If the sub-layer returns ones and its input
# is zeros, the layer normalization shows which ones are left.

# %%
residual = kt.layers.Residual(dropout=0.1)
zeros = np.zeros((1, 1_000, D_MODEL), "float32")
ours = residual(zeros, sublayer=lambda x: x + 1, training=True)
print(
    f"{np.mean(np.asarray(ours) < 0):.3f} of the sub-layer's output is dropped"
)

# %% [markdown]
# In label smoothing, the target is not 1 for the right token and 0 for the
# others, but $1 - \varepsilon$ and $\varepsilon / (V - 1)$, with
# $\varepsilon = 0.1$. The model learns to be less sure, which worsens its
# perplexity and improves BLEU.

# %%
logits = random.normal(size=(BATCH, LENGTH, 100)).astype("float32")
labels = random.integers(1, 100, size=(BATCH, LENGTH))
target = np.full(logits.shape, 0.1 / 99)
np.put_along_axis(target, labels[..., None], 0.9, axis=-1)
loss = kt.LabelSmoothedCrossEntropy(label_smoothing=0.1)
losses = -(target * np.log(softmax(logits))).sum(-1)
compare(loss(labels, logits), losses.mean())

# %% [markdown]
# ### 5.1 Training data and batching
#
# The bundled corpus has simple sentences. Both languages share one vocabulary
# of sub-word pieces. A batch has sentences of similar length, and about as many
# tokens as the next batch.

# %%
import keras
import tensorflow as tf

tf.get_logger().setLevel("ERROR")  # each model is traced again
corpus = kt.train.open_corpus(["embedded"])
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=2_000)
limits = dict(batch_tokens=4_096, max_length=32)
train_batches = kt.train.training_batches(
    corpus.pairs("train"), tokenizer, seed=1, **limits
)
valid_batches = kt.train.evaluation_batches(
    corpus.pairs("valid"), tokenizer, **limits
)

# %%
sample = list(corpus.pairs("train"))[:5_000]
figure, (lengths, frequencies) = plt.subplots(
    1, 2, figsize=(8, 3), layout="constrained"
)
counts = np.zeros(tokenizer.vocab_size, int)
sides = zip(*sample, strict=True)
for name, texts in zip(("source", "target"), sides, strict=True):
    ids = tokenizer.encode(texts)
    side = np.array([len(row) for row in ids])
    label = f"{name}, mean {side.mean():.1f}"
    lengths.hist(side, np.arange(30) - 0.5, histtype="step", label=label)
    counts += np.bincount(np.concatenate(ids), minlength=len(counts))
lengths.set(xlabel="tokens", ylabel="texts")
lengths.legend()
counts = np.sort(counts[counts > 0])[::-1]
frequencies.loglog(np.arange(1, len(counts) + 1), counts)
frequencies.set(xlabel="rank of a token", ylabel="occurrences")
figure.suptitle("The first 5,000 pairs")
plt.show()

# %% [markdown]
# ## 6 Results
#
# Now we train the whole model, at the size of the preset `tiny`. We keep its
# weights after each eighth of the training.


# %%
def train(prepare=None, *, num_heads=4, warmup_steps=200, label_smoothing=0.1):
    """Trains a model; `prepare` changes it before."""
    keras.utils.set_random_seed(1)
    config = kt.TransformerConfig.from_preset(
        "tiny", vocab_size=2_000, max_length=32, num_heads=num_heads
    )
    model = kt.Transformer(config)
    if prepare:
        prepare(model)
    model.compile(
        kt.optimizers.adam(config.d_model, warmup_steps=warmup_steps),
        loss=kt.LabelSmoothedCrossEntropy(label_smoothing),
        metrics=[kt.Perplexity()],
    )
    checkpoints = []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: checkpoints.append(model.get_weights())
    )
    batches = dict(x=train_batches, validation_data=valid_batches)
    steps = dict(epochs=8, steps_per_epoch=STEPS // 8)
    history = model.fit(
        **batches, **steps, callbacks=[keep], shuffle=False, verbose=0
    )
    return model, history.history["val_perplexity"], checkpoints


model, perplexities, checkpoints = train()
translator = kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=4))
translator("I am a student.")

# %% [markdown]
# ### 6.1 Averaged checkpoints
#
# The paper's models are the mean of their last checkpoints. In the mean, much
# of the noise of the last updates cancels out.

# %%
print(f"the last checkpoint: perplexity {perplexities[-1]:.2f}")
for count in (2, 4):
    last = zip(*checkpoints[-count:], strict=True)
    model.set_weights([np.mean(weights, axis=0) for weights in last])
    mean = model.evaluate(valid_batches, return_dict=True, verbose=0)
    print(f"mean of the last {count}: perplexity {mean['perplexity']:.2f}")
model.set_weights(checkpoints[-1])

# %% [markdown]
# ### 6.1 Beam search
#
# The search keeps the four most probable hypotheses. Finished ones are ranked
# by $\log P / lp$ with the length penalty $lp = ((5 + n) / 6)^\alpha$ and
# $\alpha = 0.6$, where n counts the end token. The page shows the beam as a
# tree.

# %%
trace = kt.trace(translator, "I am a student.")
trace.to_html()

# %%
best = translator.translate("I am a student.")
found = translator.score("I am a student.", best.texts[0])
n = len(tokenizer.encode(best.texts)[0]) + 1
compare(best.scores[0], found.log_prob / ((5 + n) / 6) ** 0.6)

# %% [markdown]
# ### Attention
#
# There is one map per head of the last layer, from the German output to the
# English source, as in Figures 3 to 5.

# %%
kt.plotting.translation_figure(translator.attention("I am a student."), "cross")

# %% [markdown]
# ## Break it on purpose
#
# We train four models, and take away one part from each: the positions, all
# heads but one, the warm-up, and the label smoothing. The perplexity is for the
# right tokens, without smoothing, of 500 held-out sentences.

# %%


def remove_positions(model):
    for positions in (model.source_positions, model.target_positions):
        positions.vectors = lambda at: tf.zeros((tf.size(at), 128))


models = {"the paper's": (model, perplexities)}
for name, change in {
    "no positions": dict(prepare=remove_positions),
    "one head": dict(num_heads=1),
    "no warm-up": dict(warmup_steps=1),
    "no label smoothing": dict(label_smoothing=0.0),
}.items():
    models[name] = train(**change)[:2]

# %%
from keras_transformer.train.evaluation import evaluate

sentence = "When you were a cook, you sometimes ate the rice."
print(f"{'':20}{'perplexity':>12}{'BLEU':>8}")
for name, (broken, perplexities) in models.items():
    translator = kt.Translator(broken, tokenizer)
    results, _ = evaluate(translator, corpus, "test", target="de")
    print(f"{name:20}{perplexities[-1]:12.2f}{results['bleu']:8.1f}")
    print(" " * 20, translator(sentence))

# %%
for name, (_, perplexities) in models.items():
    plt.plot(np.arange(1, 9) * STEPS / 8, perplexities, label=name)
plt.yscale("log")
plt.xlabel("steps")
plt.ylabel("validation perplexity")
plt.legend()
plt.show()

# %% [markdown]
# - **No warm-up**: the first updates are so large that the model does not
#   recover.
# - **No positions**: the encoder reads a bag of words. The decoder can still
#   tell how far it is, since its mask shows it one token more at each step, and
#   the words of these simple sentences nearly give away their order. Real text
#   does not.
# - **One head** attends to one mixture of words at a time.
# - **No label smoothing** matters little on a corpus this easy.
#
# We trained each model once, so a difference of a few BLEU may be chance.
# `benchmarks/table3.py` trains the rows of Table 3 with several seeds.
