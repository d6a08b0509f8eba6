"""The Transformer in float64 NumPy, written from the paper.

Nothing here calls the library, which is compared with it. Only the names of
the weights are the library's. Masks: True = attend.
"""

import numpy as np


def inside(weights, name):
    """The weights below a name, e.g. one layer's."""
    start = name + "/"
    return {
        path[len(start) :]: value
        for path, value in weights.items()
        if path.startswith(start)
    }


def attention_scores(query, key, mask=True):
    """Equation 1 without V; a row that may attend to nothing gives 0."""
    products = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    mask = np.broadcast_to(mask, products.shape)
    scores = np.exp(log_softmax(np.where(mask, products, -1e30)))
    return np.where(mask, scores, 0.0)


def attention(query, key, value, mask=True):
    """Equation 1."""
    return attention_scores(query, key, mask) @ value


def multi_head_attention(weights, num_heads, query, memory, mask=True):
    """Section 3.2.2, one head after the other; `mask` is `[B, T, S]`."""
    projections = [
        np.split(project(weights, name, x), num_heads, axis=-1)
        for name, x in (("query", query), ("key", memory), ("value", memory))
    ]
    heads = [attention(*head, mask) for head in zip(*projections, strict=True)]
    return project(weights, "output", np.concatenate(heads, axis=-1))


def project(weights, name, x):
    """A product; the paper's has no bias."""
    return x @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0.0)


def relu(x):
    return np.maximum(x, 0.0)


def feed_forward(weights, x, activation=relu):
    """Equation 2."""
    return project(weights, "outer", activation(project(weights, "inner", x)))


def layer_norm(weights, x, epsilon=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    normalized = (x - mean) / np.sqrt(variance + epsilon)
    return weights["gamma"] * normalized + weights["beta"]


def same(x):
    return x


def post_norm(weights, x, sublayer, dropout=same, epsilon=1e-6):
    """Section 3.1; `dropout` goes where section 5.4 puts it."""
    x = x + dropout(sublayer(x))
    return layer_norm(inside(weights, "norm"), x, epsilon)


def pre_norm(weights, x, sublayer, dropout=same, epsilon=1e-6):
    """The other order, which is not the paper's."""
    normalized = layer_norm(inside(weights, "norm"), x, epsilon)
    return x + dropout(sublayer(normalized))


def encoder_layer(weights, num_heads, x, mask=True, **formulas):
    attentions = {"self_attention": (None, mask)}
    return layer(weights, num_heads, x, attentions, **formulas)


def decoder_layer(
    weights, num_heads, x, memory, mask=True, memory_mask=True, **formulas
):
    attentions = {
        "self_attention": (None, mask),
        "cross_attention": (memory, memory_mask),
    }
    return layer(weights, num_heads, x, attentions, **formulas)


def layer(
    weights,
    num_heads,
    x,
    attentions,
    dropout=same,
    residual=post_norm,
    feed_forward=feed_forward,
):
    """Section 3.1; `residual` and `feed_forward` replace its formulas."""

    def wrap(name, x, function):
        part, norm = inside(weights, name), inside(weights, f"{name}_norm")
        return residual(norm, x, lambda x: function(part, x), dropout)

    for name, (memory, mask) in attentions.items():

        def attend(part, x, memory=memory, mask=mask):
            memory = x if memory is None else memory
            return multi_head_attention(part, num_heads, x, memory, mask)

        x = wrap(name, x, attend)
    return wrap("feed_forward", x, feed_forward)


def encoder(weights, num_heads, x, *arguments, epsilon=1e-6, **formulas):
    for part in layers(weights):
        x = encoder_layer(part, num_heads, x, *arguments, **formulas)
    return final_norm(weights, x, epsilon)


def decoder(weights, num_heads, x, *arguments, epsilon=1e-6, **formulas):
    for part in layers(weights):
        x = decoder_layer(part, num_heads, x, *arguments, **formulas)
    return final_norm(weights, x, epsilon)


def layers(weights):
    """The weights of each layer of an encoder or a decoder."""
    names = {path.split("/")[0] for path in weights}
    count = sum(name.startswith("layer_") for name in names)
    return [inside(weights, f"layer_{i}") for i in range(count)]


def final_norm(weights, x, epsilon):
    """What follows the last layer: nothing in the paper."""
    norm = inside(weights, "final_norm")
    return layer_norm(norm, x, epsilon) if norm else x


def sinusoids(length, d_model):
    """Section 3.5: sines in the even dimensions, cosines in the odd ones."""
    dimensions = np.arange(d_model)
    frequencies = 10000.0 ** (-2 * (dimensions // 2) / d_model)
    angles = np.arange(length)[:, None] * frequencies
    return np.where(dimensions % 2, np.cos(angles), np.sin(angles))


def transformer(
    weights,
    num_heads,
    source,
    target,
    pad_id=0,
    decoder_heads=None,
    scale=None,
    sinusoids=sinusoids,
    **formulas,
):
    """Logits `[B, T, V]` for ids `[B, S]` and `[B, T]`.

    What has no weights of its own has those of the embedding (section 3.4).
    """
    source_matrix = weights["embedding/embeddings"]
    d_model = source_matrix.shape[1]
    matrix = weights.get("target_embedding/embeddings", source_matrix)
    output = weights.get("output_embedding/embeddings", matrix)
    bias = sum(v for k, v in weights.items() if k.endswith("embedding/bias"))

    def embed(ids, name, matrix):
        length = ids.shape[1]
        table = weights.get(f"{name}/embeddings", sinusoids(length, d_model))
        factor = np.sqrt(d_model) if scale is None else scale
        dropout = formulas.get("dropout", same)
        return dropout(matrix[ids] * factor + table[:length])

    source_mask = (source != pad_id)[:, None, :]
    memory = encoder(
        inside(weights, "encoder"),
        num_heads,
        embed(source, "source_positions", source_matrix),
        source_mask,
        **formulas,
    )
    states = decoder(
        inside(weights, "decoder"),
        decoder_heads or num_heads,
        embed(target, "target_positions", matrix),
        memory,
        np.tri(target.shape[1], dtype=bool),
        source_mask,
        **formulas,
    )
    return states @ output.T + bias


def token_losses(labels, logits, smoothing):
    """`[B, T]` nats; the smoothed target is built explicitly.

    The right token gets 1 - smoothing, each of the V - 1 others an equal share
    of smoothing.
    """
    right = np.eye(logits.shape[-1])[labels]
    share = smoothing / (logits.shape[-1] - 1)
    target = (1 - smoothing) * right + share * (1 - right)
    return -(target * log_softmax(logits)).sum(axis=-1)


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def mean_loss(labels, logits, smoothing, pad_id=0):
    """The mean over the labels that are not padding."""
    return token_losses(labels, logits, smoothing)[labels != pad_id].mean()
