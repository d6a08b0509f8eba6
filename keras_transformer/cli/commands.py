"""The command line: `keras-transformer COMMAND`.

Only parsing and printing live here. TensorFlow is imported by the commands
that need it, so that `--help` and `params` answer at once.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from keras_transformer import __version__
from keras_transformer.errors import InputError, advice_on, reason_of
from keras_transformer.files import read_lines
from keras_transformer.startup import import_tensorflow_quietly

if TYPE_CHECKING:
    from pathlib import Path

    from keras_transformer.run import Run
    from keras_transformer.translator import Translator

_LINES_AT_ONCE = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code.

    Returns:
        0; 2 if the input cannot be used, with a sentence on stderr; 130
        after an interrupt; 141 if what reads the output has gone, as a shell
        says of other programs.
    """
    sys.stdout.reconfigure(line_buffering=True)  # also in a pipe or file
    options = _parser().parse_args(arguments)
    try:
        if options.command is not _params:
            import_tensorflow_quietly()
        options.command(options)
    except InputError as error:
        print(f"keras-transformer: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("keras-transformer: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        told, advice = reason_of(error), advice_on(error)
        if advice:
            told = f"{advice} Received: {told}"
        elif not isinstance(error, OSError):  # such as no permission
            raise
        print(f"keras-transformer: {told}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description='"Attention Is All You Need": train, evaluate, translate, '
        "export.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train on a parallel corpus")
    _add_data(train)
    train.add_argument("--output", required=True, help="folder of the run")
    train.add_argument("--preset", default="small", help="default: small")
    for name, kind, meaning in (
        ("vocab-size", int, "tokens of the shared vocabulary"),
        ("steps", int, "updates"),
        ("steps-per-epoch", int, "updates between checkpoints"),
        ("batch-tokens", int, "source + target tokens in a batch"),
        ("warmup-steps", int, "steps over which the learning rate rises"),
        ("learning-rate-scale", float, "factor on the paper's learning rate"),
        ("label-smoothing", float, "mass taken from the right token"),
        ("max-length", int, "longest text trained on, in tokens (128)"),
        ("accumulate", int, "parts a batch is computed in, for memory (1)"),
        ("clip-norm", float, "highest norm of the gradient (any)"),
        ("keep", int, "checkpoints kept, beside the best"),
        ("patience", int, "end after N epochs without a better loss"),
        ("bleu-sentences", int, "translated after every epoch (500)"),
        ("seed", int, "of weights, dropout and data order (1)"),
        ("dtype", str, "float32, mixed_bfloat16 or mixed_float16"),
        ("num-layers", int, "instead of the preset's"),
        ("d-model", int, "instead of the preset's"),
        ("d-ff", int, "instead of the preset's"),
        ("num-heads", int, "instead of the preset's"),
        ("dropout", float, "instead of the preset's"),
    ):
        train.add_argument(f"--{name}", type=kind, help=meaning)
    for name, meaning in (
        ("tensorboard", "write TensorBoard's files into the run"),
        ("deterministic", "give the same bits in every run; slower"),
    ):
        train.add_argument(
            f"--{name}", action="store_true", default=None, help=meaning
        )
    train.add_argument(
        "--strategy",
        default="auto",
        help="auto, single, mirrored or multiworker (default: auto)",
    )
    train.add_argument(
        "--init-from",
        metavar="RUN",
        help="begin with the tokenizer and the newest weights of a run",
    )
    train.set_defaults(command=_train)

    evaluate = commands.add_parser("evaluate", help="measure BLEU on a split")
    _add_run(evaluate)
    _add_data(evaluate)
    evaluate.add_argument("--split", default="test", help="default: test")
    _add_search(evaluate)
    evaluate.set_defaults(command=_evaluate)

    average = commands.add_parser(
        "average", help="make a run of the mean of the last checkpoints"
    )
    average.add_argument("run", help="folder that train wrote")
    average.add_argument("output", help="folder of the new run")
    average.add_argument(
        "--last",
        type=int,
        help="checkpoints (as many as were kept: 5 for base, 20 for big)",
    )
    average.set_defaults(command=_average)

    translate = commands.add_parser(
        "translate", help="translate standard input, a sentence a line"
    )
    _add_run(translate)
    _add_search(translate)
    translate.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print N translations a line: number, score, text, by tabs",
    )
    translate.set_defaults(command=_translate)

    export = commands.add_parser("export", help="write a SavedModel")
    _add_run(export)
    export.add_argument("output", help="new folder, e.g. exported/1")
    _add_search(export)
    export.add_argument(
        "--n-best", type=int, default=1, help="translations returned (1)"
    )
    export.set_defaults(command=_export)

    params = commands.add_parser(
        "params", help="list the presets and their parameters"
    )
    params.set_defaults(command=_params)

    attention = commands.add_parser(
        "attention", help="draw the attention of a layer"
    )
    _add_run(attention)
    attention.add_argument("sentence", help="the source")
    attention.add_argument("--output", required=True, help="PNG, SVG or PDF")
    attention.add_argument(
        "--kind", choices=("encoder", "decoder", "cross"), default="cross"
    )
    attention.add_argument(
        "--layer", type=int, help="from 1 (default: the last)"
    )
    _add_search(attention)
    attention.set_defaults(command=_attention)

    curve = commands.add_parser("curve", help="draw how a run was trained")
    curve.add_argument("run", help="folder that train wrote")
    curve.add_argument("--output", required=True, help="PNG, SVG or PDF")
    curve.set_defaults(command=_curve)

    demo = commands.add_parser(
        "demo", help="train, evaluate, export and translate in minutes"
    )
    demo.add_argument("--output", help="folder (default: runs/demo, or next)")
    demo.set_defaults(command=_demo)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="folder that train wrote")
    parser.add_argument(
        "--checkpoint",
        metavar="STEP",
        help="a step, best (by validation BLEU) or last (the default)",
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="PATH",
        help="a folder of train|valid|test.LANGUAGE or of TFRecords, two "
        "files, a .tsv, tfds:NAME/CONFIG, or embedded",
    )
    parser.add_argument("--source", help="language code, e.g. en")
    parser.add_argument("--target", help="language code, e.g. de")


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beam-size", type=int, default=4, help="1: greedy")
    parser.add_argument(
        "--alpha", type=float, default=0.6, help="length penalty (0.6)"
    )


