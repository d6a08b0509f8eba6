"""Folders as training with OpenNMT-tf leaves them, written without it."""

import numpy as np
import tensorflow as tf
import yaml
from marian_npz import pieces_model, pieces_of

INPUTS = "model/examples_inputter"


def write_texts(folder, joint=False, **settings):
    """Writes SentencePiece models, vocabularies and data.yml.

    Args:
        folder: A folder.
        joint: Whether source and target have one vocabulary.
        **settings: Values of the section `data`, and `params`.

    Returns:
        The rows of both embeddings.
    """
    pieces = {}
    data = {}
    for side, language in (("source", "en"), ("target", "de")):
        model = pieces_model(language)
        (folder / f"{side}.model").write_bytes(model)
        # Of another size for each.
        pieces[side] = pieces_of(model)[len(pieces) * 9 :]
        data[f"{side}_vocabulary"] = f"/elsewhere/{side}.vocab"
        data[f"{side}_tokenization"] = {
            "type": "SentencePieceTokenizer",
            "params": {"model": f"/elsewhere/{side}.model"},
        }
    if joint:
        both = list(dict.fromkeys(pieces["source"] + pieces["target"]))
        pieces = {"source": both, "target": both}
    for side, words in pieces.items():
        write_vocabulary(folder / f"{side}.vocab", words)
    params = settings.pop("params", {"beam_width": 2})
    write_settings(folder, data | settings, params)
    return tuple(4 + len(words) for words in pieces.values())


def write_vocabulary(path, words):
    lines = ["<blank>", "<s>", "</s>", *words]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_settings(folder, data, params):
    text = yaml.safe_dump({"data": data, "params": params})
    (folder / "data.yml").write_text(text, "utf-8")


def random_weights(
    rows,
    width=16,
    inner=24,
    layers=(2, 1),
    pre_norm=True,
    attention_bias=True,
    output_bias=True,
    tied="none",
):
    """Returns weights by the names that OpenNMT-tf 2.32 gives them."""
    shapes = {f"{INPUTS}/features_inputter/embedding": (rows[0], width)}
    if tied in ("none", "target"):
        shapes[f"{INPUTS}/labels_inputter/embedding"] = (rows[1], width)
    if tied in ("none", "inputs"):
        shapes["model/decoder/output_layer/kernel"] = (width, rows[1])
    if output_bias:
        shapes["model/decoder/output_layer/bias"] = (rows[1],)
    norms = []
    for stack, depth in zip(("encoder", "decoder"), layers, strict=True):
        if pre_norm:
            norms.append(f"model/{stack}/layer_norm")
        for i in range(depth):
            layer = f"model/{stack}/layers/{i}"
            blocks = ["self_attention"]
            if stack == "decoder":
                blocks.append("attention/0")
            for block in blocks:
                for part in ("queries", "keys", "values", "output"):
                    dense = f"{layer}/{block}/layer/linear_{part}"
                    shapes[f"{dense}/kernel"] = (width, width)
                    if attention_bias:
                        shapes[f"{dense}/bias"] = (width,)
            network = f"{layer}/ffn/layer"
            shapes[f"{network}/inner/kernel"] = (width, inner)
            shapes[f"{network}/inner/bias"] = (inner,)
            shapes[f"{network}/outer/kernel"] = (inner, width)
            shapes[f"{network}/outer/bias"] = (width,)
            place = "input" if pre_norm else "output"
            norms += [f"{layer}/{x}/{place}_layer_norm" for x in blocks]
            norms.append(f"{layer}/ffn/{place}_layer_norm")
    for norm in norms:
        shapes |= {f"{norm}/gamma": (width,), f"{norm}/beta": (width,)}
    random = np.random.default_rng(0)
    return {
        name: random.normal(name.endswith("gamma"), 0.3, shape).astype("f")
        for name, shape in shapes.items()
    }


def write_checkpoint(prefix, weights):
    """Writes a checkpoint of objects, the model's and its optimizer's.

    Args:
        prefix: Such as `folder / "ckpt-10"`.
        weights: Arrays by name; a part of a name is the name of an object.
    """
    optimizer = tf.compat.v1.train.AdamOptimizer(0.0)
    root = tf.train.Checkpoint(optimizer=optimizer)
    variables = []
    for name, value in weights.items():
        *path, last = name.split("/")
        at = root
        for part in path:
            if not hasattr(at, part):
                setattr(at, part, tf.train.Checkpoint())
            at = getattr(at, part)
        variables.append(tf.Variable(value))
        setattr(at, last, variables[-1])
    # It has a slot for each variable, whose values it does not change.
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in variables])
    prefix.parent.mkdir(exist_ok=True)
    root.write(str(prefix))
