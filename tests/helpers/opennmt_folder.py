"""Writes folders as training with OpenNMT-tf leaves them, without it."""

import tensorflow as tf
import yaml
from marian_folder import random_model
from pieces import pieces_model, pieces_of

FIELDS = dict(
    num_layers=2,
    decoder_layers=1,
    d_model=16,
    num_heads=4,
    norm_first=True,
    layer_norm_epsilon=1e-3,
    tied_embeddings="none",
    position_endpoint=True,
    position_offset=1,
    pad_id=0,
    bos_id=1,
    eos_id=2,
    max_length=512,
)


def write_folder(folder, **fields):
    """Writes all files of a random model, and returns the model."""
    is_joint = fields.get("tied_embeddings") in ("all", "inputs")
    source, target = write_texts(folder, is_joint)
    model, weights = random_model(
        "opennmt_tf",
        vocab_size=target,
        source_vocab_size=None if is_joint else source,
        **FIELDS | fields,
    )
    write_checkpoint(folder / "ckpt-10", weights)
    (folder / "model_description.py").write_text(
        "model = lambda: Transformer(num_units=16, num_heads=4)\n"
    )
    return model


def write_texts(folder, is_joint=False):
    """Writes SentencePiece models, vocabularies and data.yml.

    Returns:
        The vocabulary sizes of both sides.
    """
    data, pieces = {}, {}
    for side, language in (("source", "en"), ("target", "de")):
        model = pieces_model(language)
        (folder / f"{side}.model").write_bytes(model)
        # Some pieces are unknown, and the sizes differ.
        pieces[side] = pieces_of(model)[len(pieces) * 9 :]
        data[f"{side}_vocabulary"] = f"/elsewhere/{side}.vocab"
        data[f"{side}_tokenization"] = {
            "type": "SentencePieceTokenizer",
            "params": {"model": f"/elsewhere/{side}.model"},
        }
    if is_joint:
        both = [*dict.fromkeys(pieces["source"] + pieces["target"])]
        pieces = {"source": both, "target": both}
    for side, words in pieces.items():
        write_vocabulary(folder / f"{side}.vocab", words)
    text = yaml.safe_dump({"data": data, "params": {"beam_width": 2}})
    (folder / "data.yml").write_text(text, "utf-8")
    return [4 + len(words) for words in pieces.values()]


def write_vocabulary(path, words):
    lines = ["<blank>", "<s>", "</s>", *words]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_checkpoint(prefix, weights):
    """Writes a checkpoint of a model and its optimizer.

    Args:
        prefix: A path such as `folder / "ckpt-10"`.
        weights: Arrays by name; the parts of a name are names of objects.
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
        value = value.T if name.endswith("output_layer/kernel") else value
        variables.append(tf.Variable(value))
        setattr(at, last, variables[-1])
    # Adds a slot for each variable, and leaves its value.
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in variables])
    root.write(str(prefix))
