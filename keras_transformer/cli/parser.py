"""The options of the command line.

The flags of `train` are the fields of `Recipe` and `TransformerConfig`, and
those of the search the fields of `BeamSearch` and `Sampling`.
"""

import argparse
import dataclasses
import types
import typing

from keras_transformer import __version__
from keras_transformer.cli import commands
from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from keras_transformer.search import BeamSearch, Sampling
from keras_transformer.tasks import TASKS, ParsingTask
from keras_transformer.train.recipe import Recipe

_STRATEGIES = ("auto", "single", "mirrored", "multiworker")
_TOKENIZER_FIELDS = {"pad_id", "bos_id", "eos_id"}
_PICTURE = "file to write: .png, .svg or .pdf"


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser; the option `command` is a function of `commands`."""
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description='"Attention Is All You Need": train, evaluate, translate, '
        "export.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, add_options, summary in (
        ("prepare", _add_prepare, "tokenize a large corpus for training"),
        ("train", _add_train, "train on a parallel corpus"),
        ("evaluate", _add_evaluate, "measure BLEU or F1 on a split"),
        ("ablate", _add_ablate, "train the rows of the paper's Table 3"),
        ("average", _add_average, "average the last checkpoints of a run"),
        ("translate", _add_translate, "translate standard input line by line"),
        ("parse", _add_parse, "parse standard input line by line"),
        ("score", _add_score, "score given translations"),
        ("export", _add_export, "write a SavedModel"),
        ("presets", _add_nothing, "list the presets and their parameters"),
        ("attention", _add_attention, "plot the attention of a layer"),
        ("curve", _add_curve, "plot the training of a run"),
        (
            "demo",
            _add_demo,
            "train, evaluate, export and translate in a few minutes",
        ),
    ):
        subparser = subparsers.add_parser(
            name, help=summary, allow_abbrev=False
        )
        add_options(subparser)
        subparser.set_defaults(command=getattr(commands, name))
    return parser


def _add_prepare(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder to write"
    )
    _add_preset(parser, "small")
    parser.add_argument(
        "--init-from",
        metavar="RUN",
        help="use the tokenizer of this run, as `train --init-from` needs",
    )
    for field in dataclasses.fields(Recipe):
        if field.name in ("vocab_size", "max_length"):
            _add_field(parser, Recipe, field)


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder of the run"
    )
    _add_preset(parser, "small")
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
        _add_field(recipe, Recipe, field)
    other = _TOKENIZER_FIELDS | {field.name for field in recipe_fields}
    for field in dataclasses.fields(TransformerConfig):
        if field.name not in other:
            _add_field(architecture, TransformerConfig, field)


def _add_ablate(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument(
        "--output",
        required=True,
        metavar="FOLDER",
        help="folder of the runs and of the table",
    )
    _add_preset(parser, "tiny")
    parser.add_argument(
        "--rows",
        nargs="+",
        metavar="ROW",
        help="rows beside base, by the names of their presets, e.g. A-heads-1 "
        "(default: all of A to E)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="runs per row, with the seeds 1 to N (default: %(default)s)",
    )
    recipe = parser.add_argument_group("training hyper-parameters of all rows")
    for field in dataclasses.fields(Recipe):
        if field.name != "seed":
            _add_field(recipe, Recipe, field)


def _add_preset(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--preset",
        default=default,
        metavar="NAME",
        help=f"one of {', '.join(PRESETS)} (default: %(default)s)",
    )


def _add_field(
    group: argparse._ActionsContainer, cls: type, field: dataclasses.Field
) -> None:
    """Adds the flag of a dataclass field; it has no value unless given."""
    flag = "--" + field.name.replace("_", "-")
    default = str(field.default)
    if any(
        field.name in {"vocab_size", *preset.architecture, *preset.recipe}
        for preset in PRESETS.values()
    ):
        default = f"the preset's; base: {default}"
    if cls is BeamSearch:
        of_trees = getattr(ParsingTask.search, field.name)
        if of_trees != field.default:
            default += f"; of trees: {of_trees}"
    text = f"{field.metadata['description']} (default: {default})"
    value_type = _value_type(typing.get_type_hints(cls)[field.name])
    if value_type is bool:
        group.add_argument(
            flag, action="store_true", default=argparse.SUPPRESS, help=text
        )
        return
    group.add_argument(
        flag,
        type=value_type,
        choices=field.metadata["rule"].choices or None,
        default=argparse.SUPPRESS,
        metavar=None if value_type is str else value_type.__name__.upper(),
        help=text,
    )


def _value_type(annotation: typing.Any) -> type:
    """Returns `int` for `int | None`, and any other type itself."""
    if isinstance(annotation, types.UnionType):
        return typing.get_args(annotation)[0]
    return annotation


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_checkpoint(parser)
    _add_dtype(parser)
    _add_data(parser)
    parser.add_argument(
        "--split", default="test", help="split to measure (default: test)"
    )
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
    _add_search(parser)


def _add_average(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("output", help="folder of the new run")
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        help="number of checkpoints (default: as many as training keeps, 5 "
        "for base and 20 for big)",
    )


def _add_translate(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    _add_checkpoint(parser)
    _add_dtype(parser)
    _add_search(parser)
    _add_sampling(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print N translations per line, each as line number, score and "
        "text, separated by tabs",
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="what every translation must begin with",
    )


def _add_parse(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_checkpoint(parser)
    _add_dtype(parser)
    _add_search(parser)
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the words of a line are separated by spaces already, as in the "
        "Penn Treebank",
    )
    parser.add_argument(
        "--one-line", action="store_true", help="print each tree in one line"
    )
    parser.add_argument(
        "--svg",
        metavar="FOLDER",
        help="also draw the tree of line N into FOLDER/N.svg",
    )


def _add_score(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    _add_checkpoint(parser)
    _add_search(parser, "alpha")


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    parser.add_argument("output", help="new folder, e.g. exported/1")
    _add_checkpoint(parser)
    _add_dtype(parser)
    _add_search(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        default=1,
        metavar="N",
        help="translations returned per text (default: %(default)s)",
    )
    parser.add_argument(
        "--signatures",
        nargs="+",
        metavar="NAME",
        help="signatures to write; serving_default is needed (default: all)",
    )
    parser.add_argument(
        "--serving-kit",
        action="store_true",
        help="also write warm-up requests, settings and instructions for "
        "TensorFlow Serving",
    )


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    pass


def _add_attention(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("sentence", help="the source")
    parser.add_argument("--output", required=True, help=_PICTURE)
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        default="cross",
        help="which attention (default: %(default)s)",
    )
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="layer, counted from 1 (default: the last)",
    )
    _add_checkpoint(parser)
    _add_search(parser)


def _add_curve(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--output", required=True, help=_PICTURE)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="folder of the run (default: the first of runs/demo, "
        "runs/demo-2, ... that does not exist)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="folder that `train` wrote")


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="run",
        help="folder that `train` wrote; the probabilities of several runs "
        "with the same tokenizer are averaged",
    )


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        metavar="STEP",
        help="a step, best (by validation score) or last (default: last)",
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="PATH",
        help="a folder of {train,valid,test}.LANGUAGE, of TFRecord files or "
        "of {train,valid,test}.mrg, which are trees, "
        "two text files, a .tsv file, tfds:NAME/CONFIG, a folder that "
        "`prepare` wrote, or embedded, which is the bundled corpus",
    )
    parser.add_argument(
        "--source", metavar="LANGUAGE", help="language code, e.g. en"
    )
    parser.add_argument(
        "--target", metavar="LANGUAGE", help="language code, e.g. de"
    )


def _add_dtype(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="type of weights and computation; the 16-bit types take half the "
        "space (default: %(default)s)",
    )


def _add_search(parser: argparse.ArgumentParser, *names: str) -> None:
    """Adds the flags of the fields of `BeamSearch`, or of some of them."""
    for field in dataclasses.fields(BeamSearch):
        if field.name in names or not names:
            _add_field(parser, BeamSearch, field)


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    """Adds `--sample` and the flags of what only `Sampling` has."""
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--sample",
        action="store_true",
        help="draw translations at random, in place of beam search",
    )
    shared = {field.name for field in dataclasses.fields(BeamSearch)}
    for field in dataclasses.fields(Sampling):
        if field.name not in shared:
            _add_field(group, Sampling, field)
