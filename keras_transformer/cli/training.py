"""The commands that make runs, `presets`, and `demo`."""

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

import keras_transformer as kt
from keras_transformer.cli import flags
from keras_transformer.config import TransformerConfig
from keras_transformer.convert import FORMATS
from keras_transformer.inference.opening import read_run
from keras_transformer.presets import PRESETS
from keras_transformer.support.startup import start_keras
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.recipe import Recipe

_SMALL = PRESETS["small"]
_SIZES = dict(vocab_size=_SMALL.vocab_size, **_SMALL.architecture)
_flags_of = functools.partial(flags.flags_of, defaults=_SIZES | _SMALL.recipe)
_RECIPE = {field.name for field in dataclasses.fields(Recipe)}
SizeFlags = _flags_of(
    Recipe, "Sizes", 4, without=_RECIPE - {"vocab_size", "max_length"}
)
RecipeFlags = _flags_of(
    Recipe,
    "Training hyper-parameters",
    4,
    common=("vocab_size", "steps", "batch_tokens", "max_length", "dtype"),
)
ArchitectureFlags = _flags_of(
    TransformerConfig,
    "Architecture",
    5,
    # A run takes these from its tokenizer and its recipe.
    without=_RECIPE | {"source_vocab_size", "pad_id", "bos_id", "eos_id"},
    common=("num_layers", "d_model"),
)
_FILTERS = Parameter(group=Group("Filters", sort_key=5))
_DEVICES = Parameter(group=Group("Devices" + flags.RARE, sort_key=6))


def prepare(
    data: flags.CorpusFlag = None,
    *,
    output: Path,
    corpora: flags.CorporaFlag = None,
    reading: flags.CorpusFlags = flags.CorpusFlags(),
    preset: str = "small",
    tokenizer: flags.TokenizerFlag = None,
    sizes: SizeFlags = None,
    filters: flags.FilterFlags = None,
    dropped: Annotated[Path | None, _FILTERS] = None,
) -> None:
    """Tokenize a large corpus for training.

    Args:
        output: New folder to write.
        preset: Preset whose sizes to use; `presets` lists all.
        dropped: .tsv file for dropped pairs: reason, source, target.
    """
    from keras_transformer.train import preparation

    corpus = reading.open(data, corpora)
    recipe = Recipe.from_preset(preset, **(sizes or {}))
    pair_filters = PairFilters(**(filters or {}))
    prepared = preparation.prepare(
        corpus, output, recipe, tokenizer, pair_filters, dropped
    )
    print(f"train: {prepared.statistics.describe(prepared.max_length)}")
    print(f"The corpus is in {prepared.path}")


def train(
    data: flags.CorpusFlag = None,
    *,
    output: Path | None = None,
    corpora: flags.CorporaFlag = None,
    reading: flags.CorpusFlags = flags.CorpusFlags(),
    preset: str | None = None,
    init_from: str | None = None,
    tokenizer: flags.TokenizerFlag = None,
    recipe: RecipeFlags = None,
    architecture: ArchitectureFlags = None,
    strategy: Annotated[
        Literal["auto", "single", "mirrored", "multiworker"], _DEVICES
    ] = "auto",
    dry_run: bool = False,
) -> None:
    """Train on a parallel corpus.

    Args:
        output: Run folder. Given alone, resume the training in it.
        preset: One of `presets` (default: small; or of --init-from).
        init_from: Run whose tokenizer and newest weights to start with, by
            default at a low learning rate.
        strategy: Devices to train on; mirrored and multiworker need TensorFlow.
        dry_run: Try three steps, report, and write nothing.
    """
    corpus = None
    if data or corpora or reading != flags.CorpusFlags():
        corpus = reading.open(data, corpora)
    run = kt.train.train(
        corpus,
        output,
        preset,
        recipe,
        architecture=architecture,
        strategy=strategy,
        init_from=init_from,
        tokenizer=tokenizer,
        dry_run=dry_run,
    )
    if run is not None:  # only the chief of several workers reports
        print(f"The run is in {run.path}")


