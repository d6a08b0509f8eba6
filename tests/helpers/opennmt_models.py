"""Random OpenNMT-tf models. Needs OpenNMT-tf, which needs Python <= 3.11.

As a program, `python opennmt_models.py FOLDER [NAME ...]`, it writes a folder
for each of `CONFIGURATIONS`, as training with OpenNMT-tf leaves it, and in it
`expected.npz`, which is what OpenNMT-tf computes. They are no models of
anything, but every weight is drawn, biases and gammas of LayerNorm included,
and so widely that sentences get different logits and translations of
different lengths.
"""

import sys
from pathlib import Path

import numpy as np
import opennmt
import tensorflow as tf
import yaml
from marian_npz import DEMO, pieces_model, pieces_of
from opennmt.utils.checkpoint import Checkpoint, average_checkpoints

SENTENCES, LENGTH = 50, 30
# `model` is what model_description.py says, if there is one, of a Transformer;
# `defaults` what it does not say. With `joint` the sides have one vocabulary.
# `tokenization` is where data.yml says how texts are split; None: nowhere.
# `params` and `controls` are in data.yml. A larger `end` gives shorter outputs.
CONFIGURATIONS = {
    "separate": dict(
        model="num_heads=4",
        optimizer=True,
        params={"beam_width": 4},
    ),
    "shared": dict(
        model="num_heads=8, share_embeddings=Sharing.ALL",
        joint=True,
        tokenization="opennmt",
        params={"beam_width": 5, "length_penalty": 0.6},
    ),
    "inputs": dict(
        defaults="num_heads=2, num_units=128, "
        "share_embeddings=Sharing.SOURCE_TARGET_INPUT",
        joint=True,
        tokenization="file",
        average=True,
        end=0.9,
        params={"length_penalty": 1.5},
    ),
    # As ScalingNmtEnDe is: post-norm, no bias of logits, sources that end.
    "scaling": dict(
        model="num_heads=4, share_embeddings=Sharing.AUTO, "
        "pre_norm=False, output_layer_bias=False",
        joint=True,
        tokenization=None,
        controls={"end": True},
        end=1.6,
        params={"beam_width": 4, "length_penalty": 1.0},
    ),
    "scaling-separate": dict(
        model="num_heads=4, share_embeddings=Sharing.AUTO, "
        "pre_norm=False, output_layer_bias=False",
        end=1.15,
        params={"beam_width": 4, "length_penalty": 0.8},
    ),
    "unequal": dict(
        model="num_heads=2, num_layers=(3, 1), mha_bias=False, "
        "ffn_activation=tf.nn.gelu",
        end=0.9,
        params={"beam_width": 3, "length_penalty": 1.0},
    ),
}
DESCRIPTION = """import tensorflow as tf
from opennmt.models import EmbeddingsSharingLevel as Sharing
from opennmt.models import Transformer

model = lambda: Transformer({})
"""
SIZES = {"num_layers": "2", "num_units": "64", "ffn_inner_dim": "96"}


def write_model(folder, name):
    """Writes the random model of a configuration into a new folder."""
    folder.mkdir(parents=True)
    options = {"tokenization": "sentencepiece"} | CONFIGURATIONS[name]
    seed = list(CONFIGURATIONS).index(name)
    data, written = _write_texts(folder, options)
    controls = options.get("controls")
    if controls:
        data["source_sequence_controls"] = controls
        written["source_sequence_controls"] = controls
    settings = {
        "model_dir": "run",
        "data": written,
        "params": options["params"],
    }
    (folder / "data.yml").write_text(yaml.safe_dump(settings), "utf-8")

    description = folder / "model_description.py"
    arguments = [options.get("model") or options["defaults"]]
    arguments += [f"{x}={y}" for x, y in SIZES.items() if x not in arguments[0]]
    description.write_text(DESCRIPTION.format(", ".join(arguments)), "utf-8")
    model = opennmt.config.load_model_from_file(str(description))
    if "model" not in options:
        description.unlink()
    model.initialize(data)
    optimizer = None
    if options.get("optimizer"):
        optimizer = opennmt.optimizers.make_optimizer("LazyAdam", 0.1)
    model.create_variables(optimizer=optimizer)
    checkpoint = Checkpoint(model, optimizer, model_dir=str(folder))
    steps = (10, 20) if options.get("average") else (10,)
    for step in steps:
        _randomise(model, seed + step, options.get("end", 1.1))
        checkpoint.save(step)
    if options.get("average"):
        trackables = {"model": model}
        average_checkpoints(str(folder), str(folder / "avg"), trackables)
    np.savez(folder / "expected.npz", **_expected(model, options["params"]))


