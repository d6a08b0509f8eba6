"""Compares how soon systems translate well: BLEU over minutes and over steps.

python benchmarks/time_to_quality.py FOLDER

FOLDER contains Multi30k as train|valid.en|de. Each system trains the preset
multi30k in float32 on the same batches for the same time, one system after the
other, each in its own environment. The clock starts before the first step. It
counts compilation and the reading of batches, and stops while a checkpoint is
written and checked. Afterwards this library translates `valid` with every
checkpoint (beam 4, alpha 0.6), and sacreBLEU scores it. Before that, the loss
of a batch with the same weights, without dropout, must be the one that the
system itself computes outside its training step. Results that are already in
--output are not measured again.

What is equal in all systems, and what differs, is in docs/results.md.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import contender
import numpy as np
from contender import Contender

sys.path.append(str(contender.PEERS))
import quality
import workload

PRESET = "multi30k"
SOURCE, TARGET = "en", "de"
GOAL = 35.0  # BLEU
TOLERANCE = 1e-4  # nats; sums in other orders differ by some 1e-6


class System(NamedTuple):
    """A system, and what its model is here."""

    contender: Contender
    # Arguments of `TransformerConfig` that differ from ours.
    architecture: dict[str, Any]


_OPENNMT_TF = dict(
    layer_norm_epsilon=1e-3,
    position_layout="halves",
    position_endpoint=True,
    position_offset=1,
)
SYSTEMS = {
    "ours": System(Contender("ours_quality.py", "ours", "graph"), {}),
    "opennmt-tf": System(
        Contender("opennmt_tf_quality.py", "opennmt-tf", "graph"), _OPENNMT_TF
    ),
    "opennmt-tf-defaults": System(
        Contender("opennmt_tf_quality.py", "opennmt-tf", "defaults"),
        _OPENNMT_TF,
    ),
    "keras-hub": System(
        Contender("kerashub_quality.py", "keras-hub", "graph"),
        dict(layer_norm_epsilon=1e-5, attention_bias=True),
    ),
    "marian": System(
        Contender("marian_quality.py", "marian", "compiled", shim=True),
        dict(
            layer_norm_epsilon=1e-5,
            position_layout="halves",
            attention_bias=True,
            output_bias=True,
        ),
    ),
}


def make_settings(options: argparse.Namespace) -> quality.Settings:
    """Returns the settings of all trainings: the preset's."""
    from keras_transformer.presets import find_preset

    preset = find_preset(PRESET)
    return quality.Settings(
        corpus=str(options.corpus.resolve()),
        shape=workload.Shape(
            preset.vocab_size, **preset.architecture, sentences=0, length=None
        ),
        warmup_steps=preset.recipe["warmup_steps"],
        learning_rate_scale=preset.recipe["learning_rate_scale"],
        seed=options.seed,
        seconds=60 * options.minutes,
        every_seconds=60 * options.every,
        every_steps=options.every_steps,
    )