def import_(
    model: str,
    *,
    output: Path,
    format: Annotated[str | None, Parameter(choices=tuple(FORMATS))] = None,
    source: str | None = None,
    target: str | None = None,
    target_language: flags.TargetLanguageFlag = None,
    revision: str | None = None,
) -> None:
    """Turn a model of a different system into a run.

    Args:
        model: Folder of a model of a different system, or Hub name
            (Helsinki-NLP/opus-mt-en-de).
        output: Folder of the run.
        format: System that wrote it (default: detected from its files).
        source: Language code of the source, e.g. en.
        target: Language code of the target, e.g. de.
        revision: Branch, tag or commit of a model by name (default: main).
    """
    foreign = kt.convert.read(model, format, target_language, revision)
    search = foreign.search
    differences = foreign.differences().items()
    rows = {
        "model": f"{foreign.system}, {foreign.config.num_parameters:,} "
        "parameters",
        "languages": " to ".join(x or "unknown" for x in foreign.languages),
        "search": f"beam {search.beam_size}, score log P / {search.formula}",
        "not the paper's": ", ".join(f"{x} {y}" for x, y in differences),
        "weights": foreign.file,
        "ignored": "; ".join(foreign.notes),
    }
    for name, value in rows.items():
        print(f"{name + ':':<17} {value or 'nothing'}")
    run = foreign.save_run(output, source, target)
    print(f"The run is in {run.path}")


def average(
    run: flags.RunFlag,
    *,
    output: Path,
    last: flags.PositiveInteger | None = None,
) -> None:
    """Average the last checkpoints of a run.

    Args:
        output: Folder of the new run.
        last: Number of checkpoints (default: as many as training keeps, 5 for
            base and 20 for big).
    """
    from keras_transformer.train import averaging

    mean = averaging.average(read_run(run), output, last)
    names = ", ".join(mean.statistics["averaged"])
    print(f"{mean.path} is the mean of {names}")


def presets() -> None:
    """List the presets and their parameters."""
    print(
        f"{'preset':<19} {'parameters':>12} {'vocabulary':>11} {'batch':>7} "
        f"{'steps':>8} {'paper':>16}  description"
    )
    for name, preset in PRESETS.items():
        size = TransformerConfig.from_preset(name).num_parameters
        recipe = Recipe.from_preset(name)
        paper = "-"
        if preset.paper_parameters is not None:
            paper = (
                f"{preset.paper_parameters}M, {preset.paper_perplexity}, "
                f"{preset.paper_bleu}"
            )
        print(
            f"{name:<19} {size:>12,} {recipe.vocab_size:>11,} "
            f"{recipe.batch_tokens:>7,} {recipe.steps:>8,} {paper:>16}  "
            f"{preset.description}"
        )
    print(
        "\nThe batch is in source plus target tokens; `paper` is the size, "
        "perplexity and\nBLEU in Table 3, mostly with 41,000 tokens."
    )


def demo(*, output: Path | None = None) -> None:
    """Train, evaluate, export and translate in a few minutes.

    The export is a SavedModel, and left out if Keras runs on JAX or PyTorch.

    Args:
        output: Folder of the run (default: the first of runs/demo,
            runs/demo-2, ... that does not exist).
    """
    if output is None:
        output = Path("runs/demo")
        number = 2
        while output.exists():
            output = Path(f"runs/demo-{number}")
            number += 1
    from keras_transformer.cli import exporting, translating

    corpus = kt.train.open_corpus(["embedded"])

    print("== 1/4 train on the bundled English-German corpus")
    recipe = {"max_length": 32, "steps_per_epoch": 250}
    run = kt.train.train(corpus, output, "tiny", recipe)

    print("\n== 2/4 translate 500 held-out sentences with beam search")
    translating.evaluate([run.path])

    model = run.path
    if start_keras() == "tensorflow":
        model = run.path / "exported" / "1"
        print("\n== 3/4 export a SavedModel and check it")
        exporting.export([run.path], output=model)
    else:
        print("\n== 3/4 skip the SavedModel, which needs TensorFlow")

    print("\n== 4/4 translate with the model")
    pairs = [("I am a student", ""), *corpus.pairs("test")][:3]
    sources = [source for source, _ in pairs]
    outputs = kt.open_translator(model).translate(sources)
    for (source, reference), translation in zip(pairs, outputs, strict=True):
        print(f"  {source}\n    -> {translation.text}")
        if reference:
            print(f"    reference: {reference}")
    # `make demo` runs the command by its path, without activating .venv.
    print(f"""
The corpus has simple sentences and a small vocabulary: the model cannot
translate anything else. To go on, after `source .venv/bin/activate`:
  echo "The old teacher reads a book." | keras-transformer translate {run.path}
  keras-transformer serve {run.path}""")
