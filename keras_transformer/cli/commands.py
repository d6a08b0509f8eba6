"""The commands: each takes the parsed options and prints.

TensorFlow is imported by the commands that need it, so that `--help` and
`presets` answer at once.
"""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli import terminal
from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.presets import PRESETS
from keras_transformer.search import BeamSearch, Sampling, Search, converted
from keras_transformer.startup import available_cores, decoding_workers
from keras_transformer.train.recipe import Recipe

if TYPE_CHECKING:
    from keras_transformer.run import Run
    from keras_transformer.translator import Translator


def train(options: argparse.Namespace) -> None:
    """Trains on a parallel corpus."""
    from keras_transformer.train import trainer
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.strategy import open_strategy

    values = _given_values(options, Recipe)
    Recipe.from_preset(options.preset, **values)  # checks them first
    architecture = _given_values(options, TransformerConfig)
    strategy = open_strategy(options.strategy)  # before anything is computed
    corpus = open_corpus(options.data, options.source, options.target)
    if corpus.prepared is not None:
        values = corpus.prepared.recipe_values() | values
    recipe = Recipe.from_preset(options.preset, **values)
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
    print(
        f"  keras-transformer {_command_of(run)} {run.path}\n"
        f"  keras-transformer export {run.path} exported/1"
    )


def prepare(options: argparse.Namespace) -> None:
    """Tokenizes a corpus once, for trainings that start and resume at once."""
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.preparation import prepare

    values = _given_values(options, Recipe)
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


def evaluate(options: argparse.Namespace) -> None:
    """Measures scores and perplexity on a split, and records them."""
    from keras_transformer.run import step_of
    from keras_transformer.train import evaluation
    from keras_transformer.train.cost import training_cost
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.run import TrainingRun
    from keras_transformer.translator import Translator

    run = TrainingRun.open(options.run)
    search = _search(options, run)
    source, target = _language_pair(options, run)
    corpus = open_corpus(options.data, source, target)
    checkpoint = run.find_checkpoint(options.checkpoint)
    step = step_of(checkpoint)  # training may replace it meanwhile
    model = run.load_model(checkpoint, options.dtype)
    translator = Translator(model, run.tokenizer, search, task=run.task)
    print(f"decoding {options.split} of {corpus.name}")
    results, hypotheses = evaluation.evaluate(
        translator,
        corpus,
        options.split,
        target,
        decoding_workers(),
        options.metric,
    )
    results.update(training_cost(run, step))
    # Before they are recorded, so that a full disk does not lose them.
    print(evaluation.describe(results))
    path = evaluation.record(run, checkpoint, step, results, hypotheses)
    print(f"recorded in {path}")


def ablate(options: argparse.Namespace) -> None:
    """Trains and evaluates rows of Table 3, and prints the table."""
    from keras_transformer.train import ablation
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.strategy import open_strategy

    values = _given_values(options, Recipe)
    table = ablation.ablate(
        open_corpus(options.data, options.source, options.target),
        options.output,
        options.preset,
        ablation.ablation_recipe(options.preset, **values),
        rows=options.rows,
        seeds=options.seeds,
        strategy=open_strategy(),
    )
    print(f"\n{table}")


def average(options: argparse.Namespace) -> None:
    """Writes a run with the mean of the last checkpoints."""
    from keras_transformer.train import averaging
    from keras_transformer.train.run import TrainingRun

    run = averaging.average(
        TrainingRun.open(options.run), options.output, options.last
    )
    print(f"{run.path} holds the mean of")
    for name in run.recipe["averaged"]:
        print(f"  {name}")


def translate(options: argparse.Namespace) -> None:
    """Translates standard input line by line."""
    print_scores = options.n_best is not None
    n = options.n_best if print_scores else 1
    translator = _open_translator(options.runs, options, n, options.dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "The runs must be for translation. Received: runs for "
            f"{translator.task.name}. Use `keras-transformer parse`."
        )
    limit = translator.tensors.ids.max_length
    workers = decoding_workers()
    number = 0
    for lines in terminal.read_lines():
        prefixes = [options.prefix] * len(lines)
        for translation in translator.translate(
            lines, workers=workers, prefixes=prefixes
        ):
            number += 1
            texts = [_one_line(text) for text in translation.texts]
            if print_scores:
                for score, text in zip(translation.scores, texts, strict=True):
                    print(f"{number}\t{score:.4f}\t{text}")
            else:
                print(texts[0])
            if translation.source_truncated:
                terminal.report(
                    f"line {number} was truncated: it has more than "
                    f"{limit - 1} tokens, which is all that the model reads"
                )
            if translation.at_length_limit:
                terminal.report(
                    f"the translation of line {number} may be incomplete: it "
                    f"has as many tokens as it may have, {limit} or fewer "
                    "(--extra-length, --length-factor)"
                )