def _train(options: argparse.Namespace) -> None:
    from keras_transformer.config import TransformerConfig
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.recipe import Recipe
    from keras_transformer.train.strategy import open_strategy
    from keras_transformer.train.trainer import train

    strategy = open_strategy(options.strategy)  # before anything is computed
    given = {k: v for k, v in vars(options).items() if v is not None}
    of_recipe = set(Recipe.__dataclass_fields__)
    of_model = set(TransformerConfig.__dataclass_fields__) - of_recipe
    corpus = open_corpus(options.data, options.source, options.target)
    run = train(
        corpus,
        options.output,
        options.preset,
        Recipe.from_preset(
            options.preset, **{k: given[k] for k in of_recipe & set(given)}
        ),
        architecture={k: given[k] for k in sorted(of_model & set(given))},
        strategy=strategy,
        init_from=options.init_from,
    )
    if run is None:  # another worker writes
        return
    split = "test" if "test" in corpus.splits else corpus.splits[-1]
    print(
        f"\nThe run is in {run.path}. Next:\n"
        f"  keras-transformer evaluate {run.path} "
        f"--data {shlex.join(options.data)} --split {split}\n"
        f"  keras-transformer translate {run.path}\n"
        f"  keras-transformer export {run.path} exported/1"
    )


def _load(
    options: argparse.Namespace, num_translations: int = 1
) -> tuple["Translator", "Run", "Path", int]:
    """Returns what translates, and the run, checkpoint and step it is of."""
    from keras_transformer.decoding import BeamSearch
    from keras_transformer.run import Run, step_of
    from keras_transformer.translator import Translator

    search = BeamSearch(options.beam_size, options.alpha)
    run = Run.open(options.run)
    checkpoint = run.find_checkpoint(options.checkpoint)
    model, step = run.load_model(checkpoint), step_of(checkpoint)
    translator = Translator(model, run.tokenizer, search, num_translations)
    return translator, run, checkpoint, step