def _write_texts(folder, options):
    """Returns the section `data` as OpenNMT-tf gets it here, and as written."""
    one_model = options["tokenization"] is None
    sides = {"source": "en", "target": "en" if one_model else "de"}
    pieces = {x: pieces_of(pieces_model(y)) for x, y in sides.items()}
    data, written = {}, {}
    for side, language in sides.items():
        model, vocabulary = f"{side}.model", f"{side}.vocab"
        words = pieces[side]
        if options.get("joint"):
            vocabulary = "joint.vocab"
            words = [*dict.fromkeys(pieces["source"] + pieces["target"])]
        if one_model:
            model = "pieces.model"
        (folder / model).write_bytes(pieces_model(language))
        # Some pieces are unknown, and the sizes differ.
        known = words[20 if side == "source" or "joint" in options else 30 :]
        lines = ["<blank>", "<s>", "</s>", *known]
        text = "".join(f"{line}\n" for line in lines)
        (folder / vocabulary).write_text(text, "utf-8", newline="\n")
        data[f"{side}_vocabulary"] = str(folder / vocabulary)
        data[f"{side}_tokenization"] = {
            "type": "OpenNMTTokenizer",
            "params": {"mode": "none", "sp_model_path": str(folder / model)},
        }
        # Where the files were when the model was trained.
        written[f"{side}_vocabulary"] = f"/data/{vocabulary}"
        split = {"mode": "none", "sp_model_path": f"/data/{model}"}
        if options["tokenization"] == "opennmt":
            split = {"type": "OpenNMTTokenizer", "params": split}
        elif options["tokenization"] == "sentencepiece":
            split = {"model": f"/data/{model}"}
            split = {"type": "SentencePieceTokenizer", "params": split}
        elif options["tokenization"] == "file":
            path = folder / f"{side}_tokenization.yml"
            path.write_text(yaml.safe_dump(split), "utf-8")
            split = f"/data/{path.name}"
        if not one_model:
            written[f"{side}_tokenization"] = split
    return data, written


def _randomise(model, seed, end=1.1, deviation=0.2):
    random = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        drawn = random.normal(0.0, deviation, weight.shape)
        weight.assign(drawn + ("gamma" in weight.name))
    # Outputs end, and have no tokens that a trained model would not write:
    # one direction is in all of the decoder's outputs.
    norm = (
        model.decoder.layer_norm
        or model.decoder.layers[-1].ffn.output_layer_norm
    )
    common = random.normal(size=norm.beta.shape)
    common /= np.linalg.norm(common)
    norm.beta.assign_add(4 * common)
    layer = model.decoder.output_layer
    table = layer.weight if layer.weight is not None else layer.kernel
    rows = table.numpy() if layer.transpose else table.numpy().T
    rows[[0, 1, -1]] = 0.2 * rows[[0, 1, -1]] - 0.5 * common
    rows[2] += end * common
    table.assign(rows if layer.transpose else rows.T)


def _expected(model, params):
    """Returns what OpenNMT-tf computes for texts of the demo corpus."""
    files = [str(DEMO / f"test.{language}") for language in ("en", "de")]
    inputter = model.examples_inputter
    dataset = inputter.make_evaluation_dataset(*files, SENTENCES)
    features, labels = next(iter(dataset))
    features, labels = dict(features), dict(labels)
    logits = model(features, labels)[0]["logits"]
    expected = {
        "source_ids": features["ids"],
        "source_lengths": features["length"],
        "target_inputs": labels["ids"],
        "target_lengths": labels["length"],
        "logits": logits,
    }
    for name, beam_width in dict(
        greedy=1, beam=params.get("beam_width", 4)
    ).items():
        model.params = params | {
            "beam_width": beam_width,
            "maximum_decoding_length": LENGTH,
        }
        found = model(features)[1]
        ids = model.labels_inputter.tokens_to_ids.lookup(found["tokens"][:, 0])
        lengths = found["length"][:, 0]
        expected |= {
            f"{name}_ids": ids,
            f"{name}_lengths": lengths,
            f"{name}_log_probs": _log_probs(model, features, ids, lengths),
        }
    return {key: value.numpy() for key, value in expected.items()}


def _log_probs(model, features, ids, lengths):
    """Returns log P of hypotheses with their end, computed without a search.

    What a search of OpenNMT-tf returns may be another hypothesis' value.
    """
    ids = tf.ragged.boolean_mask(ids, tf.sequence_mask(lengths, ids.shape[1]))
    ends = tf.fill([ids.nrows(), 1], tf.constant(2, ids.dtype))
    labels = tf.concat([ids, ends], 1).to_tensor()
    inputs = tf.concat([ends - 1, labels[:, :-1]], 1)
    given = {"ids": inputs, "ids_out": labels, "length": lengths + 1}
    logits = model(features, given)[0]["logits"]
    log_probs = tf.gather(tf.nn.log_softmax(logits), labels, batch_dims=2)
    used = tf.sequence_mask(lengths + 1, dtype=log_probs.dtype)
    return tf.reduce_sum(log_probs * used, 1)


if __name__ == "__main__":
    for name in sys.argv[2:] or CONFIGURATIONS:
        write_model(Path(sys.argv[1]) / name, name)