def parse(options: argparse.Namespace) -> None:
    """Parses standard input line by line."""
    from keras_transformer.cli.parse import open_parser, parse_lines
    from keras_transformer.run import Run

    run = Run.open(options.run)
    parser = open_parser(
        run,
        options.checkpoint,
        _search(options, run),
        options.dtype,
        split_words=not options.tokenized,
    )
    parse_lines(parser, options.one_line, options.svg)


def score(options: argparse.Namespace) -> None:
    """Scores the translations that standard input has beside their sources."""
    translator = _open_translator(options.runs, options)
    number = 0
    for lines in terminal.read_lines():
        pairs = []
        for line in lines:
            number += 1
            pair = line.split("\t")
            if len(pair) != 2:
                raise InputError(
                    "Each line must be a source, a tab and its translation. "
                    f"Received: line {number} with {len(pair) - 1} tabs"
                )
            pairs.append(pair)
        sources, targets = zip(*pairs, strict=True)
        for found in translator.score(sources, targets):
            print(f"{found.score:.4f}\t{found.perplexity:.4f}")


def export(options: argparse.Namespace) -> None:
    """Writes a SavedModel."""
    from keras_transformer.export import save
    from keras_transformer.export.serving_kit import check_kit, write_kit

    if options.serving_kit:
        check_kit(options.output)
    translator = _open_translator(
        options.runs, options, options.n_best, options.dtype
    )
    output = Path(options.output)
    if not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(options.runs)}")
    path = save(
        translator,
        options.output,
        include=options.signatures,
    )
    print(
        f"{path} holds a SavedModel, which was loaded in a new process and "
        "translates as the run does"
    )
    if options.serving_kit:
        for file in write_kit(path, available_cores()):
            print(f"wrote {file}")


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


def attention(options: argparse.Namespace) -> None:
    """Plots the attention of a layer while a sentence is translated."""
    from keras_transformer.plotting import save_figure, translation_figure

    found = _open_translator([options.run], options).attention(options.sentence)
    figure = translation_figure(found, options.kind, options.layer)
    save_figure(figure, options.output)
    print(f"the attention is plotted in {options.output}")


def curve(options: argparse.Namespace) -> None:
    """Plots the loss and the score of a run over its training."""
    from keras_transformer.plotting import save_figure, training_figure
    from keras_transformer.run import Run
    from keras_transformer.train.log import read_log

    run = Run.open(options.run)
    rows = read_log(run.log_path)
    figure = training_figure(rows, run.path.name, run.task.watched_label)
    save_figure(figure, options.output)
    print(f"{len(rows):,} epochs are plotted in {options.output}")


def demo(options: argparse.Namespace) -> None:
    """Trains, evaluates, exports and translates in a few minutes."""
    from keras_transformer.cli import demo

    demo.run_demo(options.output)


def _command_of(run: "Run") -> str:
    """Returns the command that reads sources from standard input."""
    return "translate" if run.task.targets_are_text else "parse"


def _given_values(options: argparse.Namespace, cls: type) -> dict:
    """Returns the values of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(cls)]
    given = vars(options)
    return {name: given[name] for name in names if name in given}


def _open_translator(
    runs: Sequence[str],
    options: argparse.Namespace,
    num_translations: int = 1,
    dtype: str | None = None,
) -> "Translator":
    from keras_transformer.run import Run
    from keras_transformer.translator import Translator

    search = _search(options, Run.open(runs[0]))
    return Translator.open(
        runs, options.checkpoint, search, num_translations, dtype
    )


def _search(options: argparse.Namespace, run: "Run") -> Search:
    """Returns the settings of the search.

    What was not given is the default of the run's task.

    Raises:
        InputError: If values are invalid, or of the other kind of search.
    """
    default = run.task.search
    if "sample" not in options:  # the command has beam search only
        given = _given_values(options, BeamSearch)
        return dataclasses.replace(default, **given)
    kind, other, problem = (
        (Sampling, BeamSearch, "Options of beam search exclude --sample.")
        if options.sample
        else (BeamSearch, Sampling, "Options of sampling need --sample.")
    )
    values = _given_values(options, kind)
    refused = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in _given_values(options, other).items()
        if name not in values
    ]
    if refused:
        raise InputError(f"{problem} Received: {' '.join(refused)}")
    return dataclasses.replace(converted(default, kind), **values)


def _language_pair(
    options: argparse.Namespace, run: "Run"
) -> tuple[str | None, str | None]:
    """Returns the languages to evaluate on: those that the run translates.

    Raises:
        InputError: If others were given on the command line.
    """
    trained = run.recipe.get("source"), run.recipe.get("target")
    given = options.source or trained[0], options.target or trained[1]
    if None not in trained and given != trained:
        raise InputError(
            f"{run.path} translates from {trained[0]} to {trained[1]}. "
            f"Received: source={given[0]}, target={given[1]}"
        )
    return given


def _one_line(text: str) -> str:
    """Returns a text without line ends, which a model may spell."""
    return " ".join(text.splitlines())
