"""The commands that make a run: their flags, and what they do."""

import argparse
import dataclasses
import shlex
from pathlib import Path

from keras_transformer.cli.options import (
    add_data,
    add_field,
    add_integer,
    add_model,
    add_output,
    add_preset,
    add_run,
    add_search,
    add_split,
    given_values,
    search_of,
)
from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import decoding_workers
from keras_transformer.tasks import TASKS
from keras_transformer.train.recipe import Recipe

_STRATEGIES = ("auto", "single", "mirrored", "multiworker")
# What a run takes from its tokenizer.
_TOKENIZER_FIELDS = {"source_vocab_size", "pad_id", "bos_id", "eos_id"}


def add_prepare_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `prepare`."""
    add_data(parser)
    add_output(parser, "folder to write")
    add_preset(parser, "small")
    parser.add_argument(
        "--init-from",
        metavar="RUN",
        help="use the tokenizer of this run, as `train --init-from` needs",
    )
    for field in dataclasses.fields(Recipe):
        if field.name in ("vocab_size", "max_length"):
            add_field(parser, Recipe, field)


def prepare(options: argparse.Namespace) -> None:
    """Tokenizes a corpus once, for trainings that start and resume at once."""
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.preparation import prepare

    values = given_values(options, Recipe)
    if options.init_from is not None and "vocab_size" in values:
        raise InputError(
            "--vocab-size is for a new tokenizer, and --init-from takes that "
            "of a run. Leave out one of them. Received: --vocab-size "
            f"{values['vocab_size']}, --init-from {options.init_from}"
        )
    recipe = Recipe.from_preset(options.preset, **values)
    prepared = prepare(
        open_corpus(options.data, options.source, options.target),
        options.output,
        recipe.vocab_size,
        recipe.max_length,
        options.init_from,
    )
    print(
        f"\nThe corpus is in {prepared.path}. Next:\n"
        f"  keras-transformer train --data {shlex.quote(options.output)} "
        f"--preset {options.preset} --output runs/mine"
    )


def add_train_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `train`."""
    add_data(parser)
    add_output(parser, "folder of the run")
    add_preset(parser, None, "small; with --init-from that of the run")
    parser.add_argument(
        "--strategy",
        choices=_STRATEGIES,
        default="auto",
        help="devices to train on (default: %(default)s)",
    )
    parser.add_argument(
        "--init-from",
        metavar="RUN",
        help="start with the tokenizer and the newest weights of this run",
    )
    recipe = parser.add_argument_group("training hyper-parameters")
    architecture = parser.add_argument_group("architecture")
    recipe_fields = dataclasses.fields(Recipe)
    for field in recipe_fields:
        add_field(recipe, Recipe, field)
    other = _TOKENIZER_FIELDS | {field.name for field in recipe_fields}
    for field in dataclasses.fields(TransformerConfig):
        if field.name not in other:
            add_field(architecture, TransformerConfig, field)


def train(options: argparse.Namespace) -> None:
    """Trains on a parallel corpus."""
    from keras_transformer.train import trainer
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.resume import default_values
    from keras_transformer.train.strategy import open_strategy

    values = given_values(options, Recipe)
    Recipe.from_preset(options.preset or "small", **values)  # checks them first
    architecture = given_values(options, TransformerConfig)
    strategy = open_strategy(options.strategy)  # before anything is computed
    corpus = open_corpus(options.data, options.source, options.target)
    preset, defaults = default_values(
        corpus, Path(options.output), options.preset, options.init_from
    )
    recipe = Recipe.from_preset(preset, **{**defaults, **values})
    run = trainer.train(
        corpus,
        options.output,
        options.preset,
        recipe,
        # vocab_size and max_length are values of the recipe.
        architecture={k: v for k, v in architecture.items() if k not in values},
        strategy=strategy,
        init_from=options.init_from,
    )
    if run is None:  # only the chief of several workers reports
        return
    print(f"\nThe run is in {run.path}. Next:")
    split = "test" if "test" in corpus.splits else corpus.splits[-1]
    if corpus.prepared is None or split != "train":  # there it has no texts
        print(
            f"  keras-transformer evaluate {run.path} "
            f"--data {shlex.join(options.data)} --split {split}"
        )
    command = "translate" if run.task.targets_are_text else "parse"
    print(
        f"  keras-transformer {command} {run.path}\n"
        f"  keras-transformer export {run.path} exported/1"
    )