def _evaluate(options: argparse.Namespace) -> None:
    from keras_transformer.train.data.corpus import open_corpus
    from keras_transformer.train.evaluation import describe, evaluate, record

    translator, run, checkpoint, step = _load(options)
    source = options.source or run.recipe.get("source")
    target = options.target or run.recipe.get("target")
    trained = run.recipe.get("source"), run.recipe.get("target")
    if (target, source) == trained and source is not None:
        raise InputError(
            f"{run.path} translates from {trained[0]} to {trained[1]}. "
            f"Received: source={source}, target={target}"
        )
    corpus = open_corpus(options.data, source, target)
    print(f"translating {options.split} of {corpus.name}")
    results, hypotheses = evaluate(translator, corpus, options.split, target)
    # First, since it must not be lost if it cannot be written.
    print(describe(results))
    path = record(run, checkpoint, step, results, hypotheses)
    print(f"recorded in {path}")


def _average(options: argparse.Namespace) -> None:
    from keras_transformer.run import Run
    from keras_transformer.train.averaging import average

    run = average(Run.open(options.run), options.output, options.last)
    print(f"{run.path} holds the mean of")
    for name in run.recipe["averaged"]:
        print(f"  {name}")


def _translate(options: argparse.Namespace) -> None:
    n = 1 if options.n_best is None else options.n_best
    translator, *_ = _load(options, n)
    at_once = 1 if sys.stdin.isatty() else _LINES_AT_ONCE
    lines = read_lines(sys.stdin.buffer)
    number = 0
    while texts := list(islice(lines, at_once)):
        for translation in translator.translate(texts):
            number += 1
            if options.n_best:
                for score, text in zip(
                    translation.scores, translation.texts, strict=True
                ):
                    print(f"{number}\t{score:.4f}\t{_one_line(text)}")
            else:
                print(_one_line(translation.texts[0]))
            if translation.truncated:
                print(
                    f"keras-transformer: line {number} was truncated: it or "
                    "its translation exceeds the model's longest sentence of "
                    f"{translator.model.config.max_length} tokens, or source "
                    f"+ {translator.search.extra_length}",
                    file=sys.stderr,
                )


def _one_line(text: str) -> str:
    """A model may spell line ends byte by byte; output stays a line."""
    return " ".join(text.splitlines())


def _export(options: argparse.Namespace) -> None:
    from keras_transformer.export import save

    translator, *_ = _load(options, options.n_best)
    print(f"exporting {options.run}")
    path = save(translator, options.output)
    print(
        f"{path} holds a SavedModel, loaded in a fresh process and compared "
        "with the run"
    )


def _params(options: argparse.Namespace) -> None:
    from keras_transformer.config import TransformerConfig
    from keras_transformer.presets import PRESETS

    print(
        f"{'preset':<16} {'parameters':>12} {'vocabulary':>11} {'batch':>7} "
        f"{'steps':>8} {'paper:':>7} {'PPL':>5} {'BLEU':>5}  description"
    )
    for name, preset in PRESETS.items():
        count = TransformerConfig.from_preset(name).num_parameters
        paper = preset.paper_parameters
        print(
            f"{name:<16} {count:>12,} {preset.vocab_size:>11,} "
            f"{preset.batch_tokens:>7,} {preset.steps:>8,} "
            f"{f'{paper}M' if paper else '-':>7} "
            f"{preset.paper_perplexity or '-':>5} "
            f"{preset.paper_bleu or '-':>5}  {preset.description}"
        )
    print(
        "\nA batch is of so many source and target tokens. Behind it is what "
        "the paper's\nTable 3 prints: parameters, and perplexity a subword "
        "and BLEU on newstest2013.\nIts presets are counted with its 37,000 "
        "tokens; its own counts, but that of big,\nfit a vocabulary of about "
        "41,000 better."
    )


def _attention(options: argparse.Namespace) -> None:
    from keras_transformer.plotting import attention_figure, save_figure
    from keras_transformer.translation_attention import attention_of

    translator, *_ = _load(options)
    weights, rows, columns, title = attention_of(
        translator, options.sentence, options.kind, options.layer
    )
    save_figure(attention_figure(weights, rows, columns, title), options.output)
    print(f"{title}: {options.output}")


def _curve(options: argparse.Namespace) -> None:
    from keras_transformer.plotting import save_figure, training_figure
    from keras_transformer.run import Run
    from keras_transformer.train.callbacks import read_log

    run = Run.open(options.run)
    rows = read_log(run.log_path)
    save_figure(training_figure(rows, run.path.name), options.output)
    print(f"{len(rows):,} epochs of {run.path}: {options.output}")


def _demo(options: argparse.Namespace) -> None:
    from keras_transformer.cli.demo import demo

    demo(options.output)


if __name__ == "__main__":
    sys.exit(main())
