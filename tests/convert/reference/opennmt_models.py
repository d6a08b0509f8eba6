"""Random OpenNMT-tf models. Needs OpenNMT-tf, which needs Python <= 3.11.

`PYTHONPATH=tests/helpers python opennmt_models.py FOLDER` writes a folder for
each of `CONFIGURATIONS`, as training with OpenNMT-tf leaves it, with an
additional file `expected.npz`: the results of OpenNMT-tf. Weights are drawn
from a wide range, so that sentences get different logits and translations of
different lengths.
"""

import sys
from pathlib import Path

import numpy as np
import opennmt
import tensorflow as tf
import yaml
from opennmt.utils.checkpoint import Checkpoint, average_checkpoints
from pieces import DEMO, pieces_model, pieces_of

SENTENCES, LENGTH = 30, 16
# The arguments of a `Transformer`, whether its description is written, and the
# sections `data` and `params` of the settings. A larger `end` gives shorter
# translations.
CONFIGURATIONS = {
    "unequal": dict(
        model="num_heads=2, num_layers=(3, 1), mha_bias=False, "
        "ffn_activation=tf.nn.gelu, num_units=64",
        end=0.9,
        params={"beam_width": 3, "length_penalty": 1.0},
    ),
    "inputs": dict(
        model="num_heads=2, num_layers=2, num_units=128, "
        "share_embeddings=Sharing.SOURCE_TARGET_INPUT",
        has_description=False,
        is_joint=True,
        end=0.9,
        params={"length_penalty": 1.5},
    ),
    # As ScalingNmtEnDe: post-norm, no bias of logits, sources with end tokens.
    "scaling": dict(
        model="num_heads=4, num_layers=2, num_units=64, pre_norm=False, "
        "share_embeddings=Sharing.AUTO, output_layer_bias=False",
        is_joint=True,
        controls={"source_sequence_controls": {"end": True}},
        end=1.6,
        params={"beam_width": 4, "length_penalty": 1.0},
    ),
}
DESCRIPTION = """import tensorflow as tf
from opennmt.models import EmbeddingsSharingLevel as Sharing
from opennmt.models import Transformer

model = lambda: Transformer({}, ffn_inner_dim=96)
"""


def write_model(folder, options):
    """Writes the random model of a configuration into a new folder."""
    folder.mkdir(parents=True)
    data = write_texts(folder, options.get("is_joint"))
    data |= options.get("controls", {})
    settings = {"data": data, "params": options["params"]}
    # The files were in a different place when the model was trained.
    text = yaml.safe_dump(settings).replace(str(folder), "/data")
    (folder / "data.yml").write_text(text, "utf-8")
    description = folder / "model_description.py"
    description.write_text(DESCRIPTION.format(options["model"]), "utf-8")
    model = opennmt.config.load_model_from_file(str(description))
    if not options.get("has_description", True):
        description.unlink()
    model.initialize(data)
    optimizer = opennmt.optimizers.make_optimizer("LazyAdam", 0.1)
    model.create_variables(optimizer=optimizer)
    checkpoint = Checkpoint(model, optimizer, model_dir=str(folder))
    for step in (10, 20):
        randomise(model, step, options["end"])
        checkpoint.save(step)
    average_checkpoints(str(folder), str(folder / "avg"), {"model": model})
    np.savez(folder / "expected.npz", **expected(model, options["params"]))


def write_texts(folder, is_joint):
    """Writes models and vocabularies, and returns the section `data`."""
    models = {"source": pieces_model("en"), "target": pieces_model("de")}
    pieces = {side: pieces_of(model) for side, model in models.items()}
    if is_joint:
        both = [*dict.fromkeys(pieces["source"] + pieces["target"])]
        pieces = dict.fromkeys(models, both)
    data = {}
    for side, model in models.items():
        file = folder / f"{side}.model"
        vocabulary = folder / f"{'joint' if is_joint else side}.vocab"
        file.write_bytes(model)
        # Some pieces are unknown.
        lines = ["<blank>", "<s>", "</s>", *pieces[side][10:]]
        text = "".join(f"{line}\n" for line in lines)
        vocabulary.write_text(text, "utf-8", newline="\n")
        data[f"{side}_vocabulary"] = str(vocabulary)
        data[f"{side}_tokenization"] = {
            "type": "OpenNMTTokenizer",
            "params": {"mode": "none", "sp_model_path": str(file)},
        }
    return data


def randomise(model, seed, end):
    random = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        drawn = random.normal(0.0, 0.2, weight.shape)
        weight.assign(drawn + ("gamma" in weight.name))
    # Adds a direction to all outputs of the decoder that makes the end token
    # likely, and tokens that a trained model does not write unlikely.
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


def expected(model, params):
    """Returns the results of OpenNMT-tf for texts of the demo corpus."""
    files = [str(DEMO / f"test.{language}") for language in ("en", "de")]
    inputter = model.examples_inputter
    dataset = inputter.make_evaluation_dataset(*files, SENTENCES)
    features, labels = map(dict, next(iter(dataset)))
    results = {
        "source_ids": features["ids"],
        "source_lengths": features["length"],
        "target_inputs": labels["ids"],
        "target_lengths": labels["length"],
        "logits": model(features, labels)[0]["logits"],
    }
    sizes = dict(greedy=1, beam=params.get("beam_width", 4))
    for name, beam_width in sizes.items():
        model.params = params | {
            "beam_width": beam_width,
            "maximum_decoding_length": LENGTH,
        }
        found = model(features)[1]
        ids = model.labels_inputter.tokens_to_ids.lookup(found["tokens"][:, 0])
        lengths = found["length"][:, 0]
        results |= {
            f"{name}_ids": ids,
            f"{name}_lengths": lengths,
            f"{name}_log_probs": log_probs(model, features, ids, lengths),
        }
    return {key: value.numpy() for key, value in results.items()}


def log_probs(model, features, ids, lengths):
    """Returns log P of hypotheses with their end, computed without a search.

    OpenNMT-tf's search may return the value of a different hypothesis.
    """
    ids = tf.ragged.boolean_mask(ids, tf.sequence_mask(lengths, ids.shape[1]))
    ends = tf.fill([ids.nrows(), 1], tf.constant(2, ids.dtype))
    labels = tf.concat([ids, ends], 1).to_tensor()
    inputs = tf.concat([ends - 1, labels[:, :-1]], 1)
    given = {"ids": inputs, "ids_out": labels, "length": lengths + 1}
    logits = model(features, given)[0]["logits"]
    found = tf.gather(tf.nn.log_softmax(logits), labels, batch_dims=2)
    used = tf.sequence_mask(lengths + 1, dtype=found.dtype)
    return tf.reduce_sum(found * used, 1)


if __name__ == "__main__":
    for name, options in CONFIGURATIONS.items():
        write_model(Path(sys.argv[1]) / name, options)