def write_data(folder: pathlib.Path, settings: quality.Settings) -> None:
    """Trains the tokenizer, and writes what peers/quality.py reads.

    The batches are the first that `keras-transformer train` trains on.
    """
    import keras_transformer as kt

    print("Writing the batches", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    corpus = kt.train.open_corpus(settings.corpus, SOURCE, TARGET)
    recipe = kt.train.Recipe.from_preset(PRESET)
    pairs = corpus.pairs("train")
    tokenizer = corpus.task.train_tokenizer(pairs, recipe.vocab_size)
    tokenizer.save_files(folder)
    limits = dict(
        batch_tokens=recipe.batch_tokens, max_length=recipe.max_length
    )
    batches = kt.train.training_batches(
        pairs, tokenizer, **limits, seed=settings.seed
    )
    batches = list(map(_as_array, batches.take(recipe.steps)))
    np.save(folder / "shapes.npy", [ids.shape[1:] for ids in batches])
    flat = [ids.astype(np.uint16).reshape(3, -1) for ids in batches]
    np.save(folder / "ids.npy", np.concatenate(flat, axis=1))
    check = kt.train.evaluation_batches(
        corpus.pairs("valid"), tokenizer, **limits
    )
    np.save(folder / "check.npy", _as_array(next(iter(check))))
    settings.write(folder)  # last: it says that the others are complete


def _as_array(batch: Any) -> np.ndarray:
    """Returns a batch as `quality.read_batches` does."""
    inputs, labels = batch
    return np.stack([inputs["source"], inputs["target"], labels])


def train(
    name: str, system: System, options: argparse.Namespace
) -> dict | None:
    """Trains, and writes and returns training.json; None if it fails.

    What an earlier start wrote is returned.
    """
    from keras_transformer.support.files import write_json

    folder = options.output / name
    path = folder / "training.json"
    if not path.exists():
        print(f"Training {name}", file=sys.stderr)
        results = system.contender.run(
            options.venvs,
            [f"--data={options.output / 'data'}", f"--output={folder}"],
        )
        if results is None:
            return None
        write_json(path, results[0])
    return json.loads(path.read_text())


def converted(
    name: str, model: Any, tensors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns weights of a system by our names, in the shapes of our model."""
    from keras_transformer.convert.weight_table import weight_names
    from keras_transformer.weights import named_weights

    weights = named_weights(model)
    if name == "ours":
        names = {ours: f"transformer/{ours}" for ours in weights}
    elif name == "keras-hub":
        names = {ours: _keras_hub_name(ours) for ours in weights}
    else:
        column = "hugging_face" if name == "marian" else "opennmt_tf"
        names = weight_names(model.config, column)
    found = {}
    for ours, theirs in names.items():
        value = tensors[theirs]
        if name == "marian" and ours.endswith("kernel"):
            value = value.T
        # KerasHub's heads have an axis, and Marian's logits' bias a row.
        found[ours] = value.reshape(weights[ours].shape)
    return found


def _keras_hub_name(ours: str) -> str:
    """Returns KerasHub's name of a weight in a `keras.Model` of its layers."""
    if ours.startswith("embedding"):
        return f"reversible_{ours}"
    stack, layer, part = ours.split("/", 2)
    number = layer.removeprefix("layer").removesuffix("_0")
    start = f"transformer_{stack}{number}"
    part = part.replace("attention/output", "attention/attention_output")
    part = part.replace("feed_forward/inner", "feedforward_intermediate_dense")
    part = part.replace("feed_forward/outer", "feedforward_output_dense")
    part = part.replace("feed_forward", "feedforward")
    part = part.replace("_norm/norm", "_layer_norm")
    if stack == "encoder":
        part = part.replace("self_attention/", "self_attention_layer/")
    return f"{start}/{part}"


def evaluate(
    name: str, system: System, training: dict, options: argparse.Namespace
) -> dict:
    """Translates with each checkpoint, and writes and returns measured.json.

    It is what training.json is, with the BLEU of each checkpoint and the loss
    of our model with its weights. What an earlier start wrote is returned.
    """
    folder = options.output / name
    path = folder / "measured.json"
    if path.exists():
        return json.loads(path.read_text())
    print(f"Evaluating {name}", file=sys.stderr)
    import ours

    import keras_transformer as kt
    from keras_transformer.support.files import write_json
    from keras_transformer.tasks.bleu import corpus_scores
    from keras_transformer.weights import assign

    data, settings = options.output / "data", options.settings
    config = dataclasses.replace(
        ours.build_config(settings.shape), **system.architecture
    )
    model = kt.Transformer(config)
    translator = kt.Translator(
        model, kt.Tokenizer.load(data / "tokenizer.model")
    )
    loss = kt.LabelSmoothedCrossEntropy(workload.LABEL_SMOOTHING)
    source, target, labels = np.load(data / "check.npy")
    corpus = kt.train.open_corpus(settings.corpus, SOURCE, TARGET)
    sources, references = zip(*corpus.pairs("valid"), strict=True)
    for row in training["checkpoints"]:
        with np.load(folder / row["file"]) as tensors:
            assign(model, converted(name, model, tensors))
        logits = model({"source": source, "target": target})
        row["our_loss"] = float(loss(labels, logits))
        # NaN is not equal either.
        if not abs(row["our_loss"] - row["loss"]) <= TOLERANCE:
            sys.exit(f"The model of {name} is different here: {row}")
        if not row["step"]:
            continue  # it says nothing, and takes minutes to end
        texts = [x.texts[0] for x in translator.translate(sources)]
        row["bleu"] = corpus_scores(texts, references, TARGET, ["bleu"])["bleu"]
        print(json.dumps(row), file=sys.stderr, flush=True)
    write_json(path, training)
    return training


def minutes_to(goal: float, result: Mapping[str, Any]) -> float | None:
    """Returns the minutes until BLEU was `goal`, or None if it never was.

    Between checkpoints BLEU is interpolated.
    """
    seconds, bleu = 0.0, 0.0
    for row in result["checkpoints"][1:]:
        if row["bleu"] >= goal:
            share = (goal - bleu) / (row["bleu"] - bleu)
            return (seconds + share * (row["seconds"] - seconds)) / 60
        seconds, bleu = row["seconds"], row["bleu"]
    return None


def tables(
    results: Mapping[str, Mapping[str, Any]], settings: quality.Settings
) -> str:
    """Returns what `evaluate` returned for each system as Markdown tables."""
    lines = [
        f"| | mode | steps | steps per minute | minutes to {GOAL:g} BLEU |",
        "|---|---|---|---|---|",
    ]
    for result in results.values():
        last = result["checkpoints"][-1]
        lines.append(
            f"| {result['system']} | {result['mode']} | {last['step']:,} "
            f"| {60 * last['step'] / last['seconds']:.1f} "
            f"| {_cell(minutes_to(GOAL, result), '.1f')} |"
        )
    for key, title, unit, every in (
        ("seconds", "minutes", 60, settings.every_seconds),
        ("step", "steps", 1, settings.every_steps),
    ):
        names = [x["system"] for x in results.values()]
        names.append("ours minus the best other")
        lines += ["", f"| BLEU after {title} | {' | '.join(names)} |"]
        lines.append("|---" * (len(names) + 1) + "|")
        most = max(x["checkpoints"][-1][key] for x in results.values())
        for mark in every * np.arange(1, most // every + 1):
            scores = {
                # That of the first step that ended then.
                name: row["bleu"]
                for name, result in results.items()
                for row in reversed(result["checkpoints"])
                if mark <= row[key] < mark + every
            }
            cells = [_cell(scores.get(name), ".2f") for name in results]
            ours = scores.pop("ours", None)
            lead = ours - max(scores.values()) if ours and scores else None
            cells.append(_cell(lead, "+.2f"))
            lines.append(f"| {mark / unit:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def figure(results: Iterable[Mapping[str, Any]]) -> Any:
    """Plots BLEU over the minutes and over the steps."""
    from keras_transformer.plotting import figures

    plot = figures.new_figure(8, 3, "Multi30k, validation")
    panels = plot.subplots(1, 2, sharey=True)
    for axes, name, key, unit in (
        (panels[0], "minutes", "seconds", 60),
        (panels[1], "steps", "step", 1),
    ):
        figures.style_axes(axes, name, "BLEU")
        for result in results:
            rows = result["checkpoints"][1:]
            axes.plot(
                [row[key] / unit for row in rows],
                [row["bleu"] for row in rows],
                label=result["system"],
            )
        axes.axhline(GOAL, color="0.6", linestyle=":")
    panels[0].legend(**figures.LEGEND)
    return plot


def main() -> None:
    """Trains, evaluates, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS]
    )
    parser.add_argument("--minutes", type=float, default=45, help="per system")
    parser.add_argument(
        "--every", type=float, default=2, help="minutes between checkpoints"
    )
    parser.add_argument(
        "--every-steps", type=int, default=200, help="and steps between them"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("runs/quality")
    )
    parser.add_argument(
        "--venvs", type=pathlib.Path, default=pathlib.Path("runs/peers")
    )
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    options.settings = settings = make_settings(options)
    data = options.output / "data"
    if (data / "settings.json").exists():
        earlier = quality.Settings.read(data)
        if earlier != settings:
            parser.error(
                f"{options.output} has different measurements. Choose "
                f"a new --output. Received: {settings}, there {earlier}"
            )
    else:
        write_data(data, settings)
    systems = {name: SYSTEMS[name] for name in options.systems}
    contender.prepare([x.contender for x in systems.values()], options.venvs)
    results = {}
    for name, system in systems.items():
        training = train(name, system, options)
        if training:
            results[name] = evaluate(name, system, training, options)
    if not results:
        sys.exit("No system has trained.")
    print(tables(results, settings))
    from keras_transformer.plotting import save_figure

    save_figure(figure(results.values()), options.output / "quality.png")


if __name__ == "__main__":
    main()