def add_evaluate_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `evaluate`."""
    add_model(parser, several=False)
    add_data(parser)
    add_split(parser, "test", "split to measure")
    parser.add_argument(
        "--metric",
        nargs="+",
        metavar="NAME",
        help="; ".join(
            f"of {task.name}, some of {', '.join(task.metrics)} (default: "
            f"{', '.join(task.default_metrics)})"
            for task in TASKS.values()
        ),
    )
    add_search(parser)


def evaluate(options: argparse.Namespace) -> None:
    """Measures scores and perplexity on a split, and records them."""
    from keras_transformer.inference.run import step_of
    from keras_transformer.inference.translator import Translator
    from keras_transformer.train import evaluation
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.run import TrainingRun
    from keras_transformer.train.strategy import check_one_worker

    check_one_worker("evaluate")
    run = TrainingRun.open(options.runs[0])
    search = search_of(options, run)
    # The languages that the run translates.
    trained = run.recipe.get("source"), run.recipe.get("target")
    given = options.source or trained[0], options.target or trained[1]
    if None not in trained and given != trained:
        raise InputError(
            f"{run.path} translates from {trained[0]} to {trained[1]}. "
            f"Received: source={given[0]}, target={given[1]}"
        )
    corpus = open_corpus(options.data, *given)
    checkpoint = run.find_checkpoint(options.checkpoint)
    step = step_of(checkpoint)  # training may replace it meanwhile
    model = run.load_model(checkpoint, options.dtype)
    translator = Translator(model, run.tokenizer, search, task=run.task)
    print(f"decoding {options.split} of {corpus.name}")
    results, hypotheses = evaluation.evaluate(
        translator,
        corpus,
        options.split,
        given[1],
        decoding_workers(),
        options.metric,
    )
    results.update(evaluation.training_cost(run, step))
    # Before they are recorded, so that a full disk does not lose them.
    print(evaluation.describe(results))
    path = evaluation.record(run, checkpoint, step, results, hypotheses)
    print(f"recorded in {path}")


def add_average_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `average`."""
    add_run(parser)
    parser.add_argument("output", help="folder of the new run")
    text = (
        "number of checkpoints (default: as many as training keeps, 5 for "
        "base and 20 for big)"
    )
    add_integer(parser, "--last", None, text)


def average(options: argparse.Namespace) -> None:
    """Writes a run with the mean of the last checkpoints."""
    from keras_transformer.train import averaging
    from keras_transformer.train.run import TrainingRun
    from keras_transformer.train.strategy import check_one_worker

    check_one_worker("average")
    run = averaging.average(
        TrainingRun.open(options.run), options.output, options.last
    )
    print(f"{run.path} holds the mean of")
    for name in run.recipe["averaged"]:
        print(f"  {name}")


def presets(options: argparse.Namespace) -> None:
    """Lists the presets beside the figures of the paper."""
    print(
        f"{'preset':<19} {'parameters':>12} {'vocabulary':>11} {'batch':>7} "
        f"{'steps':>8} {'paper:':>7} {'PPL':>5} {'BLEU':>5}  description"
    )
    for name, preset in PRESETS.items():
        config = TransformerConfig.from_preset(name)
        recipe = Recipe.from_preset(name)
        paper = preset.paper_parameters
        print(
            f"{name:<19} {config.num_parameters:>12,} "
            f"{recipe.vocab_size:>11,} {recipe.batch_tokens:>7,} "
            f"{recipe.steps:>8,} {f'{paper}M' if paper else '-':>7} "
            f"{preset.paper_perplexity or '-':>5} "
            f"{preset.paper_bleu or '-':>5}  {preset.description}"
        )
    print(
        "\nThe batch is in source plus target tokens. The columns after "
        "`paper:` are from\nthe paper's Table 3: parameters, and perplexity "
        "per subword and BLEU on\nnewstest2013. Our parameters are those for "
        "the 37,000 tokens that the paper\nstates; its own figures, except "
        "big's, match a vocabulary of about 41,000."
    )


def add_demo_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `demo`."""
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="folder of the run (default: the first of runs/demo, "
        "runs/demo-2, ... that does not exist)",
    )


def demo(options: argparse.Namespace) -> None:
    """Trains, evaluates, exports and translates in a few minutes."""
    from keras_transformer.cli import demo

    demo.run_demo(options.output)
